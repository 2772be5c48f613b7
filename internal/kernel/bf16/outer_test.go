package bf16

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hotpath/internal/kernel/isa"
)

// TestOuter holds A^T B to float64 sums of rounded operands, with tails in every
// dimension, strides beyond the row and guards around C. Any split of rows and
// panels gives the same bits, and an epoch lets operands be found again.
func TestOuter(t *testing.T) {
	if !slices.Contains(isa.Available(), isa.AMX) {
		t.Skip("no tiles")
	}
	defer isa.Use(isa.AMX)()
	for _, s := range [][3]int{{1, 1, 0}, {1, 1, 1}, {16, 32, 32}, {33, 70, 31}, {40, 17, 65}, {64, 96, 800}, {100, 100, 1600}} {
		m, n, k := s[0], s[1], s[2]
		lda, ldb, ldc := m+3, n+1, n+5
		o := &Outer{M: m, N: n, K: k, A: random(k*lda+m, 1), LDA: lda, B: random(k*ldb+n, 2), LDB: ldb, C: random(m*ldc, 3), LDC: ldc, Epoch: 7}
		old := slices.Clone(o.C)
		RunOuter(o, 0, m, 0, NumPanels(n), NewOuterScratch(m, n, k))
		for i := range m {
			for j := range ldc {
				got := float64(o.C[i*ldc+j])
				if j >= n {
					if o.C[i*ldc+j] != old[i*ldc+j] {
						t.Fatalf("%v: C is written behind row %d", s, i)
					}
					continue
				}
				var want, size float64
				for r := range k {
					p := bf16(o.A[r*lda+i]) * bf16(o.B[r*ldb+j])
					want, size = want+p, size+math.Abs(p)
				}
				if math.Abs(got-want) > 1e-6*size {
					t.Fatalf("%v: C[%d,%d] is %g, expected %g", s, i, j, got, want)
				}
			}
		}
		whole := slices.Clone(o.C)
		rng, scratch := rand.New(rand.NewPCG(1, 2)), NewOuterScratch(m, n, k)
		scratch.a, scratch.b = scratch.a[:min(len(scratch.a), 2*MR*padK(max(1, k)))], scratch.b[:min(len(scratch.b), NR*padK(max(1, k)))] // in several groups
		for m0 := 0; m0 < m; m0 += MR {
			for p := 0; p < NumPanels(n); {
				end := min(NumPanels(n), p+1+rng.IntN(3))
				RunOuter(o, m0, min(m, m0+MR), p, end, scratch)
				p = end
			}
		}
		if !slices.Equal(whole, o.C) {
			t.Errorf("%v: a split changes bits", s)
		}
		o.Accumulate = true
		RunOuter(o, 0, m, 0, NumPanels(n), NewOuterScratch(m, n, k))
		for i, v := range o.C {
			if i%ldc < n && math.Abs(float64(v)-2*float64(whole[i])) > 1e-5*(1+math.Abs(float64(v))) {
				t.Fatalf("%v: C[%d,%d] is %g after %g was added to itself", s, i/ldc, i%ldc, v, whole[i])
			}
		}
	}
}

// BenchmarkOuter is the gradient of weights of GPT-2 124M and of a small Llama.
func BenchmarkOuter(b *testing.B) {
	if !Tiles() {
		b.Skip("no tiles")
	}
	for _, z := range [][3]int{{2304, 768, 256}, {3072, 768, 256}, {768, 3072, 256}, {288, 288, 4096}, {768, 288, 4096}, {288, 768, 4096}} {
		m, n, k := z[0], z[1], z[2]
		b.Run(fmt.Sprintf("%dx%d/tokens=%d", m, n, k), func(b *testing.B) {
			o := &Outer{M: m, N: n, K: k, A: random(k*m, 1), LDA: m, B: random(k*n, 2), LDB: n, C: make([]float32, m*n), LDC: n}
			s := NewOuterScratch(m, n, k)
			for b.Loop() {
				RunOuter(o, 0, m, 0, NumPanels(n), s)
			}
			b.ReportMetric(2*float64(m)*float64(n)*float64(k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}

// TestOuterOfRounded: operands that are rounded already give the bits of those that
// RunOuter rounds, whichever of the two they are and whatever their rows.
func TestOuterOfRounded(t *testing.T) {
	if !slices.Contains(isa.Available(), isa.AMX) {
		t.Skip("no tiles")
	}
	defer isa.Use(isa.AMX)()
	for _, s := range [][3]int{{32, 32, 0}, {32, 32, 1}, {64, 32, 32}, {32, 96, 33}, {96, 64, 63}, {64, 96, 800}, {32, 288, 1600}} {
		m, n, k := s[0], s[1], s[2]
		a, b := random(k*m+m, 1), random(k*n+n, 2)
		ra, rb := make([]uint16, k*m), make([]uint16, k*n)
		Round(ra, a, m, k, m)
		Round(rb, b, n, k, n)
		var want []float32
		for i, o := range []Outer{{A: a, B: b}, {RoundedA: ra, B: b}, {A: a, RoundedB: rb}, {RoundedA: ra, RoundedB: rb}} {
			o.M, o.N, o.K, o.LDA, o.LDB, o.C, o.LDC = m, n, k, m, n, make([]float32, m*n), n
			scratch := NewOuterScratch(m, n, k)
			scratch.a, scratch.b = scratch.a[:MR*padK(k)], scratch.b[:NR*padK(k)] // in several groups
			for m0 := 0; m0 < m; m0 += MR {
				RunOuter(&o, m0, m0+MR, 0, NumPanels(n), scratch)
			}
			if want == nil {
				want = o.C
			}
			if !slices.Equal(o.C, want) {
				t.Errorf("%v: other bits with rounded operands, case %d", s, i)
			}
		}
	}
}
