package convert

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/tokenizer"
)

const file = "tokenizer.json"

func TestVocabularyKinds(t *testing.T) {
	for name, c := range map[string]struct {
		json   string
		rows   int
		model  string
		tokens []string
		kinds  []int32
	}{
		"wordpiece": {`{"added_tokens":[{"id":0,"content":"[CLS]","special":true}],"normalizer":{"type":"BertNormalizer","lowercase":true},
			"model":{"type":"WordPiece","vocab":{"[CLS]":0,"a":1,"##b":2}}}`, 4, "bert",
			[]string{"[CLS]", "▁a", "b", "[PAD3]"}, []int32{controlToken, normalToken, normalToken, unusedToken}},
		"bpe": {`{"added_tokens":[{"id":3,"content":"<x>","special":false}],"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}}`, 4, "gpt2",
			[]string{"a", "b", "ab", "<x>"}, []int32{normalToken, normalToken, normalToken, userToken}},
		"sentencepiece": {`{"model":{"type":"BPE","byte_fallback":true,"unk_token":"<unk>","vocab":{"<unk>":0,"<0x0A>":1,"a":2,"b":3,"ab":4},"merges":[["a","b"]]}}`, 5, "llama",
			[]string{"<unk>", "<0x0A>", "a", "b", "ab"}, []int32{unknownToken, byteToken, normalToken, normalToken, normalToken}},
		"unigram": {`{"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["▁a",-1.5]]}}`, 2, "t5",
			[]string{"<unk>", "▁a"}, []int32{unknownToken, normalToken}},
	} {
		v, err := readVocabulary(file, []byte(c.json), c.rows)
		if err != nil {
			t.Fatal(name, err)
		}
		if v.model != c.model || !slices.Equal(v.tokens, c.tokens) || !slices.Equal(v.kinds, c.kinds) {
			t.Errorf("%s: %s %q %v", name, v.model, v.tokens, v.kinds)
		}
		if name == "sentencepiece" && !(v.scores[4] > v.scores[2]) {
			t.Errorf("scores %v", v.scores)
		}
		if name == "unigram" && v.scores[1] != -1.5 {
			t.Errorf("scores %v", v.scores)
		}
	}
}

func TestVocabularyHostile(t *testing.T) {
	for name, data := range map[string]string{
		"empty":          ``,
		"list":           `[]`,
		"no model":       `{}`,
		"other model":    `{"model":{"type":"Magic","vocab":{}}}`,
		"vocab":          `{"model":{"type":"BPE","vocab":[1,2]}}`,
		"negative":       `{"model":{"type":"BPE","vocab":{"a":-1},"merges":[]}}`,
		"negative added": `{"added_tokens":[{"id":-5,"content":"x"}],"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}`,
		"merges":         `{"model":{"type":"BPE","vocab":{"a":0},"merges":["ab"]}}`,
		"merge kind":     `{"model":{"type":"BPE","vocab":{"a":0},"merges":[1]}}`,
		"score":          `{"model":{"type":"Unigram","vocab":[["a","b"]]}}`,
		"charsmap":       `{"normalizer":{"type":"Precompiled","precompiled_charsmap":"%%%"},"model":{"type":"Unigram","vocab":[["a",0]]}}`,
	} {
		if _, err := readVocabulary(file, []byte(data), 4); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	// An id near 2^63 takes no memory: the table has four rows.
	v, err := readVocabulary(file, []byte(`{"model":{"type":"BPE","vocab":{"a":0,"b":9223372036854775806},"merges":[]}}`), 4)
	if err != nil || len(v.tokens) != 4 {
		t.Errorf("%v, %v", v, err)
	}
}

// Of equal merges the last counts, in the file that is written too.
func TestEqualMerges(t *testing.T) {
	const model = `{"model":{"type":"BPE","vocab":{"a":0,"b":1,"c":2,"ab":3,"bc":4},"merges":[["a","b"],["b","c"],["a","b"]]}}`
	v, err := readVocabulary(file, []byte(model), 5)
	if want := []string{"b c", "a b"}; err != nil || !slices.Equal(v.merges, want) {
		t.Errorf("%q, %v, expected %q", v.merges, err, want)
	}
	own, err := tokenizer.FromJSON(file, []byte(model), nil)
	if err != nil {
		t.Fatal(err)
	}
	if ids := own.Encode(nil, "abc", tokenizer.Options{}, nil); !slices.Equal(ids, []int32{0, 4}) {
		t.Errorf("tokenizer.json makes %v of the text, expected a and bc", ids)
	}
}

// Reading takes no more memory than the rows of the model and the merges that
// they have, whatever else the file lists.
func TestVocabularyMemory(t *testing.T) {
	var vocab, unigram, merges, lines, added strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&vocab, `,"t%d":%d`, i, 10+i)
		fmt.Fprintf(&unigram, `,["t%d",-1]`, i)
		fmt.Fprintf(&merges, `,["t","%d"]`, i)
		fmt.Fprintf(&lines, `,"t %d"`, i)
		fmt.Fprintf(&added, `,{"id":1,"content":"b","lstrip":true}`)
	}
	for name, data := range map[string]string{
		"vocab":   `{"model":{"type":"BPE","vocab":{"a":0` + vocab.String() + `},"merges":[]}}`,
		"pieces":  `{"model":{"type":"WordPiece","vocab":{"a":0` + vocab.String() + `}}}`,
		"unigram": `{"model":{"type":"Unigram","vocab":[["a",0]` + unigram.String() + `]}}`,
		"pairs":   `{"model":{"type":"BPE","vocab":{"a":0},"merges":[["a","a"]` + merges.String() + `]}}`,
		"equal":   `{"model":{"type":"BPE","vocab":{"t":0,"u":1,"tu":2},"merges":[["t","u"]` + strings.Repeat(`,["t","u"]`, 100_000) + `]}}`,
		"lines":   `{"model":{"type":"BPE","byte_fallback":true,"vocab":{"a":0},"merges":["a a"` + lines.String() + `]}}`,
		"added":   `{"added_tokens":[{"id":1,"content":"b"}` + added.String() + `],"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := readVocabulary(file, []byte(data), 4)
		runtime.ReadMemStats(&after)
		// The copy of the file, and 16 bytes per merge of passing strings.
		if most := uint64(2*len(data) + 32*100_000); err != nil || after.TotalAlloc-before.TotalAlloc > most {
			t.Errorf("%s: %d bytes of memory for a file of %d, %v", name, after.TotalAlloc-before.TotalAlloc, len(data), err)
		}
	}
}

func FuzzVocabulary(f *testing.F) {
	for _, name := range []string{"llama", "bert"} {
		data, err := os.ReadFile("../testmodels/testdata/" + name + "/tokenizer.json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["▁a",-1.5]]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := readVocabulary(file, data, 300)
		if err != nil {
			return
		}
		if len(v.tokens) != 300 || len(v.kinds) != 300 {
			t.Fatalf("%d tokens, %d kinds", len(v.tokens), len(v.kinds))
		}
		if !json.Valid(data) || strings.HasPrefix(v.model, "?") {
			t.Fatal("invalid JSON was read")
		}
	})
}

// A vocabulary of single bytes has the same ids under every way to split texts:
// the name in the file is still that of the tokenizer's own.
func TestSplitIsTheTokenizersOwn(t *testing.T) {
	vocab := map[string]int{}
	for i := range 256 {
		r := rune(i) // as byte-level vocabularies spell bytes
		if !(i >= '!' && i <= '~' || i >= 0xA1 && i <= 0xAC || i >= 0xAE) {
			r += 256
		}
		vocab[string(r)] = i
	}
	byteLevel := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}
	regex := func(pattern string) any {
		return map[string]any{"type": "Split", "behavior": "Isolated", "invert": false, "pattern": map[string]string{"Regex": pattern}}
	}
	const tail = `| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	for name, first := range map[string][]any{
		"gpt-2":     {map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}},
		"smollm":    {map[string]any{"type": "Digits", "individual_digits": true}, map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}},
		"llama-bpe": {regex(`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}` + tail), byteLevel},
		"stablelm2": {regex(`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}` + tail), byteLevel},
	} {
		data, err := json.Marshal(map[string]any{
			"model":         map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{}},
			"pre_tokenizer": map[string]any{"type": "Sequence", "pretokenizers": first},
			"decoder":       byteLevel,
		})
		if err != nil {
			t.Fatal(err)
		}
		own, err := tokenizer.FromJSON(file, data, nil)
		if err != nil {
			t.Fatal(err)
		}
		v, err := readVocabulary(file, data, 256)
		if err != nil {
			t.Fatal(err)
		}
		j := job{arch: "llama"}
		if err := j.chooseSplit(v, own); err != nil || v.pre != name || len(j.warnings) > 0 {
			t.Errorf("%s: %s, %v, %v", name, v.pre, err, j.warnings)
		}
	}
}
