package compare

import (
	"cmp"
	"fmt"

	"hotpath/profile"
)

// lanesApart is by how many lanes recordings must differ for a warning.
const lanesApart = 0.5

// sameLanes warns if more or fewer lanes took part in some recordings than in others.
// The engine chooses workers by the state of the machine, and waits and the time of
// runs depend on their number.
func (c *Comparison) sameLanes(recordings []*profile.Profile) {
	type lanes struct {
		what        string
		least, most float64
		of          int
	}
	var found []*lanes
	index := map[string]*lanes{}
	take := func(what string, n float64, of int) {
		key := fmt.Sprintf("%s %d", what, of)
		l := index[key]
		if l == nil {
			l = &lanes{what, n, n, of}
			index[key] = l
			found = append(found, l)
		}
		l.least, l.most = min(l.least, n), max(l.most, n)
	}
	for _, p := range recordings {
		for i := range p.Plans {
			s := &p.Plans[i]
			if s.Ledger.Runs >= fewRuns && s.Ledger.LaneTime > 0 && len(s.Lanes) > 1 {
				take("lanes of plan "+cmp.Or(s.Name, s.ID), lanesInRuns(s), len(s.Lanes))
			}
		}
		for i := range p.Rounds {
			r := &p.Rounds[i]
			if r.Wall > 0 {
				var n float64
				for k := range r.ByWorker {
					n += 1 - float64(r.ByWorker[k].Idle)/float64(r.Wall)
				}
				take("workers of "+r.Name, n, len(r.ByWorker))
			}
		}
	}
	for _, l := range found {
		if l.most-l.least >= lanesApart {
			c.warn("%.1f of %d %s took part in one recording and %.1f in another, on average: times and waits per run depend on that, so that small changes are hidden", l.least, l.of, l.what, l.most)
		}
	}
}

// lanesInRuns is how many lanes took part in a plan's runs, on average: all of their
// time but dispatch and idle, which is the whole run for a lane that is absent.
func lanesInRuns(s *profile.PlanStats) (n float64) {
	for i := range s.ByLane {
		if l := &s.ByLane[i]; l.LaneTime > 0 {
			n += 1 - float64(l.Dispatch+l.Idle)/float64(l.LaneTime)
		}
	}
	return n
}
