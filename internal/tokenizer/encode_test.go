package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// fromGolden reads one of the small trained tokenizers.
func fromGolden(t testing.TB, base string) *Tokenizer {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", base+".json"))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := FromJSON(base, data, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

const prose = "The machine counts what it does: every step has its time, its bytes and its operations, and their sum is the whole; 1599 isn't 42.\n\tMore   spaces, [brackets] and foo_bar(x) != \"y\" follow. "

func TestEncodeDoesNotAllocate(t *testing.T) {
	long := strings.Repeat(prose, 20) + strings.Repeat("abcde", 100)
	cases := map[string]*Tokenizer{"bpe": fromGolden(t, "bpe"), "wordpiece": fromGolden(t, "wordpiece")}
	llama, err := FromJSON("llama3", assemble(t, "bpe", map[string]json.RawMessage{
		"pre_tokenizer": json.RawMessage(`{"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},{"type":"Split","pattern":{"Regex":` + jsonString(llama3Pattern) + `},"behavior":"Isolated","invert":false},{"type":"ByteLevel","add_prefix_space":true,"use_regex":false}]}`),
		"model":         json.RawMessage(`{"ignore_merges":true}`),
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	cases["llama3"] = llama
	if cases["other pattern"], err = FromJSON("other", assemble(t, "bpe", map[string]json.RawMessage{
		"pre_tokenizer": json.RawMessage(`{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":` + jsonString("(?:"+llama3Pattern+")") + `},"behavior":"Isolated"},{"type":"Split","pattern":{"String":"e"},"behavior":"MergedWithNext"},{"type":"ByteLevel","add_prefix_space":true,"use_regex":false}]}`),
	}), nil); err != nil {
		t.Fatal(err)
	}
	for name, tok := range cases {
		for kind, text := range map[string]string{"ascii": long, "accents": strings.Repeat("Größe, façade, naïve, 北京. ", 20)} {
			var s Scratch
			dst := tok.Encode(nil, text, Options{Special: true, ParseSpecial: true}, &s)
			n := testing.AllocsPerRun(10, func() {
				dst = tok.Encode(dst[:0], text, Options{Special: true, ParseSpecial: true}, &s)
			})
			if n != 0 {
				t.Errorf("%s, %s: %v allocations a call, expected none", name, kind, n)
			}
		}
	}
}

// TestLongWord encodes words that a quadratic merge would not finish.
func TestLongWord(t *testing.T) {
	for _, base := range []string{"bpe", "chars", "wordpiece"} {
		tok := fromGolden(t, base)
		for _, unit := range []string{"a", "the", "é", " ", "'", "1", "\n ", "<|", "\u0301"} {
			text := strings.Repeat(unit, 1<<20/len(unit))
			ids := tok.Encode(nil, text, Options{}, nil)
			if base == "bpe" && tok.Decode(ids, false) != text {
				t.Errorf("%s: a megabyte of %q does not come back", base, unit)
			}
		}
	}
}

// TestMergesAgree holds the merging of long words to that of short ones.
func TestMergesAgree(t *testing.T) {
	tok := fromGolden(t, "bpe")
	m := tok.model.(*bpe)
	for _, word := range []string{"thethethethe", "mothersbrothers", "aaaaaaaaaaaaaaaaaaaaaaa", "andandshallspeakandcomewith", "xyz"} {
		var s Scratch
		b := &s.bpe
		b.ids = m.symbols(nil, []byte(word), b)
		long := m.mergeLong(nil, b)
		b.ids = m.symbols(nil, []byte(word), b)
		m.mergeShort(b)
		if !slices.Equal(long, b.ids) {
			t.Errorf("%q: long %v, short %v", word, long, b.ids)
		}
	}
}

func TestAppendValid(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "",
		"plain":                    "plain",
		"é北🙂":                      "é北🙂",
		"a\xffb":                   "a\uFFFDb",
		"\xe2\x82":                 "\uFFFD",
		"\xe2\x82a":                "\uFFFDa",
		"\xf0\x9f\x98":             "\uFFFD",
		"\xed\xa0\x80":             "\uFFFD\uFFFD\uFFFD",
		"\xc0\xaf":                 "\uFFFD\uFFFD",
		"\xf4\x90\x80\x80":         "\uFFFD\uFFFD\uFFFD\uFFFD",
		"\xf0\x80\x80\x80":         "\uFFFD\uFFFD\uFFFD\uFFFD",
		"\xe1\x80\xe2\xf0\x91\x92": "\uFFFD\uFFFD\uFFFD",
	} {
		if got := string(appendValid(nil, in)); got != want {
			t.Errorf("%+q: got %+q, want %+q", in, got, want)
		}
	}
}

func TestStream(t *testing.T) {
	tok := fromGolden(t, "bpe")
	text := "naïve 🙂 北京"
	ids := tok.Encode(nil, text, Options{}, nil)
	s := tok.NewStream()
	var parts []string
	for _, id := range ids {
		part := s.Push(id)
		if !utf8.ValidString(part) || strings.ContainsRune(part, utf8.RuneError) {
			t.Errorf("part %q is not complete", part)
		}
		parts = append(parts, part)
	}
	if got := strings.Join(parts, "") + s.Flush(); got != text {
		t.Errorf("got %q, want %q", got, text)
	}
	if parts[len(parts)-1] == "" {
		t.Error("the last character waits although it is complete")
	}
	smile := tok.Encode(nil, "🙂", Options{}, nil)
	s.Push(smile[0])
	if got := s.Flush(); got != "\uFFFD" {
		t.Errorf("half a character flushes to %q, want U+FFFD", got)
	}
	if got := s.Push(0) + s.Flush(); got != "" {
		t.Errorf("a special token streams as %q, want nothing", got)
	}
	s.KeepSpecial = true
	if got := s.Push(0); got != "<|endoftext|>" {
		t.Errorf("a special token that is kept streams as %q", got)
	}
}

// Pieces of a text share memory, and stay as they are while others follow.
func TestStreamAllocatesSeldom(t *testing.T) {
	tok := fromGolden(t, "bpe")
	text := strings.Repeat("naïve 🙂 北京, and so on; ", 40)
	ids := tok.Encode(nil, text, Options{}, nil)
	s, parts := tok.NewStream(), make([]string, len(ids))
	n := testing.AllocsPerRun(5, func() {
		for i, id := range ids {
			parts[i] = s.Push(id)
		}
	})
	if got := strings.Join(parts, ""); got != text {
		t.Errorf("got %.60q, want %.60q", got, text)
	}
	if most := float64(len(text)/keptBytes + 2); n > most {
		t.Errorf("%v allocations for %d tokens, expected %v at most", n, len(ids), most)
	}
}

func TestAccessors(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "bpe.json"))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := FromJSON("bpe", data, []byte(`{"bos_token":"<|im_start|>","eos_token":{"content":"<|im_end|>"},"pad_token":null,"unk_token":"<none>","chat_template":[{"name":"tools","template":"T"},{"name":"default","template":"{{ messages }}"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if id, ok := tok.BOS(); !ok || id != 1 {
		t.Errorf("BOS is %d, %v", id, ok)
	}
	if id, ok := tok.EOS(); !ok || id != 2 {
		t.Errorf("EOS is %d, %v", id, ok)
	}
	if _, ok := tok.PAD(); ok {
		t.Error("PAD exists although the configuration has none")
	}
	if _, ok := tok.UNK(); ok {
		t.Error("UNK exists although the vocabulary has none")
	}
	if !tok.IsSpecial(1) || tok.IsSpecial(100) || tok.IsSpecial(-1) {
		t.Error("IsSpecial is wrong")
	}
	if !tok.IsEnd(2) || tok.IsEnd(0) {
		t.Error("IsEnd is wrong")
	}
	if tok.ChatTemplate() != "{{ messages }}" {
		t.Errorf("chat template %q", tok.ChatTemplate())
	}
	if tok.Size() != 1200 {
		t.Errorf("size %d, want 1200", tok.Size())
	}
	id, ok := tok.ID("Ġthe")
	if text, back := tok.Token(id); !ok || !back || text != "Ġthe" {
		t.Errorf("Ġthe is %d, which is %q", id, text)
	}
	for _, id := range []int32{-1, 1200, 1<<31 - 1} {
		if _, ok := tok.Token(id); ok {
			t.Errorf("id %d exists", id)
		}
	}
	if got := tok.Decode([]int32{-1, id, 1 << 30}, false); got != " the" {
		t.Errorf("unknown ids decode to %q", got)
	}
}

func BenchmarkEncode(b *testing.B) {
	text := strings.Repeat(prose, 100)
	if data, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "corpus", "wikitext2-valid.txt")); err == nil {
		text = string(data[:min(len(data), 1<<19)]) // a cache of words has it less easy with real text
	}
	for _, base := range []string{"bpe", "wordpiece"} {
		b.Run(base, func(b *testing.B) { benchmark(b, fromGolden(b, base), text) })
	}
	for _, name := range []string{"ggml-vocab-gpt-2.gguf", "ggml-vocab-bert-bge.gguf"} {
		b.Run(name, func(b *testing.B) {
			tok, err := FromGGUF(sharedVocab(b, name))
			if err != nil {
				b.Fatal(err)
			}
			benchmark(b, tok, text)
		})
	}
}

func benchmark(b *testing.B, tok *Tokenizer, text string) {
	var s Scratch
	dst := tok.Encode(nil, text, Options{Special: true}, &s)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		dst = tok.Encode(dst[:0], text, Options{Special: true}, &s)
	}
	b.ReportMetric(float64(len(dst))*float64(b.N)/b.Elapsed().Seconds(), "tok/s")
}

// Nobody waits for the ids of a text that are not wanted any more.
func TestEncodeEndsWhenDone(t *testing.T) {
	done := make(chan struct{})
	tok := fromGolden(t, "wordpiece")
	text := strings.Repeat("many words ", 1000)
	o := Options{Special: true, Done: done}
	var s Scratch
	whole := len(tok.Encode(nil, text, o, &s))
	close(done)
	if n := len(tok.Encode(nil, text, o, &s)); n > len(tok.prefix)+len(tok.suffix) {
		t.Errorf("%d ids of %d were made after the end", n, whole)
	}
	var b Batch
	tok.EncodeBatch(&b, []string{text, text}, o, 2)
	if n := len(b.IDs(0)) + len(b.IDs(1)); n != 0 {
		t.Errorf("%d ids of a batch were made after the end", n)
	}
}

// Bytes that a byte-level vocabulary lacks fall back to the tokens of what spells them.
func TestByteLevelFallsBack(t *testing.T) {
	tok, err := FromJSON("x", []byte(`{"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true},"model":{"type":"BPE","byte_fallback":true,
		"vocab":{"<0xC4>":0,"<0xA0>":1,"a":2,"b":3,"ab":4,"<0xC3>":5},"merges":["a b"]}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	// The space is spelled U+0120, which is C4 A0; the bytes of é have no tokens.
	if got, want := tok.Encode(nil, "ab abé", Options{}, nil), []int32{4, 0, 1, 4}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Special tokens that the normalizer spells otherwise are not left out: the reference knows them by the
// other spelling.
func TestSkipsSpecialBySpelling(t *testing.T) {
	tok, err := FromJSON("x", []byte(`{"normalizer":{"type":"Lowercase"},"model":{"type":"WordLevel","vocab":{"a":0},"unk_token":"a"},"added_tokens":[
		{"id":1,"content":"LEFT","special":true,"normalized":true},{"id":2,"content":"end","special":true,"normalized":true}]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	ids := tok.Encode(nil, "LEFTxend", Options{ParseSpecial: true}, nil)
	if !slices.Equal(ids, []int32{1, 0, 2}) || tok.Decode(ids, true) != "left a" || tok.Decode(ids, false) != "left a end" {
		t.Errorf("%v: %q, %q", ids, tok.Decode(ids, true), tok.Decode(ids, false))
	}
}

// Metaspace's "first" is a piece that begins in the text's first character, through every part that rewrites
// it. The ids are those of Hugging Face tokenizers 0.23.
func TestMetaspaceFirst(t *testing.T) {
	const metaspace = `{"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true}`
	for _, c := range []struct {
		normalizer, before string
		chars              bool // each character is a piece
		text               string
		want               []int32
	}{
		{`null`, `{"type":"ByteLevel","add_prefix_space":true,"use_regex":false}`, true, "\u00e9a", []int32{0, 3, 0, 6, 0, 7, 1}},
		{`null`, `{"type":"Metaspace","replacement":"_","prepend_scheme":"always","split":false}`, true, "ab", []int32{0, 8, 0, 1, 2}},
		{`null`, `{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}`, true, "\u00e9a", []int32{0, 6, 0, 7, 1}},
		{`null`, `{"type":"CharDelimiterSplit","delimiter":"a"},{"type":"ByteLevel","add_prefix_space":true,"use_regex":false}`, false, "ab", []int32{3, 2}},
		{`{"type":"Prepend","prepend":"x"}`, ``, true, "ab", []int32{0, 9, 0, 1, 2}},
		{`{"type":"Sequence","normalizers":[{"type":"Strip","strip_left":true,"strip_right":false},{"type":"Prepend","prepend":"x"}]}`, ``, true, " ab", []int32{9, 1, 2}},
		{`{"type":"Replace","pattern":{"String":"''"},"content":"\""}`, ``, true, "'''a", []int32{4, 5, 1}},
		{`{"type":"Replace","pattern":{"Regex":"a"},"content":"bx"}`, ``, true, "ab", []int32{0, 2, 0, 9, 2}},
		{`{"type":"NFC"}`, `{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}`, true, "e\u0301a", []int32{0, 6, 0, 7, 1}},
		{`{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"x"},{"type":"NFC"}]}`, `{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}`, true, "e\u0301a", []int32{0, 9, 0, 6, 0, 7, 1}},
		{`{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"x"},{"type":"NFC"}]}`, `{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}`, true, "e\u0301b", []int32{0, 9, 0, 6, 0, 7, 2}},
		{`{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"x"},{"type":"NFC"}]}`, `{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}`, true, "ba", []int32{0, 9, 0, 2, 1}},
		{`{"type":"Sequence","normalizers":[{"type":"Replace","pattern":{"String":"b"},"content":"__"},{"type":"Prepend","prepend":"xa"},{"type":"NFC"}]}`, `{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}`, true, "e\u0301a", []int32{0, 9, 0, 1, 0, 6, 0, 7, 1}},
		{`{"type":"Sequence","normalizers":[{"type":"Replace","pattern":{"String":"b"},"content":"__"},{"type":"Prepend","prepend":"xa"},{"type":"NFC"}]}`, `{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}`, true, "e\u0301b", []int32{0, 9, 0, 1, 0, 6, 0, 7, 8, 8}},
		{`{"type":"Sequence","normalizers":[{"type":"Replace","pattern":{"String":"b"},"content":"__"},{"type":"Prepend","prepend":"xa"},{"type":"NFC"}]}`, `{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}`, true, "ba", []int32{0, 9, 0, 1, 0, 8, 0, 8, 1}},
	} {
		parts := metaspace
		if c.chars {
			parts = `{"type":"FixedLength","length":1},` + parts
		}
		if c.before != "" {
			parts = c.before + "," + parts
		}
		tok, err := FromJSON("x", []byte(`{"normalizer":`+c.normalizer+`,"pre_tokenizer":{"type":"Sequence","pretokenizers":[`+parts+`]},
			"model":{"type":"BPE","vocab":{"▁":0,"a":1,"b":2,"Ġ":3,"\"":4,"'":5,"Ã":6,"©":7,"_":8,"x":9},"merges":[]}}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := tok.Encode(nil, c.text, Options{}, nil); !slices.Equal(got, c.want) {
			t.Errorf("normalizer %s, %s before: %q: %v, want %v", c.normalizer, c.before, c.text, got, c.want)
		}
	}
}
