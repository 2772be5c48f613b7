package tokenizer

import (
	"encoding/json"
	"fmt"
)

// frame is what a post-processor puts around the ids of one text.
type frame struct{ prefix, suffix []int32 }

// postProcessors holds the post-processors of tokenizer.json by type.
var postProcessors map[string]func(p *jsonPart) (frame, error)

func init() { // a Sequence reads the table that it stands in
	postProcessors = map[string]func(p *jsonPart) (frame, error){
		"ByteLevel":          func(*jsonPart) (frame, error) { return frame{}, nil }, // it moves offsets only
		"BertProcessing":     pairFrame,
		"RobertaProcessing":  pairFrame,
		"TemplateProcessing": templateFrame,
		"Sequence":           sequenceFrame,
	}
}

// pairFrame reads {"cls": ["[CLS]", 101], "sep": ["[SEP]", 102]}.
func pairFrame(p *jsonPart) (frame, error) {
	var raw struct{ Cls, Sep []json.RawMessage }
	if err := p.decode(&raw); err != nil {
		return frame{}, err
	}
	id := func(field string, pair []json.RawMessage) ([]int32, error) {
		var n int32
		if len(pair) != 2 || json.Unmarshal(pair[1], &n) != nil || n < 0 {
			return nil, p.errorf(field, "expected [token, id]")
		}
		return []int32{n}, nil
	}
	cls, err := id("cls", raw.Cls)
	if err != nil {
		return frame{}, err
	}
	sep, err := id("sep", raw.Sep)
	return frame{cls, sep}, err
}

// templateFrame reads the template for a single text; the one for pairs is not used.
func templateFrame(p *jsonPart) (frame, error) {
	var raw struct {
		Single []struct {
			SpecialToken *struct{ ID string }
			Sequence     *struct{ ID string }
		}
		SpecialTokens map[string]struct{ IDs []int32 } `json:"special_tokens"`
	}
	if err := p.decode(&raw); err != nil {
		return frame{}, err
	}
	var f frame
	texts := 0
	for _, piece := range raw.Single {
		switch {
		case piece.Sequence != nil:
			if piece.Sequence.ID != "A" {
				return f, p.errorf("single", "names sequence %q, expected A", piece.Sequence.ID)
			}
			texts++
		case piece.SpecialToken != nil:
			token, ok := raw.SpecialTokens[piece.SpecialToken.ID]
			if !ok {
				return f, p.errorf("single", "names %q, which special_tokens does not have", piece.SpecialToken.ID)
			}
			for _, id := range token.IDs {
				if id < 0 {
					return f, p.errorf("special_tokens", "%q has id %d, expected 0 or more", piece.SpecialToken.ID, id)
				}
			}
			if texts == 0 {
				f.prefix = append(f.prefix, token.IDs...)
			} else {
				f.suffix = append(f.suffix, token.IDs...)
			}
		}
	}
	if texts != 1 {
		return f, p.errorf("single", "has the text %d times, expected once", texts)
	}
	return f, nil
}

func sequenceFrame(p *jsonPart) (frame, error) {
	parts, err := p.list("processors")
	if err != nil {
		return frame{}, err
	}
	var f frame
	for _, part := range parts {
		inner, err := lookup(postProcessors, part)
		if err != nil {
			return f, err
		}
		f.prefix = append(inner.prefix, f.prefix...)
		f.suffix = append(f.suffix, inner.suffix...)
	}
	return f, nil
}

// checkFrame makes sure that every id of the frame exists.
func checkFrame(f frame, v *vocab) error {
	for _, ids := range [][]int32{f.prefix, f.suffix} {
		for _, id := range ids {
			if _, ok := v.token(id); !ok {
				return fmt.Errorf("post_processor: id %d is not in the vocabulary", id)
			}
		}
	}
	return nil
}
