package compare

import (
	"math/rand/v2"
	"strings"
	"testing"

	"hotpath/profile"
)

// Recordings in which fewer lanes or workers took part are named once; those in which
// all did, or all but for some time of waking, are not.
func TestFewerLanesAreNamed(t *testing.T) {
	rng := rand.New(rand.NewPCG(95, 1))
	record := func(side int, idle ...float64) []*profile.Profile {
		recs := coarse(rng, side, len(idle), 1e6)
		for i, p := range recs {
			s := &p.Plans[0]
			for k := range s.ByLane {
				s.ByLane[k].LaneTime = s.Ledger.Wall
			}
			s.ByLane[1].Idle = int64(idle[i] * float64(s.Ledger.Wall))
		}
		return recs
	}
	const want = "1.0 of 2 lanes of plan embed T≤4096 took part in one recording and 2.0 in another, on average"
	for _, in := range []struct {
		a, b   []float64
		warned bool
	}{{[]float64{0, 0.1}, []float64{0.2, 0}, false}, {[]float64{0, 1}, []float64{0, 1}, true}, {[]float64{0}, []float64{1}, true}} {
		c := compare(t, record(0, in.a...), record(1, in.b...))
		if s := strings.Join(c.Warnings, "\n"); strings.Count(s, want) != map[bool]int{true: 1}[in.warned] || strings.Contains(s, "took part") != in.warned {
			t.Errorf("%v and %v idle: warnings %q", in.a, in.b, c.Warnings)
		}
	}
	a, b := coarse(rng, 0, 2, 1e6), coarse(rng, 1, 2, 1e6)
	r := &b[1].Rounds[0]
	r.ByWorker[1] = profile.WorkerStats{Idle: r.Wall}
	if c := compare(t, a, b); len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], " of 2 workers of embed.coarse took part in one recording") {
		t.Errorf("a worker without a run: warnings %q", c.Warnings)
	}
}
