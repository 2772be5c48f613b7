package tokenizer

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// slack is what FromJSON may allocate beyond the size of its file: tables of fixed size, holes in a
// vocabulary, and the filter of beginnings. perToken is what a token's tables may take beyond its entry in
// the file, up to maxTokens of them; so 26 MiB are the most, whatever the file.
const (
	slack    = 6 << 20
	perToken = 10
)

// shapes are files that would be large in memory if they were read without care: each grows until size.
// Those whose tables take more than the file count their tokens.
var shapes = []struct {
	name   string
	tokens string // what the entry of a token begins with, where a token takes more than its entry
	large  bool   // there are tables that grow with the file
	make   func(size int) []byte
}{
	{"many tokens", "", true, grown(`{"model":{"type":"BPE","merges":[],"vocab":{`, func(i int) string { return `"` + word(i) + `":` + strconv.Itoa(i) }, `}}}`)},
	{"many tokens of WordPiece", "", true, grown(`{"model":{"type":"WordPiece","vocab":{"[UNK]":0`, func(i int) string { return `,"` + word(i) + `":` + strconv.Itoa(i+1) }, `}}}`)},
	{"the same token", "", false, grown(`{"model":{"type":"BPE","merges":[],"vocab":{`, func(i int) string { return `"a":` + strconv.Itoa(i%1000) }, `}}}`)},
	{"escaped tokens", "", false, grown(`{"model":{"type":"BPE","merges":[],"vocab":{`, func(i int) string { return fmt.Sprintf(`"\u%04x\u00e9\n":%d`, i%0xD000+1, i) }, `}}}`)},
	{"one long token", "", true, grown(`{"model":{"type":"BPE","merges":[],"vocab":{"`, func(int) string { return `abcdefgh` }, `":0}}}`)},
	{"one long token of WordPiece", "", false, grown(`{"model":{"type":"WordPiece","vocab":{"[UNK]":0,"`, func(int) string { return `abcdefgh` }, `":1}}}`)},
	{"a long string", "", false, grown(`{"version":"`, func(int) string { return `\u0041bcdefgh` }, `","model":{"type":"BPE","vocab":{},"merges":[]}}`)},
	{"a long pattern", "", false, grown(`{"pre_tokenizer":{"type":"Split","behavior":"Isolated","pattern":{"Regex":"`, func(int) string { return `a|` }, `"}},"model":{"type":"BPE","vocab":{},"merges":[]}}`)},
	{"a long template", "", false, grown(`{"post_processor":{"type":"TemplateProcessing","single":[`, func(int) string { return `{"SpecialToken":{"id":"x"}}` }, `]},"model":{"type":"BPE","vocab":{},"merges":[]}}`)},
	{"unknown sections", "", false, grown(`{`, func(i int) string { return `"` + word(i) + `":{"a":[1,true,null]}` }, `,"model":{"type":"BPE","vocab":{},"merges":[]}}`)},
	{"unknown fields of the model", "", false, grown(`{"model":{"type":"BPE","vocab":{},"merges":[]`, func(i int) string { return `,"` + word(i) + `":0` }, `}}`)},
	{"parts", "", false, grown(`{"normalizer":{"type":"Sequence","normalizers":[`, func(int) string { return `{"type":"NFC"}` }, `]},"model":{"type":"BPE","vocab":{},"merges":[]}}`)},
	{"nesting", "", true, func(size int) []byte {
		return []byte(`{"x":` + string(bytes.Repeat([]byte(`[`), size/2)) + string(bytes.Repeat([]byte(`]`), size/2)) + `}`)
	}},
	{"the same merge", "", false, grown(`{"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":[`, func(int) string { return `"a b"` }, `]}}`)},
	{"added tokens", "", true, grown(`{"model":{"type":"BPE","vocab":{},"merges":[]},"added_tokens":[`, func(i int) string { return `{"id":` + strconv.Itoa(i) + `,"content":"` + word(i) + `"}` }, `]}`)},
	// Every two letters make a token: a merge takes 15 bytes of tables, no matter how short it is.
	{"merges of short tokens", "", true, mergesOf(`"%s %s"`)},
	{"merges in pairs", "", true, mergesOf(`["%s","%s"]`)},
	// A score takes four bytes, or eight, even where the file has one.
	{"unigram", `,["`, true, grown(`{"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0]`, func(i int) string { return `,["` + word(i) + `",-` + strconv.Itoa(i%20) + `.5]` }, `]}}`)},
	{"unigram of wide scores", `,["`, true, grown(`{"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0]`, func(i int) string { return `,["` + word(i) + `",0.1]` }, `]}}`)},
	{"unigram of the same token", `,["`, true, grown(`{"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0]`, func(int) string { return `,["",0.1]` }, `]}}`)},
}

// word spells a number with letters.
func word(i int) string { return strconv.FormatInt(int64(i)+36*36, 36) }

// grown repeats what next gives, with commas unless the text is one string or begins with its own.
func grown(head string, next func(i int) string, tail string) func(size int) []byte {
	return func(size int) []byte {
		out := append(make([]byte, 0, size+1024), head...)
		for i := 0; len(out)+len(tail) < size; i++ {
			part := next(i)
			if i > 0 && (part[0] == '"' || part[0] == '{') {
				out = append(out, ',')
			}
			out = append(out, part...)
		}
		return append(out, tail...)
	}
}

// mergesOf makes a vocabulary of one and two letters and all merges that lead there.
func mergesOf(form string) func(size int) []byte {
	return func(size int) []byte {
		vocab, merges := []byte(`"a0":0`), []byte(nil)
		id := 1
		add := func(token string) {
			vocab = append(vocab, `,"`+token+`":`+strconv.Itoa(id)...)
			id++
		}
		letter := func(i int) string { return string(rune(0x4E00 + i)) }
		n := 2
		for ; n*n*27 < size; n++ {
		}
		for i := range n {
			add(letter(i))
		}
		for i := range n {
			for j := range n {
				add(letter(i) + letter(j))
				merges = append(fmt.Appendf(merges, form, letter(i), letter(j)), ',')
			}
		}
		return []byte(`{"model":{"type":"BPE","vocab":{` + string(vocab) + `},"merges":[` + string(bytes.TrimSuffix(merges, []byte(","))) + `]}}`)
	}
}

// allocated is how many bytes f allocates in all.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// TestMemory holds FromJSON to the size of its file.
func TestMemory(t *testing.T) {
	sizes := []int{1 << 20, 4 << 20, 8 << 20}
	if testing.Short() {
		sizes = sizes[:1]
	}
	for _, shape := range shapes {
		for i, size := range sizes {
			if i == 2 && !shape.large {
				continue // nothing grows with these
			}
			file := shape.make(size)
			var err error
			n := allocated(func() { _, err = FromJSON("f", file, nil) })
			limit := int64(len(file)) + slack
			if shape.tokens != "" {
				limit += perToken * int64(min(maxTokens, bytes.Count(file, []byte(shape.tokens))))
			}
			if n > limit {
				t.Errorf("%s: %d bytes for a file of %d, expected at most %d (error %v)", shape.name, n, len(file), limit, err)
			}
			t.Logf("%-28s %8d bytes: %.2f of it, error %.80v", shape.name, len(file), float64(n)/float64(len(file)), err)
		}
	}
}

// TestMemoryOfConfig holds FromJSON to the size of tokenizer_config.json. A token that is named in four bytes
// takes an entry of eight and its place in the vocabulary.
func TestMemoryOfConfig(t *testing.T) {
	file := []byte(`{"model":{"type":"WordLevel","unk_token":"a","vocab":{"a":0}}}`)
	for name, config := range map[string][]byte{
		"a list":       grown(`{"extra_special_tokens":["b"`, func(int) string { return `,"a"` }, `]}`)(1 << 20),
		"an old list":  grown(`{"additional_special_tokens":["b"`, func(int) string { return `,"a"` }, `]}`)(1 << 20),
		"names":        grown(`{"extra_special_tokens":{"":"a"`, func(int) string { return `,"":"a"` }, `}}`)(1 << 20),
		"ids":          grown(`{"added_tokens_decoder":{"0":{"content":"a"}`, func(i int) string { return fmt.Sprintf(`,"%d":{"content":"a"}`, i+1) }, `}}`)(1 << 20),
		"equal ids":    grown(`{"added_tokens_decoder":{"0":{"content":"a"}`, func(int) string { return `,"0":{}` }, `}}`)(1 << 20),
		"a template":   grown(`{"chat_template":"`, func(int) string { return `\n` }, `"}`)(1 << 20),
		"many of them": grown(`{"chat_template":[{}`, func(int) string { return `,{"name":"default","template":"aa"}` }, `]}`)(1 << 20),
	} {
		var err error
		if n, limit := allocated(func() { _, err = FromJSON("f", file, config) }), int64(12*len(config)+1<<20); n > limit {
			t.Errorf("%s: %d bytes for a file of %d, expected at most %d (error %v)", name, n, len(config), limit, err)
		}
	}
}

// TestMemoryOfRealFiles does the same with tokenizers of models that developers have.
func TestMemoryOfRealFiles(t *testing.T) {
	found, _ := filepath.Glob(filepath.Join("..", "..", ".cache", "models", "*", "tokenizer.json"))
	more, _ := filepath.Glob(filepath.Join("testdata", "*.json"))
	for _, name := range append(found, more...) {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		n := allocated(func() { _, err = FromJSON("f", file, nil) })
		if n > int64(len(file))+slack {
			t.Errorf("%s: %d bytes for a file of %d (error %v)", name, n, len(file), err)
		}
	}
}

// TestTooManyTokens: the tables that take more than their file have a bound, and nothing is made for a
// vocabulary beyond it.
func TestTooManyTokens(t *testing.T) {
	file := []byte(`{"model":{"type":"Unigram","vocab":[["",0]` + strings.Repeat(`,["",1]`, maxTokens) + `]}}`)
	var err error
	n := allocated(func() { _, err = FromJSON("f", file, nil) })
	if want := fmt.Sprintf("f: model.vocab: %d tokens of", maxTokens+1); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, expected one that begins with %q", err, want)
	}
	if n > slack {
		t.Errorf("%d bytes were allocated for a file that is refused, expected at most %d", n, slack)
	}
}
