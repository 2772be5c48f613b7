package profile

import (
	"math"
	"testing"
)

// stampUneven stamps a run of one step, in which the lanes compute for these times.
func stampUneven(r *Run, start int64, times ...int64) {
	r.Start, r.End = start, start+1000
	for i, t := range times {
		l := &r.Lanes[i]
		if l.Absent = t == 0; !l.Absent {
			l.Wake, l.Steps[0], l.Done = start, StepStamps{start, start, start + t}, start+t
		}
	}
}

// Imbalance is of single calls: which lane has most to do may change from call to call,
// and lanes that take no part or lost their processor are no imbalance.
func TestImbalanceIsOfSingleCalls(t *testing.T) {
	for _, c := range []struct {
		name string
		runs [][]int64 // [run][lane]
		off  int64     // of lane 0, without a processor
		want float64
	}{
		{"even", [][]int64{{400, 400}, {200, 200}}, 0, 0},
		{"always the same lane", [][]int64{{600, 200}, {600, 200}}, 0, 50},
		{"alternating lanes", [][]int64{{600, 200}, {200, 600}}, 0, 50},
		{"one call of two", [][]int64{{600, 200}, {400, 400}}, 0, 25},
		{"a lane takes no part", [][]int64{{400, 0}, {0, 400}}, 0, 0},
		{"a lane takes part at times", [][]int64{{600, 200}, {0, 400}}, 0, 25},
		{"without a processor", [][]int64{{700, 200}, {800, 300}}, 500, 0},
	} {
		rec := NewRecorder(Options{})
		h := mustPlan(t, rec, Plan{ID: "p", Phase: "embed", Lanes: []string{"a", "b"}, Steps: []Step{{ID: 0, Name: "x"}}})
		for i, times := range c.runs {
			r := h.Acquire()
			stampUneven(r, int64(1+i)*10_000, times...)
			if c.off > 0 {
				r.Lanes[0].exact = true
				r.Lanes[0].Mark(0, c.off)
			}
			if err := h.Release(r); err != nil {
				t.Fatal(err)
			}
		}
		p, err := Read("a recording", encode(t, rec.Snapshot()))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got, known := p.ByName("x")[0].Imbalance(); !known || math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v %% (known: %v), expected %v %%", c.name, got, known, c.want)
		}
	}
	old := StepResult{StepStats: &StepStats{Calls: 2, LaneCompute: []int64{800, 800}}}
	if got, known := old.Imbalance(); known {
		t.Errorf("%v %% of a file that has sums of lanes only", got)
	}
}
