//go:build unix

package vec

import (
	"fmt"
	"testing"

	"hotpath/internal/kernel/fence"
	"hotpath/internal/kernel/isa"
)

// TestInside: kernels read and write their operands only, of any length.
func TestInside(t *testing.T) {
	for _, front := range []bool{false, true} {
		var f [4]*fence.Fence
		for i := range f {
			f[i] = fence.New(t, 4096, front)
		}
		fence.Hold(t, func(doing *string) {
			for _, tier := range isa.Available() {
				defer isa.Use(tier)()
				for n := range 150 {
					a, b, c, d := fence.Of[float32](f[0], n), fence.Of[float32](f[1], n), fence.Of[float32](f[2], n), fence.Of[float32](f[3], n)
					for _, k := range maps {
						*doing = fmt.Sprintf("%s of %d on %v", k.name, n, tier)
						k.run(a, b, c)
					}
					*doing = fmt.Sprintf("reductions of %d on %v", n, tier)
					Sum(a)
					SumSquares(a)
					SumSquaresFrom(a, 1)
					Dot(a, b)
					DotFrom(a, b, 1)
					Max(a)
					*doing = fmt.Sprintf("norms of %d on %v", n, tier)
					RMSNorm(a, b, c, 1)
					LayerNorm(a, b, c, d, 1)
					*doing = fmt.Sprintf("AdamW of %d on %v", n, tier)
					AdamW(a, b, c, d, &someStep)
				}
			}
		})
	}
}
