package bf16

import (
	"testing"

	"hotpath/internal/tensor"
)

// TestPanelsAtOnce: kernels for tiles of f16 get whole groups of four panels, however
// long panels are; others as many as fit.
func TestPanelsAtOnce(t *testing.T) {
	for _, c := range []struct{ k, half, other int }{
		{32, 1024, 1024}, {576, 56, 56}, {4096, 8, 8}, {4800, 4, 6}, {6912, 4, 4}, {8192, 4, 4}, {8224, 4, 3}, {14336, 4, 2}, {28672, 4, 1}, {65536, 4, 1},
	} {
		for d, kernel := range halfKernels {
			if got := kernel.panelsAtOnce(c.k / kStep); got != c.half {
				t.Errorf("%v on tiles of f16, K of %d: %d panels, expected %d", d, c.k, got, c.half)
			}
		}
		if got := panelKernels[tensor.Q4_1].panelsAtOnce(c.k / kStep); got != c.other {
			t.Errorf("tiles of bf16, K of %d: %d panels, expected %d", c.k, got, c.other)
		}
	}
}
