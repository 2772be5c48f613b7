package amx

import (
	"testing"

	"hotpath/internal/kernel/gemm"
	"hotpath/internal/tensor"
)

// BenchmarkUnpack decodes weights of the size of a layer into tiles.
func BenchmarkUnpack(b *testing.B) {
	const n, k = 1536, 576
	for _, d := range []tensor.DType{tensor.F32, tensor.F16, tensor.BF16, tensor.Q8_0, tensor.Q4_1, tensor.Q4_0, tensor.Q6_K} {
		b.Run(d.String(), func(b *testing.B) {
			raw := make([]byte, n*d.RowBytes(k))
			if err := tensor.Quantize(raw, d, random(n*k, 1)); err != nil {
				b.Fatal(err)
			}
			w, err := gemm.NewStored(raw, d, n, k)
			if err != nil {
				b.Fatal(err)
			}
			s, buf := NewStored(w), make([]uint16, NR*padK(k))
			for b.Loop() {
				for p := range NumPanels(n) {
					s.Panel(p, buf)
				}
			}
			b.ReportMetric(n*k*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gweights/s")
		})
	}
}
