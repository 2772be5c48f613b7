package tokenizer

import (
	"encoding/base64"
	"slices"
	"strings"
	"sync"
	"testing"
)

// asGGUF writes a tokenizer as converters do.
func asGGUF(tok *Tokenizer, kind, pre string) meta {
	const p = "tokenizer.ggml."
	m := meta{p + "model": kind, p + "pre": pre}
	tokens, types := make([]string, tok.Size()), make([]int64, tok.Size())
	for id := range tokens {
		token, _ := tok.Token(int32(id))
		switch types[id] = 1; {
		case tok.IsSpecial(int32(id)):
			types[id] = ggufControl
		case kind == "bert" && strings.HasPrefix(token, "##"):
			token = token[2:]
		case kind == "bert":
			token = "▁" + token
		}
		tokens[id] = token
	}
	if b, ok := tok.model.(*bpe); ok {
		merges := make([]string, len(b.merges.merged))
		for _, slot := range b.merges.slots {
			if slot != emptyPair {
				key := slot >> b.merges.rankBits
				left, right := key>>b.merges.idBits, key&(1<<b.merges.idBits-1)
				merges[slot&b.merges.rankMask] = tokens[left] + " " + tokens[right]
			}
		}
		m[p+"merges"] = merges
	}
	m[p+"tokens"], m[p+"token_type"] = tokens, types
	return m
}

// TestRoutesAgree holds GGUF metadata to the tokenizer.json that it was made from.
func TestRoutesAgree(t *testing.T) {
	texts := goldenTexts(t)
	var variants []variant
	readGolden(t, "bpe_variants.json", &variants)
	for _, c := range []struct{ base, variant, kind, pre string }{
		{"bpe", "bpe", "gpt2", "gpt-2"},
		{"bpe", "bpe digits", "gpt2", "smollm"},
		{"wordpiece", "", "bert", "whatever"},
	} {
		i := slices.IndexFunc(variants, func(v variant) bool { return v.Name == c.variant })
		file := assemble(t, c.base, nil)
		if i >= 0 {
			file = assemble(t, c.base, variants[i].Change)
		}
		want, err := FromJSON(c.variant, file, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := FromGGUF(asGGUF(want, c.kind, c.pre))
		if err != nil {
			t.Fatal(err)
		}
		var s Scratch // shared: the word cache must notice that the tokenizer changes
		for _, text := range texts {
			o := Options{Special: true, ParseSpecial: true}
			a, b := want.Encode(nil, text, o, &s), got.Encode(nil, text, o, &s)
			if !slices.Equal(a, b) {
				t.Errorf("%s: %q gives %v from tokenizer.json and %v from GGUF", c.pre, text, a, b)
			} else if x, y := want.Decode(a, false), got.Decode(a, false); x != y {
				t.Errorf("%s: %v decodes to %q from tokenizer.json and %q from GGUF", c.pre, a, x, y)
			}
		}
	}
}

// TestFamiliesAsGGUF holds every pre-tokenizer that GGUF files name to the family's tokenizer.json.
func TestFamiliesAsGGUF(t *testing.T) {
	texts := setTexts(t)
	if testing.Short() {
		texts = texts[:2000]
	}
	for _, f := range setFamilies(t) {
		if f.Pre == "" {
			continue
		}
		delete(f.Change, "added")
		want := f.open(t)
		got, err := FromGGUF(asGGUF(want, "gpt2", f.Pre))
		if err != nil {
			t.Fatal(err)
		}
		var a, b []int32
		var s, s2 Scratch
		bad := 0
		for i, text := range texts {
			if i%4 != 0 {
				continue
			}
			a, b = want.Encode(a[:0], text, Options{ParseSpecial: true}, &s), got.Encode(b[:0], text, Options{ParseSpecial: true}, &s2)
			if !slices.Equal(a, b) && bad < 3 {
				bad++
				t.Errorf("%s: %+q gives %v from tokenizer.json and %v from GGUF", f.Pre, text, a, b)
			}
		}
	}
	for name, row := range ggufPre { // those that no family stands for can at least be made
		if _, err := row.make(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUnigramAsGGUF holds the metadata that converters make of T5 to its tokenizer.json.
func TestUnigramAsGGUF(t *testing.T) {
	list := setFamilies(t)
	f := list[slices.IndexFunc(list, func(f family) bool { return f.Name == "t5" })]
	want := f.open(t)
	u := want.model.(*unigram)
	const p = "tokenizer.ggml."
	n := want.Size()
	tokens, types, scores := make([]string, n), make([]int64, n), make([]float32, n)
	for id := range tokens {
		tokens[id], _ = want.Token(int32(id))
		types[id], scores[id] = 1, float32(u.score(int32(id)))
		if want.IsSpecial(int32(id)) {
			types[id] = ggufControl
		}
	}
	types[0] = ggufUnknown
	blob, err := base64.StdEncoding.DecodeString(string(readSet(t, "charsmap.txt")))
	if err != nil {
		t.Fatal(err)
	}
	table := make([]int64, len(blob))
	for i, b := range blob {
		table[i] = int64(b)
	}
	got, err := FromGGUF(meta{p + "model": "t5", p + "tokens": tokens, p + "token_type": types, p + "scores": scores,
		p + "precompiled_charsmap": table, p + "eos_token_id": uint64(2), p + "add_space_prefix": true, p + "remove_extra_whitespaces": true})
	if err != nil {
		t.Fatal(err)
	}
	var s, s2 Scratch
	bad := 0
	for _, text := range setTexts(t) {
		o := Options{Special: true, ParseSpecial: true}
		a, b := want.Encode(nil, text, o, &s), got.Encode(nil, text, o, &s2)
		if x, y := want.Decode(a, false), got.Decode(b, false); (!slices.Equal(a, b) || x != y) && bad < 5 {
			bad++
			t.Errorf("%+q gives %v, %q from tokenizer.json and %v, %q from GGUF", text, a, x, b, y)
		}
	}
}

// TestConcurrentUse lets goroutines share a tokenizer, each with its own Scratch.
func TestConcurrentUse(t *testing.T) {
	texts := goldenTexts(t)
	tok := fromGolden(t, "bpe")
	var want [][]int32
	for _, text := range texts {
		want = append(want, tok.Encode(nil, text, Options{}, nil))
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			var s Scratch
			for i, text := range texts {
				if got := tok.Encode(nil, text, Options{}, &s); !slices.Equal(got, want[i]) {
					t.Errorf("%q gives %v, alone %v", text, got, want[i])
				}
			}
		})
	}
	group.Wait()
}
