package model

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/weights"
)

// Every way to write the template of a pair.
func TestPairTemplates(t *testing.T) {
	bert, roberta := bertPair(1, 2), robertaPair(1, 2, 2)
	const template = `{"type":"TemplateProcessing","single":[],"pair":[{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},
		{"SpecialToken":{"id":"[SEP]","type_id":0}},{"Sequence":{"id":"B","type_id":1}},{"SpecialToken":{"id":"[SEP]","type_id":1}}],
		"special_tokens":{"[CLS]":{"id":"[CLS]","ids":[1],"tokens":["[CLS]"]},"[SEP]":{"id":"[SEP]","ids":[2],"tokens":["[SEP]"]}}}`
	for _, c := range []struct {
		raw  string
		want []pairPiece
	}{
		{`null`, nil},
		{`{"type":"ByteLevel","trim_offsets":true}`, nil},
		{`{"type":"BertProcessing","sep":["[SEP]",2],"cls":["[CLS]",1]}`, bert},
		{`{"type":"RobertaProcessing","sep":["</s>",2],"cls":["<s>",1],"trim_offsets":true}`, roberta},
		{template, bert},
		{`{"type":"Sequence","processors":[{"type":"ByteLevel"},` + template + `]}`, bert},
	} {
		got, err := pairTemplate(json.RawMessage(c.raw))
		if err != nil || !slices.EqualFunc(got, c.want, func(a, b pairPiece) bool {
			return a.text == b.text && a.segment == b.segment && slices.Equal(a.ids, b.ids)
		}) {
			t.Errorf("%.60s: %v, %v, want %v", c.raw, got, err, c.want)
		}
	}
	for raw, word := range map[string]string{
		`[]`:                "cannot unmarshal",
		`{"type":"NoSuch"}`: "NoSuch",
		`{"type":"BertProcessing","sep":["[SEP]"],"cls":["[CLS]",1]}`:                                                                                    "sep",
		`{"type":"TemplateProcessing","pair":[]}`:                                                                                                        "both texts",
		`{"type":"TemplateProcessing","pair":[{"Sequence":{"id":"C"}}]}`:                                                                                 "\"C\"",
		`{"type":"TemplateProcessing","pair":[{"SpecialToken":{"id":"x"}}]}`:                                                                             "special_tokens",
		`{"type":"TemplateProcessing","pair":[{"Sequence":{"id":"A","type_id":-1}},{"Sequence":{"id":"B"}}]}`:                                            "negative",
		strings.Replace(template, `{"Sequence":{"id":"B","type_id":1}},`, `{"Sequence":{"id":"B","type_id":1}},{"Sequence":{"id":"B","type_id":1}},`, 1): "both texts",
	} {
		_, err := pairTemplate(json.RawMessage(raw))
		if err == nil || !errors.Is(err, weights.ErrInvalid) && !errors.Is(err, weights.ErrUnsupported) || !strings.Contains(err.Error(), word) {
			t.Errorf("%.60s: %v, expected an error that says %s", raw, err, word)
		}
	}
}

// Texts of a pair are told apart unless the tokenizer keeps that to itself.
func TestPairSegments(t *testing.T) {
	for _, c := range []struct {
		change map[string]any
		second int32
	}{
		{nil, 1},
		{map[string]any{"tokenizer_class": "TokenizersBackend"}, 0},
		{map[string]any{"tokenizer_class": "TokenizersBackend", "model_input_names": []string{"input_ids", "token_type_ids"}}, 1},
		{map[string]any{"model_input_names": []string{"input_ids", "attention_mask"}}, 0},
	} {
		dir := filepath.Join(t.TempDir(), "model")
		if err := os.CopyFS(dir, os.DirFS("testdata/encoders/rerank-bert")); err != nil {
			t.Fatal(err)
		}
		changeJSON(t, filepath.Join(dir, "tokenizer_config.json"), c.change)
		p, err := open(t, dir).Pairs()
		if err != nil {
			t.Fatal(err)
		}
		if _, segments, _ := p.Append(nil, nil, "a", "b", new(PairScratch)); segments[len(segments)-1] != c.second {
			t.Errorf("%v: segments %v, want %d for the second text", c.change, segments, c.second)
		}
	}
}

// What is cut off a pair, as Hugging Face does.
func TestCutPair(t *testing.T) {
	for _, c := range [][5]int{ // lengths, room, what stays
		{3, 4, 7, 3, 4}, {3, 5, 7, 3, 4}, {5, 3, 7, 4, 3}, {9, 9, 7, 3, 4}, {9, 9, 6, 3, 3}, {10, 4, 7, 4, 3}, {0, 9, 5, 0, 5}, {9, 0, 5, 5, 0}, {4, 9, 0, 0, 0},
	} {
		if a, b := cutPair(c[0], c[1], c[2]); a != c[3] || b != c[4] {
			t.Errorf("%d and %d into %d: %d and %d, want %d and %d", c[0], c[1], c[2], a, b, c[3], c[4])
		}
	}
}

// A template is an error or has both texts once, whatever is in it.
func FuzzPairTemplate(f *testing.F) {
	for _, name := range []string{"rerank-bert", "rerank-roberta", "rerank-modernbert", "rerank-qwen3-score"} {
		data, err := os.ReadFile(filepath.Join("testdata", "encoders", name, "tokenizer.json"))
		if err != nil {
			f.Fatal(err)
		}
		var raw struct {
			Post json.RawMessage `json:"post_processor"`
		}
		if err := json.Unmarshal(data, &raw); err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(raw.Post))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		pieces, err := pairTemplate(data)
		if err != nil || pieces == nil {
			return
		}
		var found [3]int
		for _, p := range pieces {
			if found[p.text]++; p.text > 0 == (len(p.ids) > 0) || p.segment < 0 {
				t.Errorf("piece %+v", p)
			}
		}
		if found[1] != 1 || found[2] != 1 {
			t.Errorf("texts %v", found)
		}
	})
}

// Two processors in a row that know pairs would put tokens around each other's.
func TestPairTemplatesInARow(t *testing.T) {
	const bert = `{"type":"BertProcessing","sep":["[SEP]",3],"cls":["[CLS]",2]}`
	_, err := pairTemplate([]byte(`{"type":"Sequence","processors":[` + bert + `,` + bert + `]}`))
	if !errors.Is(err, weights.ErrUnsupported) {
		t.Errorf("two in a row: %v", err)
	}
	pieces, err := pairTemplate([]byte(`{"type":"Sequence","processors":[` + bert + `,{"type":"ByteLevel"}]}`))
	if err != nil || len(pieces) != 5 {
		t.Errorf("%v, %v", pieces, err)
	}
}
