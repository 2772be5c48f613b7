package gemm

import (
	"math"
	"math/rand/v2"
	"testing"

	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

// TestCached: scores and sums over all heads of a cache have the bits that each
// head gives alone, and nothing beside them is written.
func TestCached(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	values := func(n int) []float32 {
		f := make([]float32, n)
		for i := range f {
			f[i] = float32(rng.NormFloat64())
		}
		return f
	}
	same := func(t *testing.T, what string, got, want []float32) {
		t.Helper()
		for i := range got {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
				t.Fatalf("%s: element %d is %g, expected %g", what, i, got[i], want[i])
			}
		}
	}
	for _, tier := range isa.Available() {
		t.Run(tier.String(), func(t *testing.T) {
			defer isa.Use(tier)()
			for _, d := range []tensor.DType{tensor.F32, tensor.F16, tensor.Q8_0, tensor.Q4_0} {
				for group := 1; group <= 9; group++ {
					heads, dim, rows := 1+group%3, 32*(1+group%4), []int{1, 7, 64, 33}[group%4]
					all := heads*dim + 64
					rb := d.RowBytes(all)
					raw := make([]byte, rows*rb)
					if err := tensor.Quantize(raw, d, values(rows*all)); err != nil {
						t.Fatal(err)
					}
					c := &Cached{Data: raw[d.RowBytes(32):], DType: d, Rows: rows, RowBytes: rb, Heads: heads, Dim: dim}
					if group%2 == 0 { // other memory, and shorter
						c.Next = make([]byte, 8)
					}
					ldd, q := rows+3, values(heads*group*dim)
					want := values(heads * group * ldd)
					got := append([]float32(nil), want...)
					c.Scores(got, ldd, q, group)
					for h := range heads {
						w := c.head(h)
						MulRows(want[h*group*ldd:], ldd, &w, q[h*group*dim:], dim, group, 0, rows)
					}
					same(t, "scores", got, want)
					for _, add := range []bool{false, true} {
						ld := dim + 16
						want := values(heads * group * ld)
						got := append([]float32(nil), want...)
						c.Mix(got, ld, want[:0:0], rows, 0, add) // no rows of weights
						p := values(heads * group * ldd)
						c.Mix(got, ld, p, ldd, group, add)
						for h := range heads {
							w := c.head(h)
							MixRows(want[h*group*ld:], ld, p[h*group*ldd:], ldd, group, &w, rows, add)
						}
						same(t, "sums", got, want)
					}
				}
			}
		})
	}
}
