package tokenizer

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"
)

// wordLevelFile is a tokenizer.json of one word with added tokens.
func wordLevelFile(added string) string {
	return `{"added_tokens":[` + added + `],"model":{"type":"WordLevel","vocab":{"a":0},"unk_token":"a"}}`
}

// Tokens that take the spaces around them, and are spaces themselves: every space was looked at once for each
// token. Looking at each twice, this takes a moment; looking at a million a million times, it would not end.
func TestStrippedSpacesAreSeenOnce(t *testing.T) {
	const n = 1_000_000
	for name, c := range map[string]struct{ added, text string }{
		"left":            {`{"id":1,"content":" ","lstrip":true}`, " "},
		"right":           {`{"id":1,"content":" ","rstrip":true}`, " "},
		"both":            {`{"id":1,"content":" ","lstrip":true,"rstrip":true}`, " "},
		"right and plain": {`{"id":1,"content":"\t","rstrip":true},{"id":2,"content":" "}`, "\t "},
		"left and right":  {`{"id":1,"content":"\t","rstrip":true},{"id":2,"content":" ","lstrip":true}`, "\t "},
	} {
		tok, err := FromJSON(name, []byte(wordLevelFile(c.added)), nil)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Repeat(c.text, n/len(c.text))
		if ids := tok.Encode(nil, text, Options{ParseSpecial: true}, nil); len(ids) != n {
			t.Errorf("%s: %d ids, expected %d", name, len(ids), n)
		}
	}
}

// What follows a token that takes its spaces is the same, whether the spaces were looked at before or not.
func TestStrippedSpaces(t *testing.T) {
	tok, err := FromJSON("f", []byte(wordLevelFile(`{"id":1,"content":"\t","rstrip":true},{"id":2,"content":" "},{"id":3,"content":"x","lstrip":true}`)), nil)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"\t  a":      "[1 2 2 0]",
		"\t \t a":    "[1 2 1 2 0]",
		"a \t\t x a": "[0 2 1 1 2 3 2 0]",
		"a\t x\t":    "[0 1 2 3 1]",
	} {
		if got := fmt.Sprint(tok.Encode(nil, text, Options{ParseSpecial: true}, nil)); got != want {
			t.Errorf("%q: %s, expected %s", text, got, want)
		}
	}
}

// A token as long as the text made models try it from every place of the text.
func TestLongTokensAreRefused(t *testing.T) {
	long := strings.Repeat("a", maxPiece) + "b"
	for name, model := range map[string]string{
		"Unigram":   `{"type":"Unigram","unk_id":0,"vocab":[["u",0],["a",-1],["` + long + `",-2]]}`,
		"WordPiece": `{"type":"WordPiece","unk_token":"a","max_input_chars_per_word":100000000,"vocab":{"a":0,"##a":1,"##` + long + `":2}}`,
	} {
		if _, err := FromJSON(name, []byte(`{"model":`+model+`}`), nil); err == nil || !strings.Contains(err.Error(), "bytes long, expected at most 1024") {
			t.Errorf("%s: error %v, expected one about a long token", name, err)
		}
		fits := strings.ReplaceAll(model, long, long[4:])
		if _, err := FromJSON(name, []byte(`{"model":`+fits+`}`), nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// One long added token was compared byte by byte, with a search for each byte, from every place of the text.
func TestOneLongAddedTokenIsComparedAtOnce(t *testing.T) {
	long := strings.Repeat("a", maxAddedToken-1) + "b"
	tok, err := FromJSON("f", []byte(wordLevelFile(`{"id":1,"content":"`+long+`"}`)), nil)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("a", 200_000)
	for text, want := range map[string]string{text: "[0]", text + "b": "[0 1]", text + "b" + text + "b" + text: "[0 1 0 1 0]"} {
		if got := fmt.Sprint(tok.Encode(nil, text, Options{ParseSpecial: true}, nil)); got != want {
			t.Errorf("%d bytes: %s, expected %s", len(text), got, want)
		}
	}
}

// A text that is one long piece without added tokens ends when nobody wants it any more.
func TestLongPiecesAreInterrupted(t *testing.T) {
	done := make(chan struct{})
	close(done)
	for name, file := range map[string]string{
		"Unigram":   `{"model":{"type":"Unigram","unk_id":0,"vocab":[["u",0],["a",-1]]}}`,
		"WordPiece": `{"model":{"type":"WordPiece","unk_token":"a","max_input_chars_per_word":100000000,"vocab":{"a":0,"##a":1}}}`,
	} {
		tok, err := FromJSON(name, []byte(file), nil)
		if err != nil {
			t.Fatal(err)
		}
		word := []byte(strings.Repeat("a", 10*placesBetween))
		s := new(Scratch)
		whole := len(tok.model.encode(nil, word, s))
		s.options.Done = done
		if got := len(tok.model.encode(nil, word, s)); got >= placesBetween || whole != len(word) {
			t.Errorf("%s: %d ids of %d after the end", name, got, whole)
		}
	}
	tok, err := FromJSON("f", []byte(wordLevelFile(`{"id":1,"content":"ab"}`)), nil)
	if err != nil {
		t.Fatal(err)
	}
	text := []byte(strings.Repeat("a", 10*placesBetween) + "ab")
	if _, _, _, ok := tok.added.raw.find(text, 1, &Options{Done: done}); ok {
		t.Error("an added token was found after the end")
	}
}

// Added tokens with long beginnings in common were compared byte by byte from every place of the text. Now each
// search looks at some thirty of thousands.
func TestAddedTokensWithLongBeginnings(t *testing.T) {
	long := strings.Repeat("a", maxAddedToken-1)
	var ladder, stairs strings.Builder
	for i := range maxAddedToken - 1 {
		fmt.Fprintf(&ladder, `,{"id":%d,"content":"%sb"}`, i+1, long[:i+1])
		fmt.Fprintf(&stairs, `,{"id":%d,"content":"c%s"}`, i+1, long[:i])
	}
	const n = 50_000
	for name, c := range map[string]struct {
		added, text string
		ids         int
	}{
		"two":    {`{"id":1,"content":"` + long + `b"},{"id":2,"content":"` + long + `c"}`, strings.Repeat("a", n), 1},
		"ladder": {ladder.String()[1:], strings.Repeat("a", n), 1},
		"stairs": {stairs.String()[1:], strings.Repeat("cb", n/2), n},
	} {
		tok, err := FromJSON(name, []byte(wordLevelFile(c.added)), nil)
		if err != nil {
			t.Fatal(err)
		}
		if ids := tok.Encode(nil, c.text, Options{ParseSpecial: true}, nil); len(ids) != c.ids {
			t.Errorf("%s: %d ids, expected %d", name, len(ids), c.ids)
		}
		m := &tok.added.raw
		limit := 3 * bits.Len(uint(len(m.entries))) // of skew-binary jumps
		for at := range m.entries {
			for most := range maxAddedToken {
				if _, looks := m.upTo(int32(at), most); looks > limit {
					t.Fatalf("%s: entry %d, at most %d bytes: looked at %d of %d entries, expected at most %d", name, at, most, looks, len(m.entries), limit)
				}
			}
		}
	}
}

// The longest of added tokens is found, whatever they have in common.
func TestLongestAddedToken(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var added []string
		word := func(most int) string {
			b := make([]byte, 1+r.IntN(most))
			for i := range b {
				b[i] = "xyz"[r.IntN(2+r.IntN(2))]
			}
			return string(b)
		}
		seen := map[string]bool{}
		for i := range 1 + r.IntN(60) {
			if w := word(12); !seen[w] {
				seen[w] = true
				added = append(added, fmt.Sprintf(`{"id":%d,"content":"%s"}`, i+1, w))
			}
		}
		tok, err := FromJSON("f", []byte(wordLevelFile(strings.Join(added, ","))), nil)
		if err != nil {
			t.Fatal(err)
		}
		text := word(40)
		want := ""
		for w := range seen {
			if strings.HasPrefix(text, w) && len(w) > len(want) {
				want = w
			}
		}
		m, got := &tok.added.raw, ""
		if f := m.first[text[0]]; f.end > 0 {
			if i := m.longest([]byte(text), int(f.begin), int(f.end)); i >= 0 {
				got = string(m.pattern(m.entries[i]))
			}
		}
		if got != want {
			t.Fatalf("%s begins with %q, expected %q, of %v", text, got, want, added)
		}
	}
}
