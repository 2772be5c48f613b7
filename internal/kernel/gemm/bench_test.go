package gemm

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"hotpath/internal/kernel/ceiling"
	"hotpath/internal/kernel/cpu"
)

// BenchmarkRun reports the rate at the models' shapes and its share of what
// the registers alone allow, measured in the same run.
func BenchmarkRun(b *testing.B) {
	rng := rand.New(rand.NewPCG(5, 5))
	for _, tier := range cpu.Available() {
		for _, z := range []struct{ m, n, k int }{{16, 384, 384}, {128, 1536, 384}, {128, 576, 1536}, {512, 768, 768}, {1024, 3072, 768}} {
			b.Run(fmt.Sprintf("tier=%v/m=%d/n=%d/k=%d", tier, z.m, z.n, z.k), func(b *testing.B) {
				defer cpu.Use(tier)()
				packed := NewPacked(make([]float32, PackedLen(z.n, z.k)), z.n, z.k)
				packed.PackB(noise(rng, z.n*z.k), z.k, 0, NumPanels(z.n))
				t := &Task{M: z.m, N: z.n, K: z.k, A: noise(rng, z.m*z.k), LDA: z.k, B: packed, C: make([]float32, z.m*z.n), LDC: z.n}
				s := NewScratch(nil)
				var ceil, spent float64
				for b.Loop() {
					b.StopTimer()
					ceil += ceiling.FMA(tier)
					b.StartTimer()
					t0 := time.Now()
					for range 4 {
						Run(t, 0, z.m, 0, NumPanels(z.n), s)
					}
					spent += time.Since(t0).Seconds()
				}
				rate := 4 * 2 * float64(z.m*z.n*z.k) * float64(b.N) / spent / 1e9
				b.ReportMetric(rate, "GFLOP/s")
				b.ReportMetric(ceil/float64(b.N), "ceiling-GFLOP/s")
				b.ReportMetric(100*rate*float64(b.N)/ceil, "%ceiling")
			})
		}
	}
}
