package profile

import (
	"bytes"
	"strings"
	"testing"
)

// stampRound is three workers from 1000 on: the first has two runs, the second a
// short one, and the third was not called in.
func stampRound(r *Round, end int64) {
	r.Begin()
	r.workers[0].entered, r.workers[1].entered = 1_000, 1_100
	r.Ran(0, 1_200, 5_000)
	r.Ran(1, 1_500, 2_000)
	r.Ran(0, 5_300, end-100)
}

// The ledger is closed over the workers of a round, whoever of them has a run.
func TestRoundsCloseTheLedger(t *testing.T) {
	rec := NewRecorder(Options{})
	h := mustPlan(t, rec, Plan{ID: "coarse", Phase: "embed", Lanes: []string{"worker"}, Steps: []Step{{ID: 0, Name: "x"}}})
	for _, run := range [][2]int64{{1_200, 5_000}, {1_500, 2_000}, {5_300, 8_900}} {
		r := h.Acquire()
		r.Start, r.End = run[0], run[1]
		l := &r.Lanes[0]
		l.Wake, l.Done, l.Steps[0].Arrive, l.Steps[0].Begin, l.Steps[0].End = run[0], run[1], run[0], run[0], run[1]
		if err := h.Release(r); err != nil {
			t.Fatal(err)
		}
	}
	round := rec.Round("embed.coarse", "embed", []string{"worker 0", "worker 1", "worker 2"})
	stampRound(round, 9_000)
	round.end(9_000)
	p := rec.Snapshot()
	if len(p.Rounds) != 1 {
		t.Fatalf("%d rounds", len(p.Rounds))
	}
	want := []WorkerStats{{"worker 0", 2, 3_800 + 3_600, 200 + 300, 100}, {"worker 1", 1, 500, 500, 7_000}, {"worker 2", 0, 0, 0, 8_000}}
	for i, w := range p.Rounds[0].ByWorker {
		if w != want[i] {
			t.Errorf("%+v, expected %+v", w, want[i])
		}
	}
	l := p.Ledger
	if l.LaneTime != 3*8_000 || l.Compute != 7_900 || l.Dispatch != 1_000 || l.Idle != 15_100 || l.Residual != 0 || p.Rounds[0].Wall != 8_000 {
		t.Errorf("%+v of a round of %d, expected 3 workers times 8000", l, p.Rounds[0].Wall)
	}
	var stacks, frames int64
	EachStack(p, func(s *StackSample) {
		stacks += s.Time
		if s.Frames[1] == "(outside runs)" {
			frames++
		}
	})
	if stacks != l.LaneTime || frames != 2 {
		t.Errorf("stacks of %d, %d of them without a run, expected %d and 2", stacks, frames, l.LaneTime)
	}
	var text, file bytes.Buffer
	if err := Readers.Text(&text, p); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"embed.coarse, no run", "  worker 2"} {
		if !strings.Contains(text.String(), line) {
			t.Errorf("no %q in\n%s", line, text.String())
		}
	}
	if err := p.Write(&file); err != nil {
		t.Fatal(err)
	}
	if q, err := Read("a file", file.Bytes()); err != nil || q.Rounds[0].ByWorker[1] != want[1] {
		t.Errorf("read back: %v", err)
	}
	for from, to := range map[string]string{`"in_runs_ns":500`: `"in_runs_ns":-500`, `"idle_ns":8000`: `"idle_ns":9223372036854775807`, `"rounds":1`: `"rounds":-1`} {
		bad := strings.Replace(file.String(), from, to, 1)
		if _, err := Read("a file", []byte(bad)); err == nil || !strings.Contains(err.Error(), "rounds[0]") {
			t.Errorf("%s: %v, expected an error of rounds[0]", to, err)
		}
	}
}

// Nothing is said of a round with a run that was not recorded, of one that nobody
// was called into, or without a recorder.
func TestRoundsWithoutStamps(t *testing.T) {
	rec := NewRecorder(Options{})
	round := rec.Round("embed.coarse", "embed", []string{"a", "b", "c"})
	stampRound(round, 9_000)
	round.Ran(1, 0, 0)
	round.end(9_000)
	round.Begin()
	round.end(9_000)
	if p := rec.Snapshot(); len(p.Rounds) != 0 || p.Ledger.LaneTime != 0 {
		t.Errorf("%+v", p.Rounds)
	}
	var none *Recorder
	none.Round("x", "", []string{"a"}).End()
	again := rec.Round("embed.coarse", "embed", []string{"d", "e", "f"})
	if allocs := testing.AllocsPerRun(10, func() { stampRound(again, 9_000); again.end(9_000) }); allocs != 0 {
		t.Errorf("%v allocations a round", allocs)
	}
	stampRound(round, 9_000)
	round.end(9_000)
	if p := rec.Snapshot(); len(p.Rounds) != 1 || p.Rounds[0].Rounds != 12 { // AllocsPerRun makes one more
		t.Errorf("%+v, expected rounds of one name as one", p.Rounds)
	}
}
