//go:build !nogpu

package optest

import (
	"errors"
	"slices"
	"testing"

	"hotpath/internal/backend/cuda"
	"hotpath/internal/graph"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/plan"
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

// runs reports whether a device has kernels for all that a case computes.
func runs(t *testing.T, c Case, what string, supports func(*graph.Node) bool) bool {
	t.Helper()
	b, _, err := builds[what](c, binds[1])
	if err != nil {
		t.Fatalf("%s: %v", c.Name, err)
	}
	return !slices.ContainsFunc(b.Nodes(), func(n *graph.Node) bool { return n.Leaf == nil && !supports(n) })
}
