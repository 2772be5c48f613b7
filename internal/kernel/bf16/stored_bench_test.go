package bf16

import (
	"testing"

	"hotpath/internal/kernel/gemm"
	"hotpath/internal/tensor"
)

// BenchmarkUnpack decodes weights of the size of a layer into tiles, by way of
// f32 and, where the type has one, by its own.
func BenchmarkUnpack(b *testing.B) {
	const n, k = 1536, 768
	for _, d := range tensor.Codecs() {
		raw := make([]byte, n*d.RowBytes(k))
		if err := tensor.Quantize(raw, d, random(n*k, 1)); err != nil {
			b.Fatal(err)
		}
		w, err := gemm.NewStored(raw, d, n, k)
		if err != nil {
			b.Fatal(err)
		}
		s, buf := NewStored(w), make([]uint16, NR*padK(k))
		ways := []struct {
			name  string
			panel func(p int, scratch []uint16) []uint16
		}{{"f32", s.wide}, {"tiles", s.Panel}}
		if _, ok := unpackKinds[d]; !ok {
			ways = ways[:1]
		}
		for _, way := range ways {
			b.Run(d.String()+"/"+way.name, func(b *testing.B) {
				for b.Loop() {
					for p := range NumPanels(n) {
						way.panel(p, buf)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(n*k/512), "ns/tile")
			})
		}
	}
}
