package tokenizer

import (
	"encoding/binary"
	"fmt"
	"testing"
	"unicode/utf8"
)

// FuzzTokenizerGGUF makes metadata of bytes: tokens and merges of lines, scores and types of numbers.
func FuzzTokenizerGGUF(f *testing.F) {
	kinds := []string{"gpt2", "bert", "llama", "t5"}
	pres := []string{"default", "gpt-2", "falcon", "deepseek-v3", "gpt-4o", "bloom", "chameleon", "superbpe"}
	f.Add(uint8(0), uint8(1), "a\nb\nab\n ", "a b", []byte{1, 1, 1, 3}, "ab ab")
	f.Add(uint8(1), uint8(0), "[UNK]\n[CLS]\n[SEP]\n▁a\nb", "", []byte{3, 3, 3, 1, 1}, "ab é")
	f.Add(uint8(2), uint8(0), "<unk>\n<s>\n▁\na\n▁a\n▁▁\n<0x0A>", "", []byte{2, 3, 1, 1, 1, 4, 6}, " a  a\na")
	f.Add(uint8(3), uint8(0), "<unk>\n</s>\n▁\na\n▁a\nb", "\x04\x00\x00\x00\x00\x00\x00\x00a\x00", []byte{2, 3, 1, 1, 4, 5}, "a b ab ▁")
	f.Fuzz(func(t *testing.T, kind, pre uint8, tokens, extra string, types []byte, text string) {
		const p = "tokenizer.ggml."
		m := meta{p + "model": kinds[int(kind)%len(kinds)], p + "pre": pres[int(pre)%len(pres)]}
		list := splitLines(tokens)
		scores, numbers, blob := make([]float32, len(list)), make([]int64, len(list)), make([]int64, len(extra))
		for i := range list {
			if len(types) > 0 {
				numbers[i] = int64(types[i%len(types)] % 8)
				scores[i] = -float32(types[(i+1)%len(types)])
			}
		}
		for i := range blob {
			blob[i] = int64(extra[i])
		}
		m[p+"tokens"], m[p+"scores"], m[p+"token_type"], m[p+"merges"], m[p+"precompiled_charsmap"] = list, scores, numbers, splitLines(extra), blob
		m[p+"add_space_prefix"], m[p+"unknown_token_id"] = pre&1 == 0, uint64(pre)
		tok, err := FromGGUF(m)
		if err != nil || len(text) > 1000 {
			return
		}
		checkAnswers(t, tok, text)
	})
}

func splitLines(s string) (lines []string) {
	for len(s) > 0 && len(lines) < 1000 {
		n := 0
		for n < len(s) && s[n] != '\n' {
			n++
		}
		lines = append(lines, s[:n])
		s = s[min(n+1, len(s)):]
	}
	return lines
}

// checkAnswers looks at what holds for every tokenizer: ids exist, a second time gives the same, and a
// stream gives what Decode does.
func checkAnswers(t *testing.T, tok *Tokenizer, text string) {
	t.Helper()
	var s Scratch
	for _, o := range []Options{{}, {Special: true, ParseSpecial: true}} {
		ids := tok.Encode(nil, text, o, &s)
		for _, id := range ids {
			if _, ok := tok.Token(id); !ok {
				t.Fatalf("id %d is not in the vocabulary", id)
			}
		}
		if again := tok.Encode(nil, text, o, nil); fmt.Sprint(ids) != fmt.Sprint(again) {
			t.Fatalf("%q gives %v, then %v", text, ids, again)
		}
		decoded := tok.Decode(ids, false)
		if !utf8.ValidString(decoded) {
			t.Fatalf("%v decodes to broken UTF-8", ids)
		}
		if got := streamed(tok, ids, true); got != decoded {
			t.Fatalf("%v streams to %q, decodes to %q", ids, got, decoded)
		}
	}
}

// FuzzFamilies encodes and decodes with every family of the sets.
func FuzzFamilies(f *testing.F) {
	var toks []*Tokenizer
	for _, family := range setFamilies(f) {
		if family.File == "" {
			toks = append(toks, family.open(f))
		}
	}
	for i, text := range setTexts(f)[:300] {
		f.Add(uint8(i), text)
	}
	f.Fuzz(func(t *testing.T, which uint8, text string) {
		if len(text) < 2000 {
			checkAnswers(t, toks[int(which)%len(toks)], text)
		}
	})
}

// FuzzCharsmap reads tables that may lead anywhere.
func FuzzCharsmap(f *testing.F) {
	table := binary.LittleEndian.AppendUint32(nil, 8)
	f.Add(append(table, 0, 4, 0, 0, 97, 1, 0, 0, 98, 0), "aéb\r\n")
	f.Fuzz(func(t *testing.T, blob []byte, text string) {
		c, err := newCharsmap(blob)
		if err != nil || c == nil || len(text) > 1000 {
			return
		}
		if out := c.normalize(nil, appendValid(nil, text), new(Scratch)); !utf8.Valid(out) {
			t.Fatalf("%q becomes broken UTF-8 %q", text, out)
		}
	})
}
