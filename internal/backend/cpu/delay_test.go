package cpu_test

import (
	"context"
	"strings"
	"testing"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/engine"
	"hotpath/internal/model"
	"hotpath/internal/optest"
	"hotpath/internal/plan"
	"hotpath/internal/testmodels"
	"hotpath/profile"
)

// embedWith embeds the same texts with a backend of these options.
func embedWith(t *testing.T, o cpu.Options, delay func(*plan.Step) float64) ([]float32, *profile.Profile) {
	t.Helper()
	m := cpu.OpenModel(t, testmodels.Dir(t, "bert"))
	be, err := cpu.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	rec := profile.NewRecorder(profile.Options{})
	e, err := engine.Open(m, be, engine.Options{Parallel: engine.Fine, Recorder: rec})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	seqs := [][]int32{{1, 2, 3, 4, 5, 6, 7}, {8, 9, 10}, {11, 12, 13, 14, 15}}
	dst := make([]float32, len(seqs)*m.Config().Dim)
	how := model.EmbedOptions{Pooling: m.Config().Pooling, Normalize: true}
	be.Delay(delay)
	if err := e.EmbedIDs(context.Background(), seqs, dst, how); err != nil {
		t.Fatal(err)
	}
	be.Delay(nil)
	if err := e.EmbedIDs(context.Background(), seqs, dst, how); err != nil {
		t.Fatal(err)
	}
	return dst, rec.Snapshot()
}

// What an optimisation is switched off for changes speed and memory, and no
// answer; delays change neither answers nor what the profile calls a kernel.
func TestSwitchedOff(t *testing.T) {
	activations := func(p *profile.Profile) (n int64) {
		for _, pl := range p.Plans {
			n = max(n, pl.MemoryBytes["activations"])
		}
		return n
	}
	want, usual := embedWith(t, cpu.Options{Precision: cpu.F32}, nil)
	for name, o := range map[string]cpu.Options{"reuse": {NoReuse: true}, "packing": {NoPack: true}, "fusion": {NoFusion: true}} {
		o.Precision = cpu.F32
		got, p := embedWith(t, o, nil)
		if err := optest.Compare(got, want, 1e-5); err != nil {
			t.Errorf("without %s: %v", name, err)
		}
		switch name {
		case "reuse":
			if activations(p) < 2*activations(usual) {
				t.Errorf("activations take %d bytes without reuse, %d with it", activations(p), activations(usual))
			}
		case "packing":
			for _, s := range p.Top(-1, profile.ByTime) {
				if strings.Contains(s.Step.Kernel, "panels") {
					t.Errorf("step %s runs %s without packing", s.Step.Name, s.Step.Kernel)
				}
			}
		case "fusion":
			if len(p.Plans[0].Steps) <= len(usual.Plans[0].Steps) {
				t.Errorf("%d steps without fusion, %d with it", len(p.Plans[0].Steps), len(usual.Plans[0].Steps))
			}
		}
	}
}

// A delayed step takes as much longer as was asked for, as its own stamps see
// it; the others, and runs after the end of the delay, do not.
func TestDelay(t *testing.T) {
	var seen []string
	got, p := embedWith(t, cpu.Options{Precision: cpu.F32}, func(s *plan.Step) float64 {
		if s.Kind != "norm" && s.Kind != "add+norm" {
			return 1
		}
		seen = append(seen, s.Root().Name)
		return 1e3
	})
	want, _ := embedWith(t, cpu.Options{Precision: cpu.F32}, nil)
	if err := optest.Compare(got, want, 0); err != nil {
		t.Errorf("delays change answers: %v", err)
	}
	if len(seen) == 0 {
		t.Fatal("no norm was asked about")
	}
	slow, delayed := 0, 0
	for _, s := range p.Where(func(s profile.StepResult) bool { return s.Calls == 2 }) {
		if strings.Contains(s.Step.Kernel, "times as long") {
			t.Errorf("the profile calls a kernel %q", s.Step.Kernel)
		}
		// The first run is delayed, the second is not. Chance may hold up the
		// second of some step, but not of most.
		if s.Step.Op == "norm" || s.Step.Op == "add+norm" {
			slow++
			if s.Span.Max > 100*s.Span.Min {
				delayed++
			}
		}
	}
	if slow == 0 || 2*delayed < slow {
		t.Errorf("%d of %d delayed steps took much longer", delayed, slow)
	}
}
