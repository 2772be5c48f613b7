package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"

	"hotpath/internal/format"
)

// framed is one of the pieces that a post-processor makes of a text: ids, and
// the text itself between them in one of the pieces. A Sequence hands pieces on:
// what follows a template that adds a token sees two of them, and takes the text
// and the token for a pair, as the reference does.
type framed struct {
	text           bool
	prefix, suffix []int32
}

// post is a post-processor.
type post func(in []framed) ([]framed, error)

// postProcessors holds the post-processors of tokenizer.json by type.
var postProcessors map[string]func(p *jsonPart) (post, error)

func init() { // a Sequence reads the table that it stands in
	postProcessors = map[string]func(p *jsonPart) (post, error){
		"ByteLevel":          func(*jsonPart) (post, error) { return func(in []framed) ([]framed, error) { return in, nil }, nil }, // it moves offsets only
		"BertProcessing":     func(p *jsonPart) (post, error) { return pairPost(p, false) },
		"RobertaProcessing":  func(p *jsonPart) (post, error) { return pairPost(p, true) },
		"TemplateProcessing": templatePost,
		"Sequence":           sequencePost,
	}
}

// pairPost reads {"cls": ["[CLS]", 101], "sep": ["[SEP]", 102]}: one cls at the
// beginning, a sep behind every piece, and RoBERTa's before all but the first.
func pairPost(p *jsonPart, twice bool) (post, error) {
	var raw struct{ Cls, Sep []json.RawMessage }
	if err := p.decode(&raw); err != nil {
		return nil, err
	}
	id := func(field string, pair []json.RawMessage) (int32, error) {
		var n int32
		if len(pair) != 2 || json.Unmarshal(pair[1], &n) != nil || n < 0 {
			return 0, p.errorf(field, "expected [token, id]")
		}
		return n, nil
	}
	cls, err := id("cls", raw.Cls)
	if err != nil {
		return nil, err
	}
	sep, err := id("sep", raw.Sep)
	return func(in []framed) ([]framed, error) {
		out := make([]framed, len(in))
		for i, f := range in {
			if i == 0 {
				f.prefix = append([]int32{cls}, f.prefix...)
			} else if twice {
				f.prefix = append([]int32{sep}, f.prefix...)
			}
			if f.suffix = append(f.suffix[:len(f.suffix):len(f.suffix)], sep); !f.text {
				f.prefix, f.suffix = slices.Concat(f.prefix, f.suffix), nil
			}
			out[i] = f
		}
		return out, nil
	}, err
}

// templateItem is one of a template: the piece number part, or ids where it is
// negative.
type templateItem struct {
	part int
	ids  []int32
}

// templatePost reads the templates for a single text and for two.
func templatePost(p *jsonPart) (post, error) {
	type item struct {
		SpecialToken *struct{ ID string }
		Sequence     *struct{ ID string }
	}
	var raw struct {
		Single, Pair  []item
		SpecialTokens map[string]struct{ IDs []int32 } `json:"special_tokens"`
	}
	if err := p.decode(&raw); err != nil {
		return nil, err
	}
	read := func(field string, items []item, parts int) ([]templateItem, error) {
		var out []templateItem
		var found [2]int
		for _, it := range items {
			switch {
			case it.Sequence != nil:
				part := 0
				if parts == 2 && it.Sequence.ID == "B" {
					part = 1
				} else if it.Sequence.ID != "A" {
					return nil, p.errorf(field, "names sequence %q, expected A%s", it.Sequence.ID, []string{"", " or B"}[parts-1])
				}
				found[part]++
				out = append(out, templateItem{part: part})
			case it.SpecialToken != nil:
				token, ok := raw.SpecialTokens[it.SpecialToken.ID]
				if !ok {
					return nil, p.errorf(field, "names %q, which special_tokens does not have", it.SpecialToken.ID)
				}
				for _, id := range token.IDs {
					if id < 0 {
						return nil, p.errorf("special_tokens", "%q has id %d, expected 0 or more", it.SpecialToken.ID, id)
					}
				}
				out = append(out, templateItem{part: -1, ids: token.IDs})
			}
		}
		for _, n := range found[:parts] {
			if n != 1 {
				return nil, p.errorf(field, "has the text %d times, expected once", n)
			}
		}
		return out, nil
	}
	single, err := read("single", raw.Single, 1)
	if err != nil {
		return nil, err
	}
	return func(in []framed) ([]framed, error) {
		items := single
		switch len(in) {
		case 1:
		case 2:
			if items, err = read("pair", raw.Pair, 2); err != nil {
				return nil, err
			}
		default:
			return nil, p.errorf("type", "TemplateProcessing behind one that makes %d pieces of a text, expected one or two: %w", len(in), format.ErrUnsupported)
		}
		var out []framed
		for _, it := range items {
			if it.part < 0 {
				out = append(out, framed{prefix: it.ids})
			} else {
				out = append(out, in[it.part])
			}
		}
		return out, nil
	}, nil
}

func sequencePost(p *jsonPart) (post, error) {
	parts, err := p.list("processors")
	if err != nil {
		return nil, err
	}
	var all []post
	for _, part := range parts {
		one, err := lookup(postProcessors, part)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return func(in []framed) (_ []framed, err error) {
		for i, one := range all {
			if in, err = one(in); err == nil {
				err = parts[i].checkFrame(in)
			}
			if err != nil {
				return nil, err
			}
		}
		return in, nil
	}, nil
}

// checkFrame refuses a post-processor that puts too many ids around a text. Pieces share the ids of the file
// until somebody joins them, so this comes first.
func (p *jsonPart) checkFrame(pieces []framed) error {
	n := 0
	for _, f := range pieces {
		n += len(f.prefix) + len(f.suffix)
	}
	if n > maxFrame {
		return fmt.Errorf("%s: %s: this %s puts %d ids around a text, expected at most %d", p.file, p.path, p.kind, n, maxFrame)
	}
	return nil
}

// frame is what a post-processor, read from p, puts before and behind the ids of one text.
func (process post) frame(p *jsonPart) (prefix, suffix []int32, err error) {
	pieces, err := process([]framed{{text: true}})
	if err == nil {
		err = p.checkFrame(pieces)
	}
	if err != nil {
		return nil, nil, err
	}
	behind := false
	for _, f := range pieces {
		if f.text {
			prefix, suffix, behind = append(prefix, f.prefix...), append(suffix, f.suffix...), true
		} else if behind {
			suffix = append(suffix, f.prefix...)
		} else {
			prefix = append(prefix, f.prefix...)
		}
	}
	return prefix, suffix, nil
}

// checkIDs makes sure that every id around a text exists.
func checkIDs(v *vocab, around ...[]int32) error {
	for _, ids := range around {
		for _, id := range ids {
			if _, ok := v.token(id); !ok {
				return fmt.Errorf("post_processor: id %d is not in the vocabulary", id)
			}
		}
	}
	return nil
}
