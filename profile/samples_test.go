package profile

import (
	"bytes"
	"reflect"
	"testing"
)

// However many runs there were, the samples are evenly spread over them.
func TestSamplesStayEven(t *testing.T) {
	rec := NewRecorder(Options{Events: 5 * 8, Runs: 2}) // eight samples of five steps
	h := mustPlan(t, rec, testPlan())
	const runs = 75
	for i := range int64(runs) {
		r := h.Acquire()
		stampTestRun(r, 1+i*200_000)
		r.End += i // tells the runs apart
		if i%2 == 1 {
			r.Costs[3].FLOPs++
		}
		if err := h.Release(r); err != nil {
			t.Fatal(err)
		}
	}
	s := rec.Snapshot().Plans[0].Samples
	if s == nil || s.Every != 16 || len(s.Wall) != 5 {
		t.Fatalf("samples %+v, want five, one of 16 runs", s)
	}
	for i, w := range s.Wall {
		if want := int64(testWall + 16*i); w != want {
			t.Errorf("sample %d took %d, want %d", i, w, want)
		}
	}
	if got := s.Steps[1].Compute; len(got) != 5 || got[2] != 34_000+35_900 {
		t.Errorf("step 1 computed %v", got)
	}
	if got := s.Steps[1].Wait[0]; got != 1_000 {
		t.Errorf("step 1 waited %d", got)
	}
	if len(s.Steps[3].FLOPs) != 1 || s.Steps[3].FLOPs[0] != testCosts[3].FLOPs {
		t.Errorf("equal costs are kept as %v", s.Steps[3].FLOPs)
	}
}

// A file of version 1 opens, and its kept runs serve as samples.
func TestOlderVersionOpens(t *testing.T) {
	p := fixture(t)
	want := p.Plans[0].Samples
	for i := range p.Plans {
		p.Plans[i].Samples = nil
	}
	p.Version = 1
	data := encode(t, p)
	if !bytes.Contains(data, []byte(`"version":1,`)) {
		t.Fatal("not a file of version 1")
	}
	old, err := Read("old.json", data)
	if err != nil {
		t.Fatal(err)
	}
	got := old.Samples(0)
	if !reflect.DeepEqual(got.Wall, want.Wall) || !reflect.DeepEqual(got.Steps[2].Compute, want.Steps[2].Compute) ||
		valueAt(got.Steps[2].FLOPs, 3) != valueAt(want.Steps[2].FLOPs, 3) {
		t.Errorf("samples %+v, want %+v", got, want)
	}
	if old.Version != Version {
		t.Errorf("version %d, want it to be written as %d", old.Version, Version)
	}
}
