package cpu_test

import (
	"context"
	"testing"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/engine"
	"hotpath/internal/model"
	"hotpath/internal/testmodels"
	"hotpath/profile"
)

// TestShortRecordingsHaveCeilings: one run is enough for a roofline, because what
// samples are missing are taken at the end.
func TestShortRecordingsHaveCeilings(t *testing.T) {
	m := cpu.OpenModel(t, testmodels.Dir(t, "bert"))
	for _, mode := range []engine.Mode{engine.Fine, engine.Coarse} {
		be, err := cpu.New(cpu.Options{Workers: 2})
		if err != nil {
			t.Fatal(err)
		}
		rec := profile.NewRecorder(profile.Options{})
		rec.SetFacts(profile.Facts{Threads: 2})
		e, err := engine.Open(m, be, engine.Options{Parallel: mode, Recorder: rec})
		if err != nil {
			t.Fatal(err)
		}
		dst := make([]float32, m.Config().Dim)
		if err := e.EmbedIDs(context.Background(), [][]int32{{1, 2, 3}}, dst, model.EmbedOptions{Pooling: m.Config().Pooling}); err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		p := rec.Snapshot()
		seen := map[string]int64{}
		for _, s := range p.Probes {
			seen[s.Probe.String()] = s.Count
		}
		for _, want := range []string{"f32", "L2", "L3"} {
			if seen[want] < 3 {
				t.Errorf("%v: %d samples of %s in %v, expected 3", mode, seen[want], want, seen)
			}
		}
		for _, s := range p.Where(func(s profile.StepResult) bool { return s.Calls > 0 && s.Bytes > 0 }) {
			if s.Roof == nil || s.FloorHigh < s.FloorLow || s.FloorHigh <= 0 {
				t.Errorf("%v: step %s has no place on the roofline: %+v", mode, s.Step.Name, s.Roof)
			}
		}
		if err := be.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
