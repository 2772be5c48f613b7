//go:build unix

package i16

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"hotpath/internal/kernel/fence"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

// TestInside: products read and write their operands and their workspace only,
// whatever they end with.
func TestInside(t *testing.T) {
	for _, front := range []bool{false, true} {
		var f [11]*fence.Fence
		for i := range f {
			f[i] = fence.New(t, 1<<20, front)
		}
		fence.Hold(t, func(doing *string) {
			rng := rand.New(rand.NewPCG(1, 2))
			for _, tier := range isa.Available() {
				defer isa.Use(tier)()
				for _, d := range tensor.Codecs() {
					for act := range GeluTanh + 1 {
						m, n, k := 1+rng.IntN(30), 1+rng.IntN(50), 1+rng.IntN(200)
						if block := d.Info().BlockLen; block > 1 {
							k = block * (1 + rng.IntN(max(1, 800/block)))
						}
						*doing = fmt.Sprintf("activation %d of %v on %v, %dx%dx%d", act, d, tier, m, n, k)
						raw := fence.Of[byte](f[0], n*d.RowBytes(k))
						for i := range raw {
							raw[i] = byte(rng.Uint32()) // any bits: results are not looked at
						}
						w, err := gemm.NewStored(raw, d, n, k)
						if err != nil {
							t.Fatal(err)
						}
						s := NewScratch(k)
						s.a, s.scales = fence.Of[int16](f[1], len(s.a)), fence.Of[float32](f[2], len(s.scales))
						s.panel.codes, s.panel.scales = fence.Of[int16](f[3], len(s.panel.codes)), fence.Of[float32](f[4], len(s.panel.scales))
						s.rows, s.c, s.sums = fence.Of[int16](f[5], len(s.rows)), fence.Of[float32](f[6], len(s.c)), fence.Of[float32](f[7], len(s.sums))
						task := Task{M: m, N: n, K: k, A: fence.Of[float32](f[8], m*k), LDA: k, W: Stored{w}, C: fence.Of[float32](f[9], m*n), LDC: n, Bias: fence.Of[float32](f[10], n), Act: act}
						Run(&task, 0, m, 0, NumPanels(n), s)
					}
				}
			}
		})
	}
}
