package profile

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

// putSamples gives a recorder samples of ceilings: the last is the best.
func putSamples(rec *Recorder, probe Probe, rates ...float64) {
	for _, r := range rates {
		rec.Probed(probe, r, Now(), Now())
	}
}

// roofed is a recording of one lane with sampled ceilings: a product of weights, a
// norm of values that lie in the nearest cache, and one that is too fast. All runs
// take the same time.
func roofed(t *testing.T, runs int) *Profile {
	rec := NewRecorder(Options{})
	rec.SetFacts(Facts{Threads: 1})
	putSamples(rec, Probe{Class: "f32"}, 50e9, 100e9, 200e9)
	putSamples(rec, Probe{Level: "L2", UpTo: 1 << 20}, 100e9, 100e9, 100e9)
	putSamples(rec, Probe{Level: "memory"}, 5e9, 10e9, 20e9)
	h := mustPlan(t, rec, Plan{ID: "p", Backend: "cpu", Lanes: []string{"worker 0"}, Steps: []Step{
		{ID: 0, Name: "product", Op: "linear", Weights: 100_000_000},
		{ID: 1, Name: "norm", Op: "norm"},
		{ID: 2, Name: "wonder", Op: "norm"},
	}})
	for i := range int64(runs) {
		r := h.Acquire()
		l := &r.Lanes[0]
		r.Start = 1000 + i*40_000_000
		r.End = r.Start + 39_999_000
		l.Wake, l.Done = r.Start, r.End
		at := r.Start
		for s, took := range []int64{30_000_000, 20_000, 1_000} {
			l.Steps[s].Arrive, l.Steps[s].Begin, l.Steps[s].End = at, at, at+took
			at += took
		}
		r.Costs[0] = Cost{FLOPs: 1_000_000, Bytes: 100_000_000}
		r.Costs[1] = Cost{FLOPs: 1, Bytes: 1_000_000} // 10 us from L2, 100 us from memory
		r.Costs[2] = Cost{FLOPs: 1, Bytes: 1_000_000}
		if err := h.Release(r); err != nil {
			t.Fatal(err)
		}
	}
	p := rec.Snapshot()
	if err := rec.Err(); err != nil {
		t.Fatal(err)
	}
	return p
}

// Lost time has the interval of the ceilings, values are held against the memory that
// they lie in, and the parts add up to the clock.
func TestSampledRoofline(t *testing.T) {
	p := roofed(t, 1)
	product, norm := &p.Plans[0].Stats[0], &p.Plans[0].Stats[1]
	for _, c := range []struct {
		name      string
		got, want int64
	}{
		{"product's floor", product.Floor, 10_000_000},
		{"at the highest ceiling", product.FloorLow, 5_000_000},
		{"at the lowest ceiling", product.FloorHigh, 20_000_000},
		{"ideal: from the nearest cache", product.Roof.Ideal, 1_000_000},
		{"cache", product.Roof.Cache, 4_000_000},
		{"neighbour", product.Roof.Neighbour, 5_000_000},
		{"kernel", product.Roof.Kernel, 20_000_000},
		{"norm's floor, from L2", norm.Floor, 10_000},
		{"norm's kernel", norm.Roof.Kernel, 10_000},
	} {
		if math.Abs(float64(c.got-c.want)) > 2 {
			t.Errorf("%s: %d ns, expected %d", c.name, c.got, c.want)
		}
	}
	for i := range p.Plans[0].Stats {
		st := &p.Plans[0].Stats[i]
		if sum := st.Roof.Ideal + st.Roof.Cache + st.Roof.Neighbour + st.Roof.Kernel; sum != st.Clock {
			t.Errorf("step %d: the parts add up to %d of %d ns", i, sum, st.Clock)
		}
	}
	again, err := Read("p", encode(t, p))
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := Readers.Text(&text, again); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"CEILINGS", "LOST TIME", "20.000 (0.000 to 30.000)", "contradiction: wonder of p took 0.001 ms, the roofline allows 0.010 to 0.010"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if got := p.Contradictions(); len(got) != 1 {
		t.Errorf("contradictions %q, expected the one step that is too fast", got)
	}
}

// The interval of lost time is narrower with more runs, and holds the lost time.
func TestIntervalOfLostTimeNarrows(t *testing.T) {
	wide := int64(30_000_000) // of one run: all of its time
	for _, runs := range []int{1, 3} {
		st := roofed(t, runs).Plans[0].Stats[1]
		low, high := st.LostLow/int64(runs), st.LostHigh/int64(runs)
		if !(low <= st.Lost && st.Lost <= st.LostHigh) || high-low >= wide {
			t.Errorf("%d runs: lost %d (%d to %d) a run, expected an interval below %d", runs, st.Lost, low, high, wide)
		}
		wide = high - low
	}
}

// Ceilings that a caller set are not replaced by samples.
func TestSetCeilingsWin(t *testing.T) {
	rec := NewRecorder(Options{})
	if err := rec.SetCeilings("", Ceilings{FLOPs: 1e9, Bytes: 1e9}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		putSamples(rec, Probe{Class: "f32"}, 1)
		putSamples(rec, Probe{Level: "memory"}, 1)
	}
	if c := rec.Snapshot().Ceilings[""]; c.FLOPs != 1e9 || c.Source == SampledSource {
		t.Errorf("%+v", c)
	}
}

// Defaults are for backends without ceilings of their own, in whichever order they come.
func TestDefaultCeilingsYield(t *testing.T) {
	rec := NewRecorder(Options{})
	put := func(set func(string, Ceilings) error, backend string, flops float64) {
		t.Helper()
		if err := set(backend, Ceilings{FLOPs: flops, Bytes: 1e9}); err != nil {
			t.Fatal(err)
		}
	}
	put(rec.SetCeilings, "first", 1e9)
	put(rec.DefaultCeilings, "first", 2e9)
	put(rec.DefaultCeilings, "second", 2e9)
	put(rec.SetCeilings, "second", 1e9)
	put(rec.SetCeilings, "", 1e9)
	put(rec.DefaultCeilings, "third", 2e9)
	p := rec.Snapshot()
	for backend, want := range map[string]float64{"first": 1e9, "second": 1e9, "third": 2e9, "fourth": 1e9} {
		if got := p.CeilingsOf(backend).FLOPs; got != want {
			t.Errorf("%s has %g FLOP/s, expected %g", backend, got, want)
		}
	}
	if err := rec.DefaultCeilings("fifth", Ceilings{FLOPs: -1}); err == nil {
		t.Error("negative ceilings were taken")
	}
}

// Samples may take a small part of the time, however long each takes, and one is
// taken at a time.
func TestProbesArePaced(t *testing.T) {
	rec := NewRecorder(Options{})
	probeDue := func(ran int64) (int, bool) { // after a run
		rec.released.push(&Run{Start: 1, End: 1 + ran}, pendingRuns)
		return rec.TakeProbe(3)
	}
	kind, due := probeDue(1000)
	if !due || kind != 0 {
		t.Fatalf("the first: kind %d, due %t", kind, due)
	}
	if _, due := probeDue(1e15); due {
		t.Error("a sample is due while one is taken")
	}
	ready := Now() - 100_000_000                                     // long beside pauses of this thread
	rec.Probed(Probe{Class: "f32"}, 1e9, ready-1_000_000_000, ready) // the first prepares for long
	took := Now() - ready
	for range 10 { // however much time passes without a run
		if _, due := probeDue(took); due {
			t.Error("a sample is due right after one")
		}
	}
	if kind, due := probeDue(int64(1/probeShare) * took); !due || kind != 1 {
		t.Errorf("later: kind %d, due %t, expected the next one", kind, due)
	}
	for range manyProbes { // from then on they are rarer
		rec.Probed(Probe{Class: "f32"}, 1e9, Now(), Now())
	}
	ready = Now() - 100_000_000
	rec.Probed(Probe{Class: "f32"}, 1e9, ready, ready)
	if _, due := probeDue(int64(1e8 / probeShare)); due {
		t.Errorf("a sample is due after %v of the time, though there are many", probeShare)
	}
	if _, due := probeDue(int64(1e15)); !due {
		t.Error("no sample is due any more")
	}
	f := probeFold{every: 1, kept: make([]Sample, 0, mostProbeSamples)}
	for i := range 10 * mostProbeSamples {
		f.addSample(Sample{int64(i), float64(i)})
	}
	if n := len(f.kept); n > mostProbeSamples || n < mostProbeSamples/2 || f.kept[n-1].Value < 9*mostProbeSamples {
		t.Errorf("%d samples are kept, the last is %v", n, f.kept[n-1].Value)
	}
	for _, bad := range []ProbeStats{{Count: 1, Low: 2, Median: 1, High: 3, Best: 3}, {Count: 0, Low: 1, Median: 1, High: 1, Best: 1}, {Count: 1, Low: math.Inf(1)}} {
		if bad.check() == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}
