package convert

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
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
