package tokenizer

import (
	"fmt"
	"strings"

	"hotpath/internal/format"
)

// Meta is the metadata of a GGUF file. Each method reports whether the key is there with that type.
type Meta interface {
	String(key string) (string, bool)
	Strings(key string) ([]string, bool)
	Ints(key string) ([]int64, bool)
	Uint(key string) (uint64, bool)
	Bool(key string) (bool, bool)
	Floats(key string) ([]float32, bool)
}

// Token types of GGUF (tokenizer.ggml.token_type) that matter here.
const (
	ggufUnknown     = 2
	ggufControl     = 3
	ggufUserDefined = 4
)

// ggufModels holds the kinds of tokenizer.ggml.model.
var ggufModels = map[string]func(t *Tokenizer, m Meta, tokens []string) error{
	"gpt2": ggufBPE,
	"bert": ggufWordPiece,
}

// ggufPre holds the pre-tokenizers of byte-level BPE by tokenizer.ggml.pre.
var ggufPre = map[string]struct {
	steps  []step
	whole  bool // a piece that is a token is that token, whatever the merges say
	addBOS bool // unless the file says otherwise
}{
	"default": {steps: []step{
		cutter(cutPunctRuns), cutter(cutGPT2), classCut{classNumber, contiguous}, cutter(cutThreeDigits),
	}},
	"gpt-2":     {steps: []step{cutter(cutGPT2)}},
	"smollm":    {steps: []step{classCut{classNumber, isolated}, cutter(cutGPT2)}},
	"llama-bpe": {steps: []step{cutter(cutLlama3)}, whole: true, addBOS: true},
	"qwen2":     {steps: []step{cutter(cutQwen2)}},
}

// FromGGUF builds a tokenizer from the metadata of a GGUF file. Errors name the file if m has a Name.
func FromGGUF(m Meta) (*Tokenizer, error) {
	t, err := fromGGUF(m)
	if err == nil {
		return t, nil
	}
	if file, ok := m.(interface{ Name() string }); ok {
		err = fmt.Errorf("%s: %w", file.Name(), err)
	}
	return nil, err
}

func fromGGUF(m Meta) (*Tokenizer, error) {
	kind, ok := m.String("tokenizer.ggml.model")
	if !ok {
		return nil, fmt.Errorf("tokenizer.ggml.model: expected a string")
	}
	build, ok := ggufModels[kind]
	if !ok {
		return nil, fmt.Errorf("tokenizer.ggml.model: is %q, expected one of %s: %w", kind, names(ggufModels), format.ErrUnsupported)
	}
	tokens, ok := m.Strings("tokenizer.ggml.tokens")
	if !ok || len(tokens) == 0 {
		return nil, fmt.Errorf("tokenizer.ggml.tokens: expected an array of strings")
	}
	t := new(Tokenizer)
	for r := range roleCount {
		id, ok := m.Uint(roleNames[r].gguf)
		if !ok || id == 1<<32-1 { // all ones stand for none
			continue
		}
		if id >= uint64(len(tokens)) {
			return nil, fmt.Errorf("%s: is %d, expected less than the %d tokens", roleNames[r].gguf, id, len(tokens))
		}
		t.named.set(r, int32(id))
	}
	if err := build(t, m, tokens); err != nil {
		return nil, err
	}
	list, err := ggufAdded(t, m, tokens)
	if err != nil {
		return nil, err
	}
	t.named.guess(t.vocab, roleEOT)
	t.chat, _ = m.String("tokenizer.chat_template")
	t.added, err = newAddedTokens(list, t.norm, t.vocab)
	return t, err
}

// ggufAdded lists the tokens that are matched as a whole, by their type.
func ggufAdded(t *Tokenizer, m Meta, tokens []string) ([]addedToken, error) {
	types, ok := m.Ints("tokenizer.ggml.token_type")
	if ok && len(types) != len(tokens) {
		return nil, fmt.Errorf("tokenizer.ggml.token_type: has %d entries, expected %d, one for each token", len(types), len(tokens))
	}
	var list []addedToken
	for id, kind := range types {
		if special := kind == ggufControl || kind == ggufUnknown; special || kind == ggufUserDefined {
			list = append(list, addedToken{content: tokens[id], id: int32(id), special: special})
		}
	}
	return list, nil
}

// ggufVocab numbers the tokens by their place.
func ggufVocab(tokens []string) (*vocab, error) {
	v := newVocab(len(tokens))
	for id, token := range tokens {
		if err := v.add(token, int64(id)); err != nil {
			return nil, fmt.Errorf("tokenizer.ggml.tokens: %w", err)
		}
	}
	return v, nil
}

func ggufBPE(t *Tokenizer, m Meta, tokens []string) error {
	pre, ok := m.String("tokenizer.ggml.pre")
	if !ok {
		pre = "default"
	}
	row, ok := ggufPre[pre]
	if !ok {
		return fmt.Errorf("tokenizer.ggml.pre: is %q, expected one of %s: %w", pre, names(ggufPre), format.ErrUnsupported)
	}
	v, err := ggufVocab(tokens)
	if err != nil {
		return err
	}
	lines, ok := m.Strings("tokenizer.ggml.merges")
	if !ok {
		return fmt.Errorf("tokenizer.ggml.merges: expected an array of strings")
	}
	b := &bpe{vocab: v, unk: -1, whole: row.whole, merges: newPairTable(len(lines))}
	var merges mergesJSON
	if err := merges.parse(lines); err != nil {
		return fmt.Errorf("tokenizer.ggml.merges: %w", err)
	}
	for i, merge := range merges {
		left, a := v.id(merge[0])
		right, c := v.id(merge[1])
		merged, d := v.id(merge[0] + merge[1])
		if !a || !c || !d {
			return fmt.Errorf("tokenizer.ggml.merges: entry %d joins %.100q and %.100q: they or the result are not in tokenizer.ggml.tokens", i, merge[0], merge[1])
		}
		b.merges.put(left, right, uint32(i), merged, false)
	}
	b.spell(true)
	t.vocab, t.model, t.steps, t.decoder = v, b, row.steps, byteLevelDecoder{rawAdded: true}
	return ggufFrame(t, m, row.addBOS, roleBOS, roleEOS)
}

// ggufFrame adds BOS and EOS where the file asks for them.
func ggufFrame(t *Tokenizer, m Meta, addBOS bool, bos, eos role) error {
	add := func(key string, add bool, r role) ([]int32, error) {
		if v, ok := m.Bool(key); ok {
			add = v
		}
		if !add {
			return nil, nil
		}
		id, ok := t.named.get(r)
		if !ok {
			return nil, fmt.Errorf("%s: expected %s beside it", key, roleNames[r].gguf)
		}
		return []int32{id}, nil
	}
	var err error
	if t.prefix, err = add("tokenizer.ggml.add_bos_token", addBOS, bos); err != nil {
		return err
	}
	t.suffix, err = add("tokenizer.ggml.add_eos_token", false, eos)
	return err
}

// ggufWordPiece reads BERT's vocabulary as converters write it: "##" is dropped from the pieces that
// continue a word, and those that begin one have "▁" before them. We spell them as the model's own
// vocabulary does, and normalize as its own tokenizer does: both ways to a model give the same ids.
func ggufWordPiece(t *Tokenizer, m Meta, tokens []string) error {
	spelled := make([]string, len(tokens))
	cased := false
	for i, token := range tokens {
		if word, ok := strings.CutPrefix(token, "▁"); ok {
			spelled[i] = word
			cased = cased || strings.ContainsFunc(word, func(r rune) bool { return 'A' <= r && r <= 'Z' })
		} else if strings.HasPrefix(token, "[") && strings.HasSuffix(token, "]") {
			spelled[i] = token
		} else {
			spelled[i] = "##" + token
		}
	}
	v, err := ggufVocab(spelled)
	if err != nil {
		return err
	}
	t.named.guess(v, roleUNK, roleCLS, roleSEP, rolePAD, roleMASK)
	var ids [3]int32
	for i, r := range []role{roleUNK, roleCLS, roleSEP} {
		id, ok := t.named.get(r)
		if !ok {
			return fmt.Errorf("%s: expected an id, for the vocabulary has none of %s", roleNames[r].gguf, strings.Join(roleNames[r].guess, ", "))
		}
		ids[i] = id
	}
	t.vocab, t.model = v, newWordPiece(v, "##", ids[0], 100)
	t.norm = bertNormalizer{clean: true, han: true, strip: !cased, lower: !cased}
	t.steps, t.decoder = []step{cutter(cutBert)}, wordPieceDecoder{"##", true}
	t.prefix, t.suffix = ids[1:2:2], ids[2:3:3]
	return nil
}
