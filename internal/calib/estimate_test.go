package calib

import (
	"testing"
)

var minilm = Work{FLOPs: 21e6, Packed: 10.6e6, Barriers: 50}

func even(n, tokens int) Batch { return Batch{Seqs: n, Tokens: n * tokens, Longest: tokens} }

// TestEstimatesFollowTheFigures: each figure makes dearer what it is part of,
// and nothing else.
func TestEstimatesFollowTheFigures(t *testing.T) {
	stored := minilm
	stored.Stored = 5e6
	l := even(16, 20)
	base := Default(4, 4)
	for _, c := range []struct {
		name              string
		change            func(*Costs)
		one, fine, coarse bool
	}{
		{"fork", func(c *Costs) { c.Fork *= 10 }, false, true, true},
		{"barrier", func(c *Costs) { c.Barrier *= 10 }, false, true, false},
		{"flop", func(c *Costs) { c.FLOP *= 2 }, true, true, true},
		{"packed", func(c *Costs) { c.Packed *= 2 }, true, true, true},
		{"stored", func(c *Costs) { c.Stored *= 2 }, true, true, true},
		{"fine", func(c *Costs) { c.Fine /= 2 }, false, true, false},
		{"coarse", func(c *Costs) { c.Coarse /= 2 }, false, false, true},
	} {
		d := base
		c.change(&d)
		for _, e := range []struct {
			name   string
			f      func(*Costs) float64
			dearer bool
		}{
			{"one", func(c *Costs) float64 { return c.One(stored, l, 256) }, c.one},
			{"fine", func(c *Costs) float64 { return c.OnFine(stored, l, 512) }, c.fine},
			{"coarse", func(c *Costs) float64 { return c.OnCoarse(stored, l, 256) }, c.coarse},
		} {
			before, after := e.f(&base), e.f(&d)
			if (after > before) != e.dearer || after < before {
				t.Errorf("%s: %s goes from %g to %g s", c.name, e.name, before, after)
			}
		}
	}
}

// TestDecisionsDoNotFlipOnNoise: figures that are a little off either way decide
// as the built-in ones do; clear ones decide for themselves.
func TestDecisionsDoNotFlipOnNoise(t *testing.T) {
	for _, n := range []int{2, 8, 64} {
		d := Default(n, n)
		for _, l := range []Batch{even(n, 12), even(4*n, 12), even(16*n, 20), even(n, 256), even(4*n, 256)} {
			want := d.PreferCoarse(minilm, l, 512, 256)
			level := d
			level.Fine *= d.OnFine(minilm, l, 512) / d.OnCoarse(minilm, l, 256) // a tie, about
			for _, off := range []float64{0.98, 1.02} {
				c := level
				c.Coarse *= off
				r := c.OnCoarse(minilm, l, 256) / c.OnFine(minilm, l, 512)
				if r > 1-Sure && r < 1+Sure && c.PreferCoarse(minilm, l, 512, 256) != want {
					t.Errorf("%d workers, %+v: speedups off by %g turn the decision around", n, l, off)
				}
			}
			for _, better := range []bool{false, true} {
				c := d
				c.Fine, c.Coarse = 0.9*float64(n), 0.2*float64(n)
				if better {
					c.Fine, c.Coarse = 0.2*float64(n), 0.9*float64(n)
				}
				if c.PreferCoarse(minilm, l, 512, 256) != better {
					t.Errorf("%d workers, %+v: coarse is clearly better (%t), but was not decided so", n, l, better)
				}
			}
		}
	}
}

// TestThresholds finds the sizes from which a way pays.
func TestThresholds(t *testing.T) {
	c := Default(4, 4)
	threads := c.ThreadsFrom(minilm, 512)
	if threads < 1 || threads > 8 {
		t.Errorf("threads pay from %d tokens", threads)
	}
	c.Fork = 0.01
	if n := c.ThreadsFrom(minilm, 512); n <= threads {
		t.Errorf("dearer threads pay from %d tokens already, cheap ones from %d", n, threads)
	}
	c = Default(4, 4)
	c.Fine, c.Coarse = 2, 3.8
	n := c.CoarseFrom(minilm, 40, 512, 256)
	if n < 2 || n > 16 {
		t.Errorf("coarse pays from %d texts", n)
	}
	c.Fine, c.Coarse = 3.9, 1
	if n := c.CoarseFrom(minilm, 40, 512, 256); n != 0 {
		t.Errorf("coarse pays from %d texts, expected never", n)
	}
	one := Default(1, 1)
	if n := one.CoarseFrom(minilm, 40, 512, 256) + one.ThreadsFrom(minilm, 512); n != 0 {
		t.Errorf("one worker has thresholds: %d", n)
	}
}

// TestSplitGivesAll: any load is cut into runs that hold all of it, none beyond
// the most, and for many workers the last runs are even.
func TestSplitGivesAll(t *testing.T) {
	for _, workers := range []int{1, 2, 3, 16, 128} {
		for _, tokens := range []int{1, 7, 96, 511, 512, 4096, 100000} {
			var sum, runs, last int
			for s := (Work{}).Split(tokens, workers, 256); s.Left() > 0; runs++ {
				n := min(s.Next(), s.Left())
				if n < 1 || n > 256 {
					t.Fatalf("%d tokens for %d workers: a run of %d", tokens, workers, n)
				}
				s.Take(n)
				sum, last = sum+n, n
			}
			if sum != tokens {
				t.Errorf("%d tokens for %d workers: runs hold %d", tokens, workers, sum)
			}
			if least := (tokens + 255) / 256; runs < least || runs > least+8*workers {
				t.Errorf("%d tokens for %d workers: %d runs, the last of %d", tokens, workers, runs, last)
			}
		}
	}
}

// TestManyWorkersEndTogether: of many workers the slowest is slow, so their last runs
// are shorter than those of a few, unless fetching the weights again takes long.
func TestManyWorkersEndTogether(t *testing.T) {
	small, large := Work{Packed: 11e6}, Work{Stored: 1e9}
	for _, c := range []struct {
		w             Work
		workers, want int
	}{{small, 2, 256}, {small, 4, 256}, {small, 5, 128}, {small, 16, 128}, {large, 16, 256}} {
		s := c.w.Split(256*c.workers, c.workers, 256)
		if got := s.Next(); got != c.want {
			t.Errorf("%d workers, %g weights: a run of %d tokens, expected %d", c.workers, c.w.Packed+c.w.Stored, got, c.want)
		}
	}
}
