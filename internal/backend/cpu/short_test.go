package cpu

import (
	"testing"

	"hotpath/internal/graph"
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
		e := &exec{n: c.workers}
		if shares, n := e.cut(wide{shares: c.width}); shares != c.shares || n != c.n {
			t.Errorf("%d workers, width %d: %d shares of %d workers, expected %d of %d", c.workers, c.width, shares, n, c.shares, c.n)
		}
	}
}

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
