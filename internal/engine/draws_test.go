package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"hotpath/internal/sample"
)

// sideBySide stands in for a backend's workers.
func sideBySide(_ context.Context, n int, f func(worker int)) error {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { f(i) })
	}
	group.Wait()
	return nil
}

// Workers that share a step's draws, a busy team and a single worker all draw
// the same tokens; a stream whose logits are no numbers fails alone.
func TestDrawsAreTheSameOnAllWorkers(t *testing.T) {
	const rows, vocab, bad = 9, drawsShared / 4, 5
	rng := rand.New(rand.NewPCG(1, 2))
	out := make([]float32, rows*vocab)
	for i := range out {
		out[i] = float32(rng.NormFloat64() * 2)
	}
	out[bad*vocab+77] = float32(math.NaN())
	logits := func(row int) []float32 { return out[row*vocab : (row+1)*vocab] }
	choices := []sample.Params{{}, {Temperature: 0.8}, {Temperature: 0.8, TopK: 40}, {Temperature: 1, TopP: 0.9}, {Temperature: 1, MinP: 0.05}}
	draw := func(workers int, side func(context.Context, int, func(int)) error) (ids []int32) {
		d := newDraws(workers, logits)
		for row := range rows {
			s := &Stream{row: row}
			p := choices[row%len(choices)]
			p.Seed = uint64(row)
			if err := s.sampler.Reset(p); err != nil {
				t.Fatal(err)
			}
			d.streams = append(d.streams, s)
		}
		for range 4 { // steps
			d.drawAll(0, side)
			for row, s := range d.streams {
				if failed := errors.Is(s.drawn.err, sample.ErrLogits); failed != (row == bad) {
					t.Errorf("row %d: %v", row, s.drawn.err)
				}
				if row != bad {
					ids = append(ids, s.drawn.id)
				}
			}
		}
		return ids
	}
	want := draw(1, nil)
	asked := 0
	busy := func(ctx context.Context, _ int, _ func(int)) error {
		asked++
		return context.Cause(ctx)
	}
	for name, got := range map[string][]int32{
		"alone": draw(1, sideBySide), "two": draw(2, sideBySide), "many": draw(64, sideBySide), "busy": draw(2, busy), "none": draw(2, nil)} {
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, expected %v", name, got, want)
		}
	}
	if asked != 4 {
		t.Errorf("workers were asked for %d times, expected 4", asked)
	}
}

// Workers share the logits of a single stream, and find the token that one finds.
func TestOneDrawIsTheSameOnAllWorkers(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, vocab := range []int{drawsShared - 1, drawsShared, 2*drawsShared - 77} {
		out := make([]float32, vocab)
		for i := range out {
			out[i] = float32(rng.IntN(1000)) // with equals
		}
		for _, p := range []sample.Params{{}, {Temperature: 0.8}, {Temperature: 0.8, TopK: 40}, {Temperature: 1, TopP: 0.9}} {
			for _, bad := range []bool{false, true} {
				logits := slices.Clone(out)
				if bad {
					logits[vocab/3], logits[vocab-1] = float32(math.NaN()), float32(math.NaN())
				}
				draw := func(workers, active int, side func(context.Context, int, func(int)) error) (id int32, said string) {
					s := &Stream{}
					if err := s.sampler.Reset(p); err != nil {
						t.Fatal(err)
					}
					d := newDraws(workers, func(int) []float32 { return logits })
					d.streams = append(d.streams, s)
					d.drawAll(active, side)
					if (s.drawn.err != nil) != bad {
						t.Errorf("%d logits, NaN among them %t: %v", vocab, bad, s.drawn.err)
					}
					return s.drawn.id, fmt.Sprint(s.drawn.err)
				}
				want, said := draw(1, 0, nil)
				shared := 0
				counted := func(ctx context.Context, n int, f func(int)) error {
					shared = n
					return sideBySide(ctx, n, f)
				}
				for _, workers := range []int{2, 16} {
					if id, err := draw(workers, 0, counted); id != want || err != said {
						t.Errorf("%d logits, %+v, %d workers: token %d, %s, expected %d, %s", vocab, p, workers, id, err, want, said)
					}
					if most := min(workers, (vocab+sample.ScanGrain-1)/sample.ScanGrain); vocab >= drawsShared && shared != most {
						t.Errorf("%d logits: shared by %d of %d workers", vocab, shared, workers)
					}
				}
				if shared = 0; vocab < drawsShared {
					continue
				}
				if id, _ := draw(4, 1, counted); id != want || shared != 0 {
					t.Errorf("%d logits of a run of one worker: token %d, expected %d, shared by %d", vocab, id, want, shared)
				}
				busy := func(ctx context.Context, _ int, _ func(int)) error { return context.Cause(ctx) }
				if id, _ := draw(4, 0, busy); id != want {
					t.Errorf("%d logits on a busy team: token %d, expected %d", vocab, id, want)
				}
			}
		}
	}
}

func TestPanicInADrawFailsItsStreamAlone(t *testing.T) {
	out := make([]float32, drawsShared)
	d := newDraws(2, func(row int) []float32 {
		if row == 1 {
			panic("no such row")
		}
		return out
	})
	for row := range 3 {
		d.streams = append(d.streams, &Stream{row: row})
	}
	d.drawAll(0, sideBySide)
	for row, s := range d.streams {
		if failed := errors.Is(s.drawn.err, ErrInternal); failed != (row == 1) {
			t.Errorf("row %d: %v", row, s.drawn.err)
		}
	}
}

// Draws have as many workers as the run of the step had, at most one per stream.
func TestDrawsHaveTheWorkersOfTheRun(t *testing.T) {
	out := make([]float32, drawsShared)
	for active, want := range map[int]int{0: 4, 1: 0, 3: 3, 9: 4} {
		d := newDraws(4, func(int) []float32 { return out })
		for row := range 6 {
			d.streams = append(d.streams, &Stream{row: row})
		}
		asked := 0
		d.drawAll(active, func(_ context.Context, n int, f func(worker int)) error {
			asked = n
			f(0)
			return nil
		})
		if asked != want || d.next.Load() < 6 {
			t.Errorf("a run of %d workers: %d were asked for draws, expected %d", active, asked, want)
		}
	}
}
