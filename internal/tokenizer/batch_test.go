package tokenizer

import (
	"math"
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
		// Who takes which texts is not fixed, so each thread's room grows for a
		// while, but not for ever.
		n := math.Inf(1)
		for range 20 {
			n = min(n, testing.AllocsPerRun(5, func() { tok.EncodeBatch(&b, texts, Options{}, 2) }))
		}
		if n > 8 {
			t.Errorf("%s: %v allocations on two threads, expected only the goroutine's", base, n)
		}
	}
}

// broken panics at every word.
type broken struct{ model }

func (broken) encode([]int32, []byte, *Scratch) []int32 { panic("broken") }

// A panic of a worker reaches the caller, who can recover from it; that of another goroutine ends the program.
func TestBatchPanics(t *testing.T) {
	tok := *fromGolden(t, "bpe")
	tok.model = &broken{tok.model}
	defer func() {
		if p := recover(); p != "broken" {
			t.Errorf("recovered %v", p)
		}
	}()
	var b Batch
	tok.EncodeBatch(&b, strings.SplitAfter(strings.Repeat(prose, 300), " "), Options{}, 3)
	t.Error("nothing panics")
}
