package bf16

import (
	"fmt"
	"testing"

	"hotpath/internal/kernel/codes"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/tensor"
)

// BenchmarkUnpack decodes weights of the size of a layer into tiles, by way of
// f32 and, where the type has one, by its own, from the file's rows and from panels
// of codes.
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
		if codes.Has(d) {
			ways = append(ways, ways[1])
			ways[2].name, ways[2].panel = "panels", NewStored(inPanels(b, w)).Panel
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

// BenchmarkAhead multiplies many rows with weights from the file's rows, from
// panels of codes and in bf16 panels, in turn, and reports cycles per product of
// 32 x 32 x 32.
func BenchmarkAhead(b *testing.B) {
	const n, k = 1536, 768
	for _, d := range codes.Types() {
		rows := stored(b, d, n, k)
		panels := inPanels(b, rows)
		packed := Pack(make([]uint16, PackedLen(n, k)), NewStored(rows), n, k)
		for _, m := range []int{17, 32, 64, 128, 512} {
			a, c := random(m*k, 1), make([]float32, m*n)
			var ways []benchWay
			for _, p := range []struct {
				name string
				b    Panels
			}{{"panels", NewStored(panels)}, {"rows", NewStored(rows)}, {"packed", packed}} {
				task, s := Task{M: m, N: n, K: k, A: a, LDA: k, B: p.b, C: c, LDC: n}, NewScratch(k)
				ways = append(ways, benchWay{p.name, func() { Run(&task, 0, m, 0, n/NR, s) }})
			}
			b.Run(fmt.Sprintf("%v/m=%d", d, m), func(b *testing.B) {
				benchTurns(b, float64((m+31)/32*(n/32)*(k/32)), ways)
			})
		}
	}
}
