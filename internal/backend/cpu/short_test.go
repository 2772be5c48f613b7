package cpu

import (
	"context"
	"sync/atomic"
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// wide is a step of a given width.
type wide struct {
	kernel
	shares int
}

func (k wide) width(tensor.Bind, int) int { return k.shares }

// TestWorkersBeginWithEqualShares: nobody starts with one share where another
// has two, unless a step is cut finer than for the workers' sake.
func TestWorkersBeginWithEqualShares(t *testing.T) {
	for _, c := range []struct{ workers, width, shares, n int }{
		{1, 1, 1, 1}, {1, 7, 7, 1},
		{2, 1, 1, 1}, {2, 2, 2, 2}, {2, 3, 2, 2}, {2, 7, 6, 2}, {2, 8, 8, 2}, {2, 9, 9, 2},
		{3, 2, 2, 2}, {3, 5, 3, 3}, {3, 12, 12, 3}, {3, 100, 100, 3},
	} {
		if shares, n := cutStep(wide{shares: c.width}, tensor.Bind{}, c.workers); shares != c.shares || n != c.n {
			t.Errorf("%d workers, width %d: %d shares of %d workers, expected %d of %d", c.workers, c.width, shares, n, c.shares, c.n)
		}
	}
}

// TestNobodyIsWokenForNothing: a run calls as many workers as one of its steps is
// worth, and walks alone where none is worth sharing.
func TestNobodyIsWokenForNothing(t *testing.T) {
	const workers = 4
	be := &Backend{team: newTeam()}
	be.team.acquire(workers)
	defer be.team.release()
	for _, c := range []struct {
		widths []int
		want   int
	}{{[]int{1}, 1}, {[]int{1, 1, 1}, 1}, {[]int{1, 2, 1}, 2}, {[]int{1, 3, 2}, 3}, {[]int{16, 1}, 4}} {
		e := &exec{be: be, plan: &plan.Plan{Commit: len(c.widths)}, workers: make([]worker, workers)}
		ran := make([]atomic.Int32, len(c.widths)) // shares, of each step
		for i, width := range c.widths {
			e.kernels = append(e.kernels, wide{counted{&ran[i]}, width})
			e.plan.Steps = append(e.plan.Steps, plan.Step{Barrier: i > 0})
		}
		for i := range e.workers {
			e.workers[i].lane = i
		}
		e.ready()
		if err := e.Enqueue(context.Background(), tensor.Bind{T: 1, S: 1, R: 1}, nil); err != nil {
			t.Fatal(err)
		}
		if called := e.flights[0].n; called != c.want {
			t.Errorf("steps of widths %v: %d workers, expected %d", c.widths, called, c.want)
		}
		for i, width := range c.widths {
			if n := int(ran[i].Load()); n < 1 || n > width {
				t.Errorf("steps of widths %v: %d shares of step %d ran", c.widths, n, i)
			}
		}
	}
}

// counted counts its shares.
type counted struct{ shares *atomic.Int32 }

func (k counted) name() string                            { return "counted" }
func (k counted) width(tensor.Bind, int) int              { return 1 }
func (k counted) runShare(*worker, tensor.Bind, int, int) { k.shares.Add(1) }

// TestShortTextIsShared: what lies between the products of one text of 16
// tokens is worth a second worker, and one token of it is not.
func TestShortTextIsShared(t *testing.T) {
	sizes := func(tokens int) tensor.Bind { return tensor.Bind{T: tokens, S: 1, R: 1} }
	rows := &rowwise{like: mat{cols: 384, outer: tensor.Of(tensor.T, 1)}}
	for _, class := range []Precision{F32, BF16} {
		starts := []int32{0, 16}
		k := &attention{AttentionAttr: graph.AttentionAttr{Heads: 12, KVHeads: 12, HeadDim: 32}, class: class, qStart: ints{full: starts, cols: 1, outer: tensor.Fixed(2)}}
		for tokens, want := range map[int]bool{16: true, 1: false} {
			starts[1] = int32(tokens)
			b := sizes(tokens)
			if n := k.width(b, 8); n > 1 != want {
				t.Errorf("attention %s of %d tokens is cut into %d shares, worth sharing: %t", class, tokens, n, want)
			}
			if n := rows.width(b, 8); n > 1 != want {
				t.Errorf("a norm of %d rows is cut into %d shares, worth sharing: %t", tokens, n, want)
			}
		}
	}
}
