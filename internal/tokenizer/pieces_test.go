package tokenizer

import (
	"slices"
	"testing"
)

// Pieces are what the model gets: their ids one after the other are those of the text.
func TestPieces(t *testing.T) {
	for _, base := range []string{"bpe", "wordpiece"} {
		tok := fromGolden(t, base)
		for _, text := range goldenTexts(t)[:300] {
			var ids []int32
			for _, piece := range tok.Pieces(text) {
				ids = tok.model.encode(ids, []byte(piece), new(Scratch))
			}
			if want := tok.Encode(nil, text, Options{}, nil); !slices.Equal(ids, want) {
				t.Errorf("%s: %q: %v, expected %v", base, text, ids, want)
			}
		}
	}
	if got := fromGolden(t, "wordpiece").Pieces("Hello, wörld"); !slices.Equal(got, []string{"hello", ",", "world"}) {
		t.Errorf("%q", got)
	}
}
