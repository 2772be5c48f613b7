package train

import (
	"errors"
	"path/filepath"
	"runtime"
	"strings"
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
		must(t, c.do()) // what encoding/json remembers of types does not count
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		must(t, c.do())
		runtime.ReadMemStats(&after)
		if got := int(after.TotalAlloc - before.TotalAlloc); got > c.bytes {
			t.Errorf("%s allocates %d bytes, expected at most %d: the largest parameter has %d", c.name, got, c.bytes, largest)
		}
	}
}

// TestMemoryCountsWhatRunsBeside: with memory for the training program alone, a run
// that has something beside it is refused before it takes any, and planning says the
// same figure.
func TestMemoryCountsWhatRunsBeside(t *testing.T) {
	dir := t.TempDir()
	pairs := write(t, dir, "pairs.jsonl", strings.Repeat(`{"anchor":"one","positive":"two"}`+"\n"+`{"anchor":"four","positive":"five"}`+"\n", 6))
	preferences := write(t, dir, "preferences.jsonl", strings.Repeat(`{"prompt":"Hi ","chosen":"Good day","rejected":"What"}`+"\n", 6))
	for owner, c := range map[string]struct {
		model string
		set   func(c *Config)
	}{
		"samples":   {"llama", func(c *Config) { c.Sample.Every = 1 }},
		"reference": {"llama", func(c *Config) { c.Objective.Type, c.Data = "dpo", []string{preferences} }},
		"teacher":   {"llama", func(c *Config) { c.Objective = ObjectiveConfig{Type: "distill", Teacher: c.Model} }},
		"gradient cache": {"bert", func(c *Config) {
			c.Objective.Type, c.Data, c.MicroTokens, c.SeqLen = "contrastive", []string{pairs}, 24, 12
		}},
		"evaluation": {"bert", func(c *Config) {
			c.Objective.Type, c.Data, c.Validation.Data = "contrastive", []string{pairs}, []string{pairs}
		}},
	} {
		cfg := fixture(t, c.model)
		c.set(&cfg)
		e, err := Plan(t.Context(), cfg, Options{Backend: cpuBackend(t, 1), Memory: 1})
		must(t, err)
		beside := e.Memory[owner]
		if beside == 0 {
			t.Errorf("%s: nothing is counted in %v", owner, e.Memory)
			continue
		}
		for _, m := range []struct {
			bytes int64
			fits  bool
		}{{e.TotalMemory() - beside, false}, {e.TotalMemory() - 1, false}, {e.TotalMemory(), true}} {
			cfg.Out = filepath.Join(t.TempDir(), "out")
			tr, err := New(t.Context(), cfg, Options{Backend: cpuBackend(t, 1), Memory: m.bytes})
			if tr != nil {
				must(t, tr.Close())
			}
			if m.fits != (err == nil) || err != nil && (!errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "GiB are free")) {
				t.Errorf("%s: error %v with %d of %d bytes", owner, err, m.bytes, e.TotalMemory())
			}
		}
	}
}
