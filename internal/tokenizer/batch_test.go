package tokenizer

import (
	"slices"
	"strings"
	"testing"
)

// TestBatch holds batches to texts one at a time, whoever takes which share.
func TestBatch(t *testing.T) {
	texts := goldenTexts(t)
	for _, base := range []string{"bpe", "wordpiece"} {
		tok := fromGolden(t, base)
		var b Batch
		for _, threads := range []int{0, 1, 3} {
			for _, some := range [][]string{texts, texts[:1], nil, texts[100:700]} {
				o := Options{Special: true, ParseSpecial: true}
				tok.EncodeBatch(&b, some, o, threads)
				if b.Len() != len(some) {
					t.Fatalf("%d texts, expected %d", b.Len(), len(some))
				}
				for i, text := range some {
					if want := tok.Encode(nil, text, o, nil); !slices.Equal(b.IDs(i), want) {
						t.Fatalf("%s, %d threads: %q gives %v, alone %v", base, threads, text, b.IDs(i), want)
					}
				}
			}
		}
		texts := strings.SplitAfter(strings.Repeat(prose, 300), " ")
		tok.EncodeBatch(&b, texts, Options{}, 2)
		if n := testing.AllocsPerRun(5, func() { tok.EncodeBatch(&b, texts, Options{}, 1) }); n != 0 {
			t.Errorf("%s: %v allocations on one thread, expected none", base, n)
		}
		if n := testing.AllocsPerRun(5, func() { tok.EncodeBatch(&b, texts, Options{}, 2) }); n > 8 {
			t.Errorf("%s: %v allocations on two threads, expected only the goroutine's", base, n)
		}
	}
}
