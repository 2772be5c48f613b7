package tokenizer

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"hotpath/internal/format"
)

// Meta is the metadata of a GGUF file. Each method reports whether the key is there with that type, Has
// whether it is there at all.
type Meta interface {
	Has(key string) bool
	Len(key string) int // of an array, 0 for anything else
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
	"gpt2":  ggufBPE,
	"bert":  ggufWordPiece,
	"llama": ggufSentencePiece,
	"t5":    ggufUnigram,
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

// mistyped is the error of a key that is there and of another type: it must not pass for a missing one.
func mistyped(m Meta, key, what string) error {
	if !m.Has(key) {
		return nil
	}
	return fmt.Errorf("%s: expected %s: %w", key, what, format.ErrInvalid)
}

// ggufStrings and ggufBools are the keys of these types that a file may lack.
var (
	ggufStrings = []string{"tokenizer.ggml.pre", "tokenizer.chat_template"}
	ggufBools   = []string{"tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token", "tokenizer.ggml.add_space_prefix",
		"tokenizer.ggml.remove_extra_whitespaces", "tokenizer.ggml.normalizer.lowercase", "tokenizer.ggml.normalizer.strip_accents"}
)

func checkTypes(m Meta) error {
	for _, key := range ggufStrings {
		if _, ok := m.String(key); !ok {
			if err := mistyped(m, key, "a string"); err != nil {
				return err
			}
		}
	}
	for _, key := range ggufBools {
		if _, ok := m.Bool(key); !ok {
			if err := mistyped(m, key, "true or false"); err != nil {
				return err
			}
		}
	}
	return nil
}

func fromGGUF(m Meta) (*Tokenizer, error) {
	if err := checkTypes(m); err != nil {
		return nil, err
	}
	kind, ok := m.String("tokenizer.ggml.model")
	if !ok {
		return nil, fmt.Errorf("tokenizer.ggml.model: expected a string")
	}
	build, ok := ggufModels[kind]
	if !ok {
		return nil, fmt.Errorf("tokenizer.ggml.model: is %q, expected one of %s: %w", kind, names(ggufModels), format.ErrUnsupported)
	}
	if n := m.Len("tokenizer.ggml.tokens"); n > maxTokens {
		return nil, fmt.Errorf("tokenizer.ggml.tokens: has %d entries, expected at most %d", n, maxTokens)
	}
	tokens, ok := m.Strings("tokenizer.ggml.tokens")
	if !ok || len(tokens) == 0 {
		return nil, fmt.Errorf("tokenizer.ggml.tokens: expected an array of strings")
	}
	t := new(Tokenizer)
	for r := range roleCount {
		key := roleNames[r].gguf
		id, ok := m.Uint(key)
		if !ok {
			if err := mistyped(m, key, "a token's id"); err != nil {
				return nil, err
			}
			continue
		}
		if id == 1<<32-1 { // all ones stand for none
			continue
		}
		if id >= uint64(len(tokens)) {
			return nil, fmt.Errorf("%s: is %d, expected less than the %d tokens", key, id, len(tokens))
		}
		t.named.set(r, int32(id))
	}
	if err := build(t, m, tokens); err != nil {
		return nil, err
	}
	list, err := ggufAdded(m, tokens)
	if err != nil {
		return nil, err
	}
	t.named.guess(t.vocab, roleEOT)
	t.chat, _ = m.String("tokenizer.chat_template")
	t.added, err = newAddedTokens(list, t.norm, t.vocab)
	return t, err
}

// ggufAdded lists the tokens that are matched as a whole, by their type.
func ggufAdded(m Meta, tokens []string) ([]addedToken, error) {
	const key = "tokenizer.ggml.token_type"
	var types []int64
	if m.Has(key) {
		var err error
		if types, err = ggufColumn(m, key, m.Ints, "integers", tokens); err != nil {
			return nil, err
		}
	}
	name, _ := m.String("general.name")
	name = strings.ToLower(name)
	phi3 := strings.Contains(name, "phi-3") || strings.Contains(name, "phi3")
	var list []addedToken
	for id, kind := range types {
		added := addedToken{id: int32(id)}
		switch kind {
		case ggufControl, ggufUnknown:
			added.flags = addedSpecial
		case ggufUserDefined:
		default:
			continue
		}
		if tokens[id] == "" {
			continue
		}
		// The file has no place for it, but the model's own tokenizer drops the space after these.
		if phi3 && tokens[id] != "<unk>" && tokens[id] != "<s>" && tokens[id] != "<|endoftext|>" {
			added.flags |= addedRstrip
		}
		list = append(list, added)
	}
	return list, nil
}

// ggufColumn reads an array that has an entry for each token. Its length is checked first: no more is decoded
// than there are tokens.
func ggufColumn[T any](m Meta, key string, read func(string) ([]T, bool), what string, tokens []string) ([]T, error) {
	if n := m.Len(key); n != len(tokens) {
		if err := mistyped(m, key, "an array of "+what); err != nil && n == 0 {
			return nil, err
		}
		return nil, fmt.Errorf("%s: has %d entries, expected %d, one for each token", key, n, len(tokens))
	}
	column, ok := read(key)
	if !ok {
		return nil, mistyped(m, key, "an array of "+what)
	}
	return column, nil
}

// ggufVocab numbers the tokens by their place. The first of equal tokens counts.
func ggufVocab(tokens []string) (*vocab, error) {
	var size room
	for _, token := range tokens {
		size.reserve(len(token))
	}
	v, err := newVocab(size, int64(len(tokens))-1, 0)
	if err != nil {
		return nil, fmt.Errorf("tokenizer.ggml.tokens: %w", err)
	}
	for id, token := range tokens {
		if err := v.addToken(viewBytes(token), int64(id), false); err != nil {
			return nil, fmt.Errorf("tokenizer.ggml.tokens: %w", err)
		}
	}
	return v, nil
}

func ggufBPE(t *Tokenizer, m Meta, tokens []string) error {
	pre, ok := m.String("tokenizer.ggml.pre")
	if !ok {
		pre = "default"
		if arch, _ := m.String("general.architecture"); ggufArch[arch] != "" {
			pre = ggufArch[arch] // files older than the field
		}
	}
	row, ok := ggufPre[pre]
	if !ok {
		return fmt.Errorf("tokenizer.ggml.pre: is %.100q, expected one of %s: %w", pre, names(ggufPre), format.ErrUnsupported)
	}
	v, err := ggufVocab(tokens)
	if err != nil {
		return err
	}
	// A merge makes a token, and a token can be cut at each of its bytes.
	if n := m.Len("tokenizer.ggml.merges"); n > len(v.text) {
		return fmt.Errorf("tokenizer.ggml.merges: has %d entries, expected at most %d, the bytes of all tokens", n, len(v.text))
	}
	lines, ok := m.Strings("tokenizer.ggml.merges")
	if !ok {
		return fmt.Errorf("tokenizer.ggml.merges: expected an array of strings")
	}
	b := &bpe{vocab: v, unk: -1, whole: row.whole}
	if b.merges, err = newPairTable(len(lines), len(v.text), len(v.at)); err != nil {
		return fmt.Errorf("tokenizer.ggml.merges: %w", err)
	}
	for i, line := range lines {
		if strings.HasPrefix(line, "#version") {
			continue
		}
		left, right, ok := cutMerge(viewBytes(line))
		if !ok {
			return fmt.Errorf("tokenizer.ggml.merges: entry %d is %.100q, expected two tokens and a space between them", i, line)
		}
		if !b.addMerge(left, right, false) {
			return fmt.Errorf("tokenizer.ggml.merges: entry %d joins %.100q and %.100q: they or the result are not in tokenizer.ggml.tokens", i, left, right)
		}
	}
	steps, err := row.make()
	if err != nil {
		return err
	}
	b.spell(!slices.Contains(steps, step(spellBytes{})))
	t.vocab, t.model, t.steps, t.decoder = v, b, steps, byteLevelDecoder{rawAdded: true}
	if row.nfc {
		t.norm = form{norm.NFC}
	}
	return ggufFrame(t, m, row.bos, false, roleBOS, roleEOS)
}

// ggufFrame adds BOS and EOS where the file asks for them.
func ggufFrame(t *Tokenizer, m Meta, addBOS, addEOS bool, bos, eos role) error {
	add := func(key string, add bool, r role) ([]int32, error) {
		asked, said := m.Bool(key)
		if said {
			add = asked
		}
		id, ok := t.named.get(r)
		if !add || !ok && !said {
			return nil, nil
		}
		if !ok {
			return nil, fmt.Errorf("%s: expected %s beside it", key, roleNames[r].gguf)
		}
		return []int32{id}, nil
	}
	var err error
	if t.prefix, err = add("tokenizer.ggml.add_bos_token", addBOS, bos); err != nil {
		return err
	}
	t.suffix, err = add("tokenizer.ggml.add_eos_token", addEOS, eos)
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
			return fmt.Errorf("%s: expected an id, because the vocabulary has none of %s", roleNames[r].gguf, strings.Join(roleNames[r].guess, ", "))
		}
		ids[i] = id
	}
	model, err := newWordPiece(v, "##", ids[0], 100)
	if err != nil {
		return fmt.Errorf("tokenizer.ggml.tokens: %w", err)
	}
	t.vocab, t.model = v, model
	lower := !cased
	if v, ok := m.Bool("tokenizer.ggml.normalizer.lowercase"); ok {
		lower = v
	}
	strip := lower
	if v, ok := m.Bool("tokenizer.ggml.normalizer.strip_accents"); ok {
		strip = v
	}
	t.norm = bertNormalizer{clean: true, han: true, strip: strip, lower: lower}
	t.steps, t.decoder = []step{cutter(cutBert)}, wordPieceDecoder("##", true)
	t.prefix, t.suffix = ids[1:2:2], ids[2:3:3]
	return nil
}
