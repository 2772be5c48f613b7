package tokenizer

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
)

// slack is what FromJSON may allocate beyond the size of its file: tables of fixed size, holes in a
// vocabulary, and the filter of beginnings.
const slack = 6 << 20

// shapes are files that would be large in memory if they were read without care: each grows until size.
// The factor is what the tables of a shape take for a byte of its file, where that is more than one.
var shapes = []struct {
	name   string
	factor float64
	large  bool // there are tables that grow with the file
	make   func(size int) []byte
}{
	{"many tokens", 1, true, grown(`{"model":{"type":"BPE","merges":[],"vocab":{`, func(i int) string { return `"` + word(i) + `":` + strconv.Itoa(i) }, `}}}`)},
	{"many tokens of WordPiece", 1, true, grown(`{"model":{"type":"WordPiece","vocab":{"[UNK]":0`, func(i int) string { return `,"` + word(i) + `":` + strconv.Itoa(i+1) }, `}}}`)},
	{"the same token", 1, false, grown(`{"model":{"type":"BPE","merges":[],"vocab":{`, func(i int) string { return `"a":` + strconv.Itoa(i%1000) }, `}}}`)},
	{"escaped tokens", 1, false, grown(`{"model":{"type":"BPE","merges":[],"vocab":{`, func(i int) string { return fmt.Sprintf(`"\u%04x\u00e9\n":%d`, i%0xD000+1, i) }, `}}}`)},
	{"one long token", 1, true, grown(`{"model":{"type":"BPE","merges":[],"vocab":{"`, func(int) string { return `abcdefgh` }, `":0}}}`)},
	{"one long token of WordPiece", 1, false, grown(`{"model":{"type":"WordPiece","vocab":{"[UNK]":0,"`, func(int) string { return `abcdefgh` }, `":1}}}`)},
	{"a long string", 1, false, grown(`{"version":"`, func(int) string { return `\u0041bcdefgh` }, `","model":{"type":"BPE","vocab":{},"merges":[]}}`)},
	{"a long pattern", 1, false, grown(`{"pre_tokenizer":{"type":"Split","behavior":"Isolated","pattern":{"Regex":"`, func(int) string { return `a|` }, `"}},"model":{"type":"BPE","vocab":{},"merges":[]}}`)},
	{"a long template", 1, false, grown(`{"post_processor":{"type":"TemplateProcessing","single":[`, func(int) string { return `{"SpecialToken":{"id":"x"}}` }, `]},"model":{"type":"BPE","vocab":{},"merges":[]}}`)},
	{"unknown sections", 1, false, grown(`{`, func(i int) string { return `"` + word(i) + `":{"a":[1,true,null]}` }, `,"model":{"type":"BPE","vocab":{},"merges":[]}}`)},
	{"unknown fields of the model", 1, false, grown(`{"model":{"type":"BPE","vocab":{},"merges":[]`, func(i int) string { return `,"` + word(i) + `":0` }, `}}`)},
	{"parts", 1, false, grown(`{"normalizer":{"type":"Sequence","normalizers":[`, func(int) string { return `{"type":"NFC"}` }, `]},"model":{"type":"BPE","vocab":{},"merges":[]}}`)},
	{"nesting", 1, true, func(size int) []byte {
		return []byte(`{"x":` + string(bytes.Repeat([]byte(`[`), size/2)) + string(bytes.Repeat([]byte(`]`), size/2)) + `}`)
	}},
	{"the same merge", 1, false, grown(`{"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":[`, func(int) string { return `"a b"` }, `]}}`)},
	{"added tokens", 1, true, grown(`{"model":{"type":"BPE","vocab":{},"merges":[]},"added_tokens":[`, func(i int) string { return `{"id":` + strconv.Itoa(i) + `,"content":"` + word(i) + `"}` }, `]}`)},
	// Every two letters make a token: a merge takes 15 bytes of tables, no matter how short it is.
	{"merges of short tokens", 1, true, mergesOf(`"%s %s"`)},
	{"merges in pairs", 1, true, mergesOf(`["%s","%s"]`)},
	// A score takes four bytes even where the file has one.
	{"unigram", 1.3, true, grown(`{"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0]`, func(i int) string { return `,["` + word(i) + `",-` + strconv.Itoa(i%20) + `.5]` }, `]}}`)},
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
			if limit := int64(shape.factor*float64(len(file))) + slack; n > limit {
				t.Errorf("%s: %d bytes for a file of %d, expected at most %d (error %v)", shape.name, n, len(file), limit, err)
			}
			t.Logf("%-28s %8d bytes: %.2f of it, error %.80v", shape.name, len(file), float64(n)/float64(len(file)), err)
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
