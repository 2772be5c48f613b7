package train

import (
	"path/filepath"
	"runtime"
	"testing"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/tensor"
	"hotpath/internal/testmodels"
	"hotpath/internal/weights"
)

// TestStateIsHandledInPlace: reading and writing parameters and moments, with the
// packed forms of bf16, takes no copy of the largest, but for one that random
// weights are drawn into. A checkpoint of parameters that lie in files as they are
// takes none either.
func TestStateIsHandledInPlace(t *testing.T) {
	be, err := cpu.New(cpu.Options{Workers: 1, Precision: cpu.BF16})
	must(t, err)
	defer func() { must(t, be.Close()) }()
	r := golden(t, "llama", be, testmodels.LoadTraining(t, "llama"))
	largest, all := 0, 0
	for _, p := range r.parts.Params {
		largest, all = max(largest, 4*p.Value.Shape.Len(tensor.Bind{})), all+4*p.Value.Shape.Len(tensor.Bind{})
	}
	for _, c := range []struct {
		name  string
		do    func() error
		bytes int
	}{
		{"finite", r.finite, largest / 2},
		{"state", func() error { return r.writeState(filepath.Join(t.TempDir(), "state"), progress{}) }, largest * 2}, // of names and places
		{"export", func() error { return r.export(r.values(), func(weights.Tensor) error { return nil }) }, all / 2},
		{"randomize", func() error { return r.randomize(1, 2) }, largest * 3 / 2},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		must(t, c.do())
		runtime.ReadMemStats(&after)
		if got := int(after.TotalAlloc - before.TotalAlloc); got > c.bytes {
			t.Errorf("%s allocates %d bytes, expected at most %d: the largest parameter has %d", c.name, got, c.bytes, largest)
		}
	}
}
