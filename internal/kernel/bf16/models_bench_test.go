package bf16

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"hotpath/internal/kernel/ceiling"
	"hotpath/internal/kernel/isa"
)

// BenchmarkModels multiplies at the models' own shapes, N x K, and reports per
// cent of what the tiles do from registers. Machines change from moment to
// moment: each turn (-benchtime 20x for twenty) is 10 ms of the ceiling and 10
// of short runs, and the figure is the median of the turns' ratios.
func BenchmarkModels(b *testing.B) {
	if isa.Active() < isa.AMX {
		b.Skip("this machine has no tiles")
	}
	for _, d := range [][2]int{{384, 384}, {1536, 384}, {384, 1536}, {576, 576}, {1536, 576}, {576, 1536}, {768, 768}, {1152, 768}, {768, 1152}} {
		n, k := d[0], d[1]
		w := pack(random(n*k, 2), n, k)
		for _, m := range []int{16, 64, 128, 512} {
			x, c, s := random(m*k, 1), make([]float32, m*n), NewScratch(k)
			half, out := make([]uint16, m*k), make([]uint16, m*n)
			Round(half, x, k, m, k)
			for _, way := range []struct {
				name string
				run  func()
			}{
				{"f32", func() { Run(&Task{M: m, N: n, K: k, A: x, LDA: k, B: w, C: c, LDC: n}, 0, m, 0, n/NR, s) }},
				{"rounded", func() { Run(&Task{M: m, N: n, K: k, Rounded: half, LDA: k, B: w, C: c, LDC: n}, 0, m, 0, n/NR, s) }},
				{"gelu", func() {
					RunRounded(&RoundedTask{M: m, N: n, K: k, Rounded: half, LDA: k, B: w, Act: Gelu, Out: out}, 0, m, 0, n/NR, s)
				}},
			} {
				b.Run(fmt.Sprintf("m=%d/n=%d/k=%d/%s", m, n, k, way.name), func(b *testing.B) {
					var rates, ratios []float64
					for range b.N {
						most := ceiling.Tiles("bf16")
						var runs []float64
						for start := time.Now(); time.Since(start) < 10*time.Millisecond; {
							t0 := time.Now()
							way.run()
							runs = append(runs, time.Since(t0).Seconds())
						}
						slices.Sort(runs)
						rate := 2 * float64(m) * float64(n) * float64(k) / runs[len(runs)/2] / 1e9
						rates, ratios = append(rates, rate), append(ratios, 100*rate/most)
					}
					slices.Sort(rates)
					slices.Sort(ratios)
					b.ReportMetric(rates[b.N/2], "GFLOP/s")
					b.ReportMetric(ratios[b.N/2], "%ceiling")
				})
			}
		}
	}
}
