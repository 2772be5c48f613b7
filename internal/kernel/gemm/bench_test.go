package gemm

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"hotpath/internal/kernel/ceiling"
	"hotpath/internal/kernel/isa"
)

// BenchmarkRun reports the rate at the models' shapes and its share of what
// the registers alone allow, measured in the same run.
func BenchmarkRun(b *testing.B) {
	rng := rand.New(rand.NewPCG(5, 5))
	for _, tier := range isa.Available() {
		for _, z := range []struct{ m, n, k int }{{16, 384, 384}, {128, 1536, 384}, {128, 576, 1536}, {512, 768, 768}, {1024, 3072, 768}} {
			if tier == isa.Generic && z.m > 16 {
				continue // seconds a round, and nothing that the small one does not show
			}
			b.Run(fmt.Sprintf("tier=%v/m=%d/n=%d/k=%d", tier, z.m, z.n, z.k), func(b *testing.B) {
				defer isa.Use(tier)()
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

// BenchmarkGemv reads weights larger than the caches' share; compare with the
// memory ceiling beside it.
func BenchmarkGemv(b *testing.B) {
	rng := rand.New(rand.NewPCG(6, 6))
	for _, tier := range isa.Available()[1:] {
		for _, d := range storedTypes {
			b.Run(fmt.Sprintf("tier=%v/type=%v", tier, d), func(b *testing.B) {
				defer isa.Use(tier)()
				const k = 576
				n := 64 << 20 / d.RowBytes(k)
				one, _ := store(b, rng, d, 64, k)
				data := make([]byte, 0, n*d.RowBytes(k))
				for len(data)+len(one.Data) <= cap(data) {
					data = append(data, one.Data...)
				}
				w, err := NewStored(data, d, len(data)/d.RowBytes(k), k)
				if err != nil {
					b.Fatal(err)
				}
				x, xs, dst := noise(rng, k), make([]float32, XSumsLen(k)), make([]float32, w.N)
				XSums(xs, x, d)
				ceil := ceiling.Read(b.Context(), data, 1, 50*time.Millisecond) / 1e9
				for b.Loop() {
					GemvRows(dst, w, x, xs, 0, w.N)
				}
				elapsed := b.Elapsed().Seconds()
				rate := float64(len(data)) * float64(b.N) / elapsed / 1e9
				b.ReportMetric(rate, "GB/s")
				b.ReportMetric(ceil, "read-GB/s")
				small := 1 << 20 / d.RowBytes(k)
				t0 := time.Now()
				for range 20 {
					GemvRows(dst, w, x, xs, 0, small)
				}
				b.ReportMetric(20*float64(small*d.RowBytes(k))/time.Since(t0).Seconds()/1e9, "L2-GB/s")
			})
		}
	}
}

// BenchmarkStored multiplies with weights decoded on the way, by panels (run)
// and by blocks (rows).
func BenchmarkStored(b *testing.B) {
	rng := rand.New(rand.NewPCG(7, 7))
	const n, k = 1536, 576
	for _, tier := range isa.Available()[1:] {
		for _, d := range storedTypes {
			for _, m := range []int{4, 16, 128} {
				w, _ := store(b, rng, d, n, k)
				t := &Task{M: m, N: n, K: k, A: noise(rng, m*k), LDA: k, B: w, C: make([]float32, m*n), LDC: n}
				s := NewScratch(nil)
				for name, f := range map[string]func(){
					"run":  func() { Run(t, 0, m, 0, NumPanels(n), s) },
					"rows": func() { MulRows(t.C, n, w, t.A, k, m, 0, n) },
				} {
					b.Run(fmt.Sprintf("tier=%v/type=%v/m=%d/%s", tier, d, m, name), func(b *testing.B) {
						defer isa.Use(tier)()
						ceil := ceiling.FMA(tier)
						for b.Loop() {
							f()
						}
						rate := 2 * float64(m*n*k) * float64(b.N) / b.Elapsed().Seconds() / 1e9
						b.ReportMetric(rate, "GFLOP/s")
						b.ReportMetric(100*rate/ceil, "%ceiling")
					})
				}
			}
		}
	}
}
