package tokenizer

import (
	"slices"
	"strings"
	"testing"
)

// Tokens that only tokenizer_config.json names are added behind all others in
// the order of their ids, whatever these are, as AutoTokenizer does; of those in
// both files tokenizer.json decides.
func TestTokensOfTheConfig(t *testing.T) {
	file := bpeFile(`{"a":0,"b":1,"<":2,">":3}`, `[]`, `,"added_tokens":[{"id":4,"content":"<a>","special":false}]`)
	const token = `{"content":"%","lstrip":false,"normalized":false,"rstrip":false,"single_word":false,"special":true}`
	item := func(content string) string { return strings.Replace(token, "%", content, 1) }
	for name, c := range map[string]struct {
		config string
		want   []int32
	}{
		"none":        {`{}`, []int32{4, 2, 1, 3, 2, 0, 1, 3}},
		"one":         {`{"added_tokens_decoder":{"5":` + item("<b>") + `}}`, []int32{4, 5, 2, 0, 1, 3}},
		"a gap":       {`{"added_tokens_decoder":{"77":` + item("<b>") + `}}`, []int32{4, 5, 2, 0, 1, 3}},
		"order":       {`{"added_tokens_decoder":{"10":` + item("<b>") + `,"9":` + item("<ab>") + `}}`, []int32{4, 6, 5}},
		"both":        {`{"added_tokens_decoder":{"4":` + item("<a>") + `,"5":` + item("<b>") + `}}`, []int32{4, 5, 2, 0, 1, 3}},
		"by text":     {`{"additional_special_tokens":["<b>",` + item("<ab>") + `]}`, []int32{4, 5, 6}},
		"a newer way": {`{"extra_special_tokens":["<ab>"]}`, []int32{4, 2, 1, 3, 5}},
		"by name":     {`{"extra_special_tokens":{"z_token":"<ab>","a_token":"<b>","no_token":""}}`, []int32{4, 6, 5}},
		"names first": {`{"additional_special_tokens":["<b>"],"extra_special_tokens":{"image_token":"<ab>"}}`, []int32{4, 6, 5}},
		"ids first":   {`{"added_tokens_decoder":{"9":` + item("<b>") + `},"extra_special_tokens":{"image_token":"<ab>"}}`, []int32{4, 5, 6}},
		"two lists":   {`{"additional_special_tokens":["<b>"],"extra_special_tokens":["<ab>"]}`, []int32{4, 2, 1, 3, 5}},
		"an old list": {`{"additional_special_tokens":["<b>"],"extra_special_tokens":[]}`, []int32{4, 5, 2, 0, 1, 3}},
	} {
		tok, err := FromJSON("tokenizer.json", []byte(file), []byte(c.config))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := tok.Encode(nil, "<a><b><ab>", Options{ParseSpecial: true}, nil); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, expected %v", name, got, c.want)
		}
	}
	for config, want := range map[string]string{
		`{"added_tokens_decoder":[]}`:                                         "added_tokens_decoder: ",
		`{"added_tokens_decoder":{"x":` + item("<b>") + `}}`:                  "added_tokens_decoder: ",
		`{"added_tokens_decoder":{"5":3}}`:                                    "added_tokens_decoder.5: ",
		`{"added_tokens_decoder":{"7":{"content":"<b>","lstrip":"perhaps"}}}`: "added_tokens_decoder.7.lstrip: ",
		`{"extra_special_tokens":"<b>"}`:                                      "extra_special_tokens: ",
		`{"extra_special_tokens":{"image_token":5}}`:                          "extra_special_tokens.image_token: ",
		`{"additional_special_tokens":["<b>",5]}`:                             "additional_special_tokens[1]: ",
	} {
		if _, err := FromJSON("dir/tokenizer.json", []byte(file), []byte(config)); err == nil || !strings.HasPrefix(err.Error(), "dir/tokenizer_config.json: "+want) {
			t.Errorf("%s: %v", config, err)
		}
	}
}
