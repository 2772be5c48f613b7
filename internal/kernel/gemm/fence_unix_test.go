//go:build unix

package gemm

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"hotpath/internal/kernel/codes"
	"hotpath/internal/kernel/fence"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

// fences makes some fences at either end.
func fences(t *testing.T, n int, f func(f []*fence.Fence)) {
	for _, front := range []bool{false, true} {
		fs := make([]*fence.Fence, n)
		for i := range fs {
			fs[i] = fence.New(t, 128<<10, front)
		}
		f(fs)
	}
}

// TestCodesInside: products with codes read and write their operands only.
func TestCodesInside(t *testing.T) {
	fences(t, 5, func(f []*fence.Fence) {
		fence.Hold(t, func(doing *string) {
			rng := rand.New(rand.NewPCG(1, 2))
			for _, tier := range isa.Available() {
				defer isa.Use(tier)()
				for _, d := range codes.Types() {
					for i := range 24 {
						m, n, k := 1+i%CodeRows, codeGroup+rng.IntN(60), d.Info().BlockLen*(1+rng.IntN(5))
						*doing = fmt.Sprintf("%v on %v, %dx%dx%d", d, tier, m, n, k)
						w, err := NewStored(fence.Of[byte](f[0], n*d.RowBytes(k)), d, n, k)
						if err != nil {
							t.Fatal(err)
						}
						if i%2 == 1 {
							if w, err = NewPanels(fence.Of[byte](f[0], codes.Bytes(d, n, k)), d, n, k); err != nil {
								t.Fatal(err)
							}
						}
						s := NewCodeScratch(k)
						s.x = fence.Of[byte](f[1], len(s.x))
						task := CodeTask{M: m, A: fence.Of[float32](f[2], m*k), LDA: k, W: w, C: fence.Of[float32](f[3], m*n), LDC: n, Bias: fence.Of[float32](f[4], n)}
						cut := rng.IntN(n + 1)
						RunCodes(&task, 0, cut, s)
						RunCodes(&task, cut, n, s)
					}
				}
			}
		})
	})
}

// TestHeadInside: attention reads and writes its operands and as much of its
// workspace as it asks for.
func TestHeadInside(t *testing.T) {
	fences(t, 12, func(f []*fence.Fence) {
		fence.Hold(t, func(doing *string) {
			rng := rand.New(rand.NewPCG(3, 4))
			for _, tier := range isa.Available() {
				defer isa.Use(tier)()
				for range 40 {
					dim, keys, ld := 1+rng.IntN(70), 1+rng.IntN(100), 0
					if rng.IntN(2) == 0 {
						dim = (dim + 7) / 8 * 8
					}
					rows := min(keys, 1+rng.IntN(BlockRows(keys)))
					ld = dim + rng.IntN(3)
					*doing = fmt.Sprintf("a head of %d on %v, %d queries of %d keys", dim, tier, rows, keys)
					at := 0
					floats := func(n int) []float32 {
						at++
						v := fence.Of[float32](f[at-1], n)
						for i := range v {
							v[i] = rng.Float32()
						}
						return v
					}
					cols, dp := up(keys, NR()), up(dim, NR())
					h := &Head{
						keys: floats(cols * dim), vals: floats(dp * up(keys, 4)), q: floats(rows * up(dim, 4)),
						scores: floats(max(rows, MR()) * cols), probs: floats(rows * cols),
						sums: floats(rows), tops: floats(rows), out: floats(rows * dp),
					}
					length := func(n int) int { return (n-1)*ld + dim }
					k, v, q, out := floats(length(keys)), floats(length(keys)), floats(length(rows)), floats(length(rows))
					h.Reset(dim, keys, 0.3)
					h.Add(0, keys, k, ld, v, ld)
					h.Queries(out, ld, q, ld, rows, 0, keys, func(i int) (int, int) { return 0, keys - rows + i + 1 }, nil, nil)
				}
			}
		})
	})
}

// TestCachedInside: products with rows of a cache read and write their operands
// only.
func TestCachedInside(t *testing.T) {
	fences(t, 4, func(f []*fence.Fence) {
		fence.Hold(t, func(doing *string) {
			rng := rand.New(rand.NewPCG(5, 6))
			for _, tier := range isa.Available() {
				defer isa.Use(tier)()
				for _, d := range []tensor.DType{tensor.F32, tensor.F16, tensor.Q8_0} {
					for i := range 24 {
						heads, group, dim, rows := 1+i%3, 1+rng.IntN(6), 32*(1+rng.IntN(3)), 1+rng.IntN(40)
						*doing = fmt.Sprintf("%v on %v, %d rows of %d heads of %d, %d queries each", d, tier, rows, heads, dim, group)
						c := &Cached{DType: d, Rows: rows, RowBytes: d.RowBytes(heads * dim), Heads: heads, Dim: dim}
						c.Data = fence.Of[byte](f[0], rows*c.RowBytes)
						q, scores, out := fence.Of[float32](f[1], heads*group*dim), fence.Of[float32](f[2], heads*group*rows), fence.Of[float32](f[3], heads*group*dim)
						c.Scores(scores, rows, q, group)
						c.Mix(out, dim, scores, rows, group, i%2 == 0)
					}
				}
			}
		})
	})
}

// TestNaturalInside: panels of rows in their natural order are made of these.
func TestNaturalInside(t *testing.T) {
	fences(t, 2, func(f []*fence.Fence) {
		fence.Hold(t, func(doing *string) {
			for _, tier := range isa.Available() {
				defer isa.Use(tier)()
				for n := 1; n < 70; n++ {
					k, ld := 1+n%5, n+n%3
					*doing = fmt.Sprintf("%dx%d on %v", k, n, tier)
					b := Natural{W: fence.Of[float32](f[0], (k-1)*ld+n), N: n, K: k, LD: ld}
					for p := range NumPanels(n) {
						b.Panel(p, 0, k, fence.Of[float32](f[1], k*NR()))
					}
				}
			}
		})
	})
}

// TestTransposedInside: a product whose A is transposed reads A only, and its
// strips of any height are packed from within.
func TestTransposedInside(t *testing.T) {
	fences(t, 3, func(f []*fence.Fence) {
		fence.Hold(t, func(doing *string) {
			rng := rand.New(rand.NewPCG(5, 6))
			s := NewScratch(nil)
			for _, tier := range isa.Available() {
				defer isa.Use(tier)()
				for m := 1; m < 45; m++ {
					n, k, lda := 1+rng.IntN(40), 1+rng.IntN(3*packDepth), m+rng.IntN(3)
					*doing = fmt.Sprintf("%dx%dx%d on %v", m, n, k, tier)
					b := Natural{W: fence.Of[float32](f[0], k*n), N: n, K: k, LD: n}
					task := Task{M: m, N: n, K: k, A: fence.Of[float32](f[1], (k-1)*lda+m), LDA: lda, ATrans: true, B: b, C: fence.Of[float32](f[2], m*n), LDC: n}
					Run(&task, 0, m, 0, NumPanels(n), s)
				}
			}
		})
	})
}
