package int8

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"hotpath/internal/kernel/bf16"
	"hotpath/internal/kernel/ceiling"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

var shapes = [][2]int{{384, 384}, {1536, 384}, {384, 1536}, {576, 1536}}

// measure reports the rate of f by the thread's own time, which a shared
// machine does not take away, and by the wall's.
func measure(b *testing.B, ops float64, unit string, f func()) (rate float64) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f()
	used, start := threadTime(), time.Now()
	for b.Loop() {
		f()
	}
	used, wall := threadTime()-used, time.Since(start)
	if used <= 0 {
		used = wall
	}
	rate = ops * float64(b.N) / used.Seconds() / 1e9
	b.ReportMetric(rate, unit)
	b.ReportMetric(ops*float64(b.N)/wall.Seconds()/1e9, "wall-"+unit)
	return rate
}

// top is the ceiling of a tier's int8 products.
func top(tier isa.Tier) float64 {
	if tier >= isa.AMX {
		return ceiling.Tiles("int8")
	}
	return ceiling.Dot(tier)
}

// BenchmarkRun reports every type at the models' shapes; bf16 on tiles, packed
// or from the file, is what it has to beat on machines that have them.
func BenchmarkRun(b *testing.B) {
	for _, tier := range isa.Available()[1:] {
		if tier == isa.AVX512 {
			continue // AVX2's kernels
		}
		for _, c := range []struct {
			class string
			d     tensor.DType
		}{{"i8g32", tensor.Q8_0}, {"i8g32", tensor.Q4_1}, {"bf16", tensor.BF16}, {"bf16", tensor.Q8_0}, {"bf16", tensor.Q4_1}} {
			for _, m := range []int{16, 128, 512} {
				for _, z := range shapes {
					n, k := z[0], z[1]
					if c.class == "bf16" && tier < isa.AMX {
						continue
					}
					b.Run(fmt.Sprintf("tier=%v/class=%s/type=%v/m=%d/n=%d/k=%d", tier, c.class, c.d, m, n, k), func(b *testing.B) {
						defer isa.Use(tier)()
						a, out, w := random(m*k, 1), make([]float32, m*n), random(n*k, 2)
						var f func()
						if c.class == "bf16" {
							var p bf16.Panels = bf16.NewStored(stored(b, c.d, w, n, k))
							if c.d == tensor.BF16 {
								p = bf16.Pack(make([]uint16, bf16.PackedLen(n, k)), p, n, k)
							}
							t, s := &bf16.Task{M: m, N: n, K: k, A: a, LDA: k, B: p, C: out, LDC: n}, bf16.NewScratch(k)
							f = func() { bf16.Run(t, 0, m, 0, bf16.NumPanels(n), s) }
						} else {
							t, s := &Task{M: m, N: n, K: k, A: a, LDA: k, B: pack(b, stored(b, c.d, w, n, k)), C: out, LDC: n}, NewScratch(k)
							f = func() { Run(t, 0, m, 0, NumPanels(n), s) }
						}
						rate := measure(b, 2*float64(m*n*k), "GOP/s", f)
						b.ReportMetric(100*rate/top(tier), "%ceiling")
					})
				}
			}
		}
	}
}

// BenchmarkFew multiplies few rows with weights beyond the caches' share:
// what counts is bytes of weights a second. gemm reads the file's rows in f32.
func BenchmarkFew(b *testing.B) {
	const k = 576
	for _, tier := range isa.Available()[1:] {
		if tier == isa.AVX512 {
			continue
		}
		for _, d := range types {
			n := 64 << 20 / d.RowBytes(k) &^ 31
			one := stored(b, d, random(64*k, 2), 64, k)
			data := make([]byte, 0, n*d.RowBytes(k))
			for len(data)+len(one.Data) <= cap(data) {
				data = append(data, one.Data...)
			}
			w, err := gemm.NewStored(data, d, len(data)/d.RowBytes(k), k)
			if err != nil {
				b.Fatal(err)
			}
			restore := isa.Use(tier)
			p := pack(b, w)
			restore()
			for _, m := range []int{1, 2, 4, 8, 10} {
				x, out, s := random(m*k, 1), make([]float32, m*w.N), NewScratch(k)
				xs := make([]float32, gemm.XSumsLen(k))
				t := &Task{M: m, N: w.N, K: k, A: x, LDA: k, B: p, C: out, LDC: w.N}
				for _, way := range []struct {
					name string
					f    func()
				}{
					{"int8", func() { Run(t, 0, m, 0, NumPanels(w.N), s) }},
					{"f32", func() {
						if m == 1 {
							gemm.XSums(xs, x, d)
							gemm.GemvRows(out, w, x, xs, 0, w.N)
						} else {
							gemm.MulRows(out, w.N, w, x, k, m, 0, w.N)
						}
					}},
				} {
					b.Run(fmt.Sprintf("tier=%v/type=%v/m=%d/%s", tier, d, m, way.name), func(b *testing.B) {
						defer isa.Use(tier)()
						measure(b, float64(len(data)), "GB/s", way.f)
					})
				}
			}
		}
	}
}

// BenchmarkQuantize is what activations cost before they meet a weight.
func BenchmarkQuantize(b *testing.B) {
	const m, k = 64, 1536
	x, s := random(m*k, 1), NewScratch(k)
	for _, tier := range isa.Available()[1:] {
		b.Run(fmt.Sprintf("tier=%v", tier), func(b *testing.B) {
			measure(b, m*k, "Gvalues/s", func() { s.quantize(familyOf(tier), q8, x, k, m, k) })
		})
	}
}
