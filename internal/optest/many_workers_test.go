package optest

import (
	"fmt"
	"slices"
	"testing"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// TestBitsAtManyWorkers: products that many workers cut into a grid, their gradients
// and sums over rows have the bits that one worker gives them, in both classes.
func TestBitsAtManyWorkers(t *testing.T) {
	const rows, n, k = 1024, 1536, 64
	run := func(build func(b *Bench) []*graph.Value, grad bool, p cpu.Precision, workers int) [][]float32 {
		be, err := cpu.New(cpu.Options{Workers: workers, Precision: p})
		if err != nil {
			t.Fatal(err)
		}
		defer be.Close()
		graphOf := Forward
		if grad {
			graphOf = Backward
		}
		b, outs, err := graphOf(Case{Build: build}, tensor.Bind{T: rows, S: 1, R: 1})
		if err != nil {
			t.Fatal(err)
		}
		res, err := b.outputs(be, Options{}, outs)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	for _, c := range []struct {
		name  string
		grad  bool
		build func(b *Bench) []*graph.Value
	}{
		{"linear", false, func(b *Bench) []*graph.Value {
			x := b.Act("x", b.Linear("first", b.F32(dimT, k), b.Stored(tensor.F32, k, k), nil), graph.GELU) // in bf16 between the two
			return []*graph.Value{b.Linear("y", x, b.Stored(tensor.F32, n, k), b.F32(tensor.Fixed(n)))}
		}},
		{"linear backward", true, func(b *Bench) []*graph.Value {
			return []*graph.Value{b.Linear("y", b.F32(dimT, k), b.F32(tensor.Fixed(n), k), b.F32(tensor.Fixed(n)))}
		}},
		{"deep linear backward", true, func(b *Bench) []*graph.Value {
			return []*graph.Value{b.Linear("y", b.F32(dimT, 768), b.F32(tensor.Fixed(96), 768), b.F32(tensor.Fixed(96)))}
		}},
		{"layer norm backward", true, func(b *Bench) []*graph.Value {
			return []*graph.Value{b.LayerNorm("y", b.F32(dimT, 96), b.F32(tensor.Fixed(96)), b.F32(tensor.Fixed(96)), 1e-5)}
		}},
	} {
		for _, p := range []cpu.Precision{cpu.F32, cpu.BF16} {
			t.Run(fmt.Sprintf("%s/%s", c.name, p), func(t *testing.T) {
				want := run(c.build, c.grad, p, 1)
				for _, workers := range []int{2, 6, 16} {
					for i, got := range run(c.build, c.grad, p, workers) {
						if !slices.Equal(got, want[i]) {
							t.Errorf("output %d differs between 1 and %d workers", i, workers)
						}
					}
				}
			})
		}
	}
}
