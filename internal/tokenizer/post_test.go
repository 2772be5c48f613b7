package tokenizer

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/format"
)

// Post-processors in a row hand pieces on: behind a template that adds a token
// the text is the second of a pair. The ids are what tokenizers answers.
func TestPostProcessorsInARow(t *testing.T) {
	const vocab = `{"a":0,"b":1,"[X]":2,"[Y]":3,"[Z]":4,"[W]":5}`
	template := func(single, pair string) string {
		items := func(s string) string {
			var out []string
			for _, w := range strings.Fields(s) {
				if w == "A" || w == "B" {
					out = append(out, `{"Sequence":{"id":"`+w+`","type_id":0}}`)
				} else {
					out = append(out, `{"SpecialToken":{"id":"[`+w+`]","type_id":0}}`)
				}
			}
			return "[" + strings.Join(out, ",") + "]"
		}
		return `{"type":"TemplateProcessing","single":` + items(single) + `,"pair":` + items(pair) + `,"special_tokens":{
			"[X]":{"id":"[X]","ids":[2]},"[Y]":{"id":"[Y]","ids":[3]},"[Z]":{"id":"[Z]","ids":[4]},"[W]":{"id":"[W]","ids":[5]}}}`
	}
	const bert = `{"type":"BertProcessing","sep":["[Z]",4],"cls":["[W]",5]}`
	for name, c := range map[string]struct {
		processors []string
		want       []int32
	}{
		"a pair of a token and the text": {[]string{template("X A", "A B"), template("A Y", "A B")}, []int32{2, 0, 1}},
		"around both of a pair":          {[]string{template("X A", "A B"), template("A Y", "Z A W B")}, []int32{4, 2, 5, 0, 1}},
		"the token behind":               {[]string{template("A Y", "A B"), template("Z A", "Z A W B")}, []int32{4, 0, 1, 5, 3}},
		"one piece":                      {[]string{template("A", "A B"), template("A Y", "A B")}, []int32{0, 1, 3}},
		"bytes first":                    {[]string{`{"type":"ByteLevel"}`, template("X A Y", "A B")}, []int32{2, 0, 1, 3}},
		"BERT first":                     {[]string{bert, template("X A", "A B")}, []int32{2, 5, 0, 1, 4}},
		"BERT last":                      {[]string{template("X A", "A B"), bert}, []int32{5, 2, 4, 0, 1, 4}},
		"BERT behind three":              {[]string{template("X A Y", "A B"), bert}, []int32{5, 2, 4, 0, 1, 4, 3, 4}},
		"BERT twice":                     {[]string{bert, `{"type":"BertProcessing","sep":["[X]",2],"cls":["[Y]",3]}`}, []int32{3, 5, 0, 1, 4, 2}},
		"RoBERTa last":                   {[]string{template("X A", "A B"), strings.Replace(bert, "Bert", "Roberta", 1)}, []int32{5, 2, 4, 4, 0, 1, 4}},
	} {
		file := bpeFile(vocab, `[]`, `,"post_processor":{"type":"Sequence","processors":[`+strings.Join(c.processors, ",")+`]}`)
		tok, err := FromJSON("tokenizer.json", []byte(file), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := tok.Encode(nil, "ab", Options{Special: true}, nil); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, expected %v", name, got, c.want)
		}
	}
	three := bpeFile(vocab, `[]`, `,"post_processor":{"type":"Sequence","processors":[`+template("X A Y", "A B")+","+template("A", "A B")+`]}`)
	if _, err := FromJSON("tokenizer.json", []byte(three), nil); !errors.Is(err, format.ErrUnsupported) || !strings.Contains(err.Error(), "3 pieces") {
		t.Errorf("a template behind three pieces: %v", err)
	}
}
