package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"hotpath/internal/kernel/isa"
)

// headCase is one head: keys and values lie ld apart, as heads of a row do.
type headCase struct {
	dim, keys, ld int
	scale         float32
	q, k, v       []float32
	visible       func(i int) (int, int)
}

func newHeadCase(rng *rand.Rand, dim, keys, window int, causal bool) *headCase {
	c := &headCase{dim: dim, keys: keys, ld: dim + 5, scale: 0.3}
	for _, m := range []*[]float32{&c.q, &c.k, &c.v} {
		*m = make([]float32, keys*c.ld)
		for i := range *m {
			(*m)[i] = float32(rng.NormFloat64())
		}
	}
	c.visible = func(i int) (lo, hi int) {
		lo, hi = 0, keys
		if causal {
			hi = i + 1
		}
		if window > 0 {
			lo, hi = max(0, i-window+1), min(hi, i+window)
		}
		return lo, hi
	}
	return c
}

// run computes all queries with keys packed from base on, at most rows at a time.
func (c *headCase) run(h *Head, q0, base, rows int, adjust func(i int, scores []float32)) (out, lse []float32) {
	out, lse = make([]float32, c.keys*c.ld), make([]float32, c.keys)
	for i := range out {
		out[i] = -77
	}
	h.Reset(c.dim, c.keys-base, c.scale)
	for at := base; at < c.keys; at += 48 { // more than one panel, and not whole ones
		h.Add(at-base, min(48, c.keys-at), c.k[at*c.ld:], c.ld, c.v[at*c.ld:], c.ld)
	}
	for t := q0; t < c.keys; t += rows {
		n := min(rows, c.keys-t)
		lo, _ := c.visible(t)
		_, hi := c.visible(t + n - 1)
		h.Queries(out[t*c.ld:], c.ld, c.q[t*c.ld:], c.ld, n, lo-base, hi-base, func(i int) (int, int) {
			lo, hi := c.visible(t + i)
			return lo - base, hi - base
		}, adjust, nil)
		for i := range n {
			lse[t+i] = h.LogSum(i)
		}
	}
	return out, lse
}

// check compares with float64, and that nothing was written between heads.
func (c *headCase) check(t *testing.T, out, lse []float32) {
	t.Helper()
	for i := range c.keys {
		lo, hi := c.visible(i)
		scores, top, sum := make([]float64, hi-lo), math.Inf(-1), 0.0
		for j := range scores {
			for d := range c.dim {
				scores[j] += float64(c.q[i*c.ld+d]) * float64(c.k[(lo+j)*c.ld+d])
			}
			scores[j] *= float64(c.scale)
			top = max(top, scores[j])
		}
		for j := range scores {
			scores[j] = math.Exp(scores[j] - top)
			sum += scores[j]
		}
		if want := top + math.Log(sum); !(math.Abs(float64(lse[i])-want) <= 1e-5*(1+math.Abs(want))) {
			t.Fatalf("query %d: log-sum is %g, expected %g", i, lse[i], want)
		}
		for d := range c.ld {
			want := -77.0
			if d < c.dim {
				want = 0
				for j, p := range scores {
					want += p / sum * float64(c.v[(lo+j)*c.ld+d])
				}
			}
			if !(math.Abs(float64(out[i*c.ld+d])-want) <= 1e-5) {
				t.Fatalf("query %d, value %d is %g, expected %g", i, d, out[i*c.ld+d], want)
			}
		}
	}
}

func eachHead(t *testing.T, f func(t *testing.T, c *headCase, h *Head)) {
	for _, tier := range isa.Available() {
		defer isa.Use(tier)()
		rng := rand.New(rand.NewPCG(7, 8))
		for _, s := range []struct {
			dim, keys, window int
			causal            bool
		}{{32, 1, 0, false}, {32, 16, 0, false}, {32, 128, 0, false}, {24, 67, 0, true}, {20, 131, 9, false}, {64, 150, 40, true}, {7, 33, 0, false}, {256, 40, 0, true}} {
			t.Run(fmt.Sprint(tier, s), func(t *testing.T) {
				f(t, newHeadCase(rng, s.dim, s.keys, s.window, s.causal), NewHead(s.dim, s.keys))
			})
		}
	}
}

// TestHead holds every tier to float64, also for scores so large that only
// their differences fit.
func TestHead(t *testing.T) {
	eachHead(t, func(t *testing.T, c *headCase, h *Head) {
		out, lse := c.run(h, 0, 0, BlockRows(c.keys), nil)
		c.check(t, out, lse)
		capped := func(i int, scores []float32) {}
		out, lse = c.run(h, 0, 0, BlockRows(c.keys), capped)
		c.check(t, out, lse)
	})
}

// TestHeadBits: a query's bits depend neither on its block nor on where the
// packed keys begin.
func TestHeadBits(t *testing.T) {
	eachHead(t, func(t *testing.T, c *headCase, h *Head) {
		want, wantLSE := c.run(h, 0, 0, BlockRows(c.keys), nil)
		for _, rows := range []int{1, 3, BlockRows(c.keys)} {
			for q0 := 0; q0 < c.keys; q0 += 1 + c.keys/3 {
				lo, _ := c.visible(q0)
				got, lse := c.run(h, q0, lo/32*32, rows, nil)
				for i := q0 * c.ld; i < len(got); i++ {
					if got[i] != want[i] || lse[i/c.ld] != wantLSE[i/c.ld] {
						t.Fatalf("blocks of %d from query %d on: query %d, value %d is %g, not %g", rows, q0, i/c.ld, i%c.ld, got[i], want[i])
					}
				}
			}
		}
	})
}

// TestHeadExtremes: a key that is not a number reaches those queries that see it
// and no others; scores far apart, far below and of any size give weights of 0 and 1.
func TestHeadExtremes(t *testing.T) {
	for _, tier := range isa.Available() {
		t.Run(tier.String(), func(t *testing.T) {
			defer isa.Use(tier)()
			c := newHeadCase(rand.New(rand.NewPCG(9, 10)), 16, 60, 0, true)
			h := NewHead(c.dim, c.keys)
			c.k[30*c.ld+3] = float32(math.NaN())
			out, _ := c.run(h, 0, 0, BlockRows(c.keys), nil)
			for i := range c.keys {
				if nan := math.IsNaN(float64(out[i*c.ld])); nan != (i >= 30) {
					t.Errorf("query %d is %g", i, out[i*c.ld])
				}
			}
			for _, scale := range []float32{1e-42, 1e-32, 1e-20, 1, 1e8, 1e30} {
				c := newHeadCase(rand.New(rand.NewPCG(9, 10)), 16, 60, 0, false)
				c.scale = scale
				clear(c.k)
				if scale >= 1 {
					c.k[7*c.ld] = 1000 // one key stands out, at both ends
				}
				out, _ := c.run(h, 0, 0, BlockRows(c.keys), nil)
				for i := range c.keys {
					var want float32
					switch x := c.q[i*c.ld]; {
					case scale >= 1 && x > 0.2:
						want = c.v[7*c.ld]
					case scale >= 1 && x < -0.2:
						for j := range c.keys {
							if j != 7 {
								want += c.v[j*c.ld] / float32(c.keys-1)
							}
						}
					case scale < 1:
						for j := range c.keys {
							want += c.v[j*c.ld] / float32(c.keys)
						}
					default:
						continue
					}
					if got := out[i*c.ld]; !(math.Abs(float64(got-want)) < 1e-5) {
						t.Errorf("scale %g: query %d is %g, expected %g", scale, i, got, want)
					}
				}
			}
		})
	}
}
