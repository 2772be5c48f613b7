package compare

import (
	"fmt"
	"strings"
)

// Waits at barriers are compared by place: a division of a step that became uneven
// takes no more time on a processor, so that its own row says nothing. The lane that
// is done waits before the next step, in every layer.

// waitRows gathers the steps of all layers that lanes wait before, by the step and by
// the one that they wait for. A plan with one lane has none.
func waitRows(a, b *side, steps []Diff) []Diff {
	if min(len(a.plan.Lanes), len(b.plan.Lanes)) < 2 {
		return nil
	}
	var both []Diff
	for _, r := range steps {
		if len(r.a) > 0 && len(r.b) > 0 && r.a[0] > 0 {
			both = append(both, r)
		}
	}
	place := func(k int) string {
		name := a.plan.Steps[k].Name
		return name[strings.LastIndexByte(name, '/')+1:]
	}
	rows := foldRows(both, func(r *Diff) (string, int) {
		return fmt.Sprintf("before %s, after %s", place(r.a[0]), place(r.a[0]-1)), -1
	})
	var out []Diff
	for _, r := range rows {
		r.Before, r.After = a.waits(r.a), b.waits(r.b)
		if r.Before == 0 && r.After == 0 {
			continue // no barrier is there
		}
		r.Wait, r.Verdict, r.points = r.After-r.Before, Same, true
		out = append(out, r)
	}
	return out
}

// waits is how long lanes wait before steps, of wall time per run.
func (s *side) waits(steps []int) (t float64) {
	for _, r := range s.recs {
		for _, k := range steps {
			for _, lane := range r.plan.Stats[k].LaneWait {
				t += s.wallTime(lane)
			}
		}
	}
	return t
}

// waitsBefore are n blocks of the share of a run's time that lanes wait before steps.
func (r *recording) waitsBefore(steps []int, lanes, n int) [measures][]float64 {
	return r.shares(lanes, n, func(run int) (ns int64) {
		for _, k := range steps {
			ns += r.samples.Steps[k].Wait[run]
		}
		return ns
	})
}
