//go:build !nogpu

package optest

import (
	"errors"
	"testing"

	"hotpath/internal/backend/cuda"
	kcpu "hotpath/internal/kernel/cpu"
	"hotpath/internal/plan"
)

// TestCUDA holds a card to the reference, forward and backward.
func TestCUDA(t *testing.T) {
	known := answers{}
	for _, how := range []struct {
		name string
		o    cuda.Options
		tol  float64
	}{{"f32", cuda.Options{F32: true}, 0}, {"bf16", cuda.Options{}, 1e-2}} {
		t.Run(how.name, func(t *testing.T) {
			b, err := cuda.New(how.o)
			if errors.Is(err, cuda.ErrDevice) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			be := backend{name: "cuda", open: func() (plan.Backend, error) { return b, nil }, tier: kcpu.Active(), tol: how.tol}
			for _, c := range Cases() {
				parity(t, c, be, b, known, "forward")
				if differentiable(c) {
					parity(t, c, be, b, known, "backward")
				}
			}
		})
	}
}
