package vec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"hotpath/internal/kernel/isa"
)

// someStep is a step as training makes it.
var someStep = AdamWStep{Clip: 0.37, Beta1: 0.9, Rest1: 1 - float32(0.9), Beta2: 0.95, Rest2: 1 - float32(0.95),
	Keep: 1 - 1e-4, Step: 1e-2, Root: 4.47, Eps: 1e-8}

// TestAdamW holds every tier to the bits of the twin in Go, and that to the
// definition.
func TestAdamW(t *testing.T) {
	tiers(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(9, 10))
		for _, n := range lengths {
			var got, twin [4][]float32 // w, m, v, g
			var intact [4]func() bool
			for i := range got {
				got[i], intact[i] = poisoned(n)
				copy(got[i], noise(rng, n, 1))
				for j, x := range got[i] {
					if i == 2 {
						got[i][j] = x * x
					}
					if rng.IntN(8) == 0 { // a weight without a past, or without a gradient
						got[i][j] = 0
					}
				}
				twin[i] = append([]float32(nil), got[i]...)
			}
			old := [4][]float32{}
			for i := range old {
				old[i] = append([]float32(nil), got[i]...)
			}
			h := someStep
			AdamW(got[0], got[1], got[2], got[3], &h)
			adamwGeneric(twin[0], twin[1], twin[2], twin[3], &h)
			for i := range got {
				if !intact[i]() {
					t.Fatalf("length %d: wrote outside of operand %d", n, i)
				}
				for j := range got[i] {
					if math.Float32bits(got[i][j]) != math.Float32bits(twin[i][j]) {
						t.Fatalf("operand %d[%d of %d] = %g, the twin has %g", i, j, n, got[i][j], twin[i][j])
					}
				}
			}
			for j := range n {
				g := float64(old[3][j]) * float64(h.Clip)
				m := float64(h.Beta1)*float64(old[1][j]) + float64(h.Rest1)*g
				v := float64(h.Beta2)*float64(old[2][j]) + float64(h.Rest2)*g*g
				w := float64(h.Keep)*float64(old[0][j]) - float64(h.Step)*m/(math.Sqrt(v)*float64(h.Root)+float64(h.Eps))
				for i, want := range []float64{w, m, v} {
					if !near(got[i][j], want, 1e-6, 1e-7) {
						t.Fatalf("operand %d[%d of %d] = %g, want %g", i, j, n, got[i][j], want)
					}
				}
			}
		}
	})
}

func BenchmarkAdamW(b *testing.B) {
	for _, tier := range isa.Available() {
		for _, n := range []int{1024, 1 << 22} { // in L1, and beyond the caches
			b.Run(fmt.Sprintf("tier=%v/n=%d", tier, n), func(b *testing.B) {
				defer isa.Use(tier)()
				var of [4][]float32
				for i := range of {
					of[i] = make([]float32, n)
					for j := range of[i] {
						of[i][j] = 1 / float32(j+1)
					}
				}
				h := someStep
				for b.Loop() {
					AdamW(of[0], of[1], of[2], of[3], &h)
				}
				b.ReportMetric(28*float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
			})
		}
	}
}
