//go:build !nogpu

package optest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/backend/cuda"
	"hotpath/internal/graph"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// TestCUDA holds a card to the reference, forward and backward.
func TestCUDA(t *testing.T) {
	known := answers{}
	for _, how := range []struct {
		name string
		o    cuda.Options
		tol  float64
	}{{"f32", cuda.Options{F32: true}, 0}, {"bf16", cuda.Options{Narrow: true}, 1e-2}} {
		t.Run(how.name, func(t *testing.T) {
			b, err := cuda.New(how.o)
			if errors.Is(err, cuda.ErrDevice) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			be := backend{name: "cuda", open: func() (plan.Backend, error) { return b, nil }, tier: isa.Active(), tol: how.tol}
			for _, c := range Cases() {
				t.Run(c.Name, func(t *testing.T) {
					for _, what := range []string{"forward", "backward"} {
						if (what == "forward" || Differentiable(c, binds[1])) && runs(t, c, what, b.Supports) {
							parity(t, c, be, b, known, what)
						}
					}
				})
			}
		})
	}
}

// cardAndHost are a card at its default precision, and the CPU in f32.
func cardAndHost(t *testing.T) (card, host plan.Backend) {
	t.Helper()
	card, err := cuda.New(cuda.Options{})
	if errors.Is(err, cuda.ErrDevice) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { card.Close() })
	if host, err = cpu.New(cpu.Options{Precision: cpu.F32}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close() })
	return card, host
}

// run gives the results of a case of so many rows.
func run(t *testing.T, be plan.Backend, c Case, rows int) [][]float32 {
	t.Helper()
	b := NewBench(tensor.Bind{T: rows, S: 1, R: rows}, false)
	outs, err := b.outputs(be, Options{}, c.Build(b))
	if err != nil {
		t.Fatalf("%s, %d rows: %v", c.Name, rows, err)
	}
	return outs
}

// TestCUDAOddSizes holds gradients on tensor cores to the CPU's in f32, at sizes of
// real models that no tile divides.
func TestCUDAOddSizes(t *testing.T) {
	card, host := cardAndHost(t)
	product := func(n, k int) Case {
		return Case{Name: fmt.Sprintf("[T,%d] x [%d,%d]", n, n, k), Build: func(b *Bench) []*graph.Value {
			x, dy, w := b.F32(dimT, k), b.F32(dimT, n), b.Stored(tensor.F32, n, k)
			return []*graph.Value{
				b.Apply(graph.OpLinearDX, "dx", nil, dy, w).Out[0],
				b.Apply(graph.OpLinearDW, "dw", nil, dy, x).Out[0],
				b.Apply(graph.OpColSum, "db", nil, dy).Out[0],
			}
		}}
	}
	for _, c := range []Case{product(768, 776), product(1001, 520), product(264, 3080), product(2304, 768)} {
		for _, rows := range []int{1, 63, 200, 1025, 4100} {
			want, got := run(t, host, c, rows), run(t, card, c, rows)
			for i := range want {
				if err := compareAbove(got[i], want[i], 1e-2, 0.5); err != nil {
					t.Errorf("%s, %d rows: output %d: %v", c.Name, rows, i, err)
				}
			}
			for i, again := range run(t, card, c, rows) {
				if !slices.Equal(again, got[i]) {
					t.Errorf("%s, %d rows: output %d differs from run to run", c.Name, rows, i)
				}
			}
		}
	}
}

// TestCUDAHead holds the gradients of a head of GPT-2's size and of its loss to the
// CPU's in f32. The logits are exact in bf16, so that all that is rounded are their
// gradients d: to 8 bits, by 2^-8 of each at most. What a product makes of them is off
// by no more than that part of the sum of its terms' sizes, and sums in f32 by less
// than an eighth of it.
func TestCUDAHead(t *testing.T) {
	const vocab, width, part = 50257, 264, 1./256 + 1./2048
	card, host := cardAndHost(t)
	exact := func(sizes bool) Case {
		return Case{Name: "head and loss", Build: func(b *Bench) []*graph.Value {
			// Sums of 264 terms of +-1/4 are multiples of 1/2 up to 66.
			x, w, targets := b.F32(dimR, width), b.signs(vocab, width), b.targets(vocab)
			for i, v := range b.floats[x] {
				b.floats[x][i] = float32(math.Copysign(0.25, float64(v)))
			}
			nll, _ := b.CrossEntropy("loss", b.Linear("head", x, w, nil), targets)
			d := graph.OpCrossEntropy.Grad(b.Builder, nll.Node, []*graph.Value{b.Fill("one", nll.Shape, 1), nil})[0]
			outs := []*graph.Value{nll, b.Apply(graph.OpLinearDX, "dx", nil, d, w).Out[0], b.Apply(graph.OpLinearDW, "dw", nil, d, x).Out[0]}
			if sizes { // the sums of |d| over rows
				size := b.Add("size", b.Act("above", d, graph.ReLU), b.Act("below", b.Scale("minus", d, -1), graph.ReLU))
				outs = append(outs, b.Apply(graph.OpColSum, "sizes", nil, size).Out[0])
			}
			return outs
		}}
	}
	for _, rows := range []int{1, 63, 200, 1025} {
		want, got := run(t, host, exact(true), rows), run(t, card, exact(false), rows)
		if err := Compare(got[0], want[0], 1e-5); err != nil {
			t.Errorf("%d rows: losses: %v", rows, err)
		}
		bounds := []func(i int) float64{
			func(int) float64 { return 2 }, // the sizes of a row of d add up to 2 at most, and weights are +-1
			func(i int) float64 { return float64(want[3][i/width]) / 4 },
		}
		for k, bound := range bounds {
			worst := 0.
			for i, v := range got[1+k] {
				off := math.Abs(float64(v)-float64(want[1+k][i])) / max(bound(i), 1e-30)
				if !(off <= part) {
					t.Errorf("%d rows: output %d: element %d is %g, expected %g within %g", rows, 1+k, i, v, want[1+k][i], part*bound(i))
					break
				}
				worst = max(worst, off)
			}
			t.Logf("%d rows: output %d is off by up to %.3g of its terms' sizes", rows, 1+k, worst)
		}
		for i, again := range run(t, card, exact(false), rows) {
			if !slices.Equal(again, got[i]) {
				t.Errorf("%d rows: output %d differs from run to run", rows, i)
			}
		}
	}
}

// signs is a weight of +-1.
func (b *Bench) signs(rows, cols int) *graph.Value {
	key, data := fmt.Sprintf("w%d", len(b.files)), b.random(rows*cols)
	for i, v := range data {
		data[i] = float32(math.Copysign(1, float64(v)))
	}
	raw := make([]byte, 4*len(data))
	if err := tensor.Quantize(raw, tensor.F32, data); err != nil {
		b.Fail("%w", err)
	}
	b.files[key] = weights.Tensor{Name: key, DType: tensor.F32, Dims: []int{rows, cols}, Data: raw}
	return b.Builder.Weight(key, graph.RoleQ, tensor.Static(rows, cols))
}

// runs reports whether a device has kernels for all that a case computes.
func runs(t *testing.T, c Case, what string, supports func(*graph.Node) bool) bool {
	t.Helper()
	b, _, err := builds[what](c, binds[1])
	if err != nil {
		t.Fatalf("%s: %v", c.Name, err)
	}
	return !slices.ContainsFunc(b.Nodes(), func(n *graph.Node) bool { return n.Leaf == nil && !supports(n) })
}
