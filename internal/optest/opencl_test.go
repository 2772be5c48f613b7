//go:build !nogpu

package optest

import (
	"testing"

	"hotpath/internal/backend/opencl"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/plan"
)

// TestOpenCL holds a device to the reference, forward and backward.
func TestOpenCL(t *testing.T) {
	if _, err := opencl.Devices(); err != nil {
		t.Skip(err)
	}
	b, err := opencl.New(opencl.Options{Untuned: true})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	known := answers{}
	be := backend{name: "opencl", open: func() (plan.Backend, error) { return b, nil }, tier: isa.Active()}
	for _, c := range Cases() {
		for _, what := range []string{"forward", "backward"} {
			if what == "forward" || Differentiable(c, binds[1]) {
				t.Run(c.Name+"/"+what, func(t *testing.T) { parity(t, c, be, b, known, what) })
			}
		}
	}
}
