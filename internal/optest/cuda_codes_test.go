//go:build !nogpu

package optest

import (
	"fmt"
	"slices"
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// TestCUDACodes holds products of a single row with codes to the CPU's in f32, where a
// block of a large card takes several rounds: rows so many, or so long, that the ring of
// rows is written more than once, with parts of k that some warps do not have; and gates
// so wide that they hand their results on as codes.
func TestCUDACodes(t *testing.T) {
	card, host := cardAndHost(t)
	row := tensor.Fixed(1)
	for _, d := range []tensor.DType{tensor.Q8_0, tensor.Q4_0, tensor.Q4_1, tensor.Q4_K, tensor.Q6_K} {
		rest := max(d.Info().BlockLen, 64) // what the last part of k has
		product := func(n, k int) Case {
			return Case{Name: fmt.Sprintf("%d rows of %d", n, k), Build: func(b *Bench) []*graph.Value {
				x := b.Linear("x", b.F32(row, 256), b.Stored(d, k, 256), nil) // the product behind it begins early
				return one(b.Linear("y", x, b.Stored(d, n, k), b.F32(tensor.Fixed(n))))
			}}
		}
		// 14,336 gates are 64 per block of a card with 132 multiprocessors.
		gate := func(wide, k int) Case {
			return Case{Name: fmt.Sprintf("gate of %d, and back", wide), Build: func(b *Bench) []*graph.Value {
				h := rmsNorm(b, "h", b.Add("sum", b.F32(row, k), b.F32(row, k)))
				y := b.GLU("y", b.Linear("g", h, b.Stored(d, wide, k), b.F32(tensor.Fixed(wide))), b.Linear("u", h, b.Stored(d, wide, k), nil), graph.SiLU)
				return one(b.Linear("back", y, b.Stored(d, 75, wide), nil))
			}}
		}
		for _, c := range []Case{
			product(5401, 2048+rest), product(9001, 256+rest), product(75, 8192+rest), product(301, 5*2048+rest),
			gate(768, 512+rest), gate(3584, 256), gate(14336, 256),
		} {
			want, got := run(t, host, c, 1), run(t, card, c, 1)
			if err := Compare(got[0], want[0], 1e-4); err != nil {
				t.Errorf("%s, %s: %v", d, c.Name, err)
			}
			if again := run(t, card, c, 1); !slices.Equal(again[0], got[0]) {
				t.Errorf("%s, %s: differs from run to run", d, c.Name)
			}
		}
	}
}
