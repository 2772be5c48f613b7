//go:build unix

package codes

import (
	"fmt"
	"testing"

	"hotpath/internal/kernel/fence"
	"hotpath/internal/kernel/isa"
)

// TestPanelsInside: packing and unpacking read and write their operands only.
func TestPanelsInside(t *testing.T) {
	for _, front := range []bool{false, true} {
		a, b := fence.New(t, 128<<10, front), fence.New(t, 128<<10, front)
		fence.Hold(t, func(doing *string) {
			for _, tier := range isa.Available() {
				defer isa.Use(tier)()
				for _, d := range Types() {
					for _, n := range []int{5, 16, 40} {
						k := 3 * d.Info().BlockLen
						*doing = fmt.Sprintf("%v on %v, %d rows", d, tier, n)
						rows, panels := fence.Of[byte](a, n*d.RowBytes(k)), fence.Of[byte](b, Bytes(d, n, k))
						Pack(panels, rows, d, n, k, 0, NumPanels(n))
						Unpack(rows, panels, d, k, 0, n, 0, k)
					}
				}
			}
		})
	}
}
