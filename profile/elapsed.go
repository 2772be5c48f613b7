package profile

import (
	"cmp"
	"math"
	"slices"
	"sync"
)

// elapsed divides the time in which runs were in flight among their plans. A run
// that is alone gets its whole wall time. Runs in flight at the same time share
// each moment in proportion to their lanes. So the times of plans add up to
// wall-clock time.
//
// It learns of a run when the run ends. It keeps recent runs until all runs that
// may overlap them have ended.
type elapsed struct {
	mu      sync.Mutex
	flights []flight // not divided yet
	edges   []edge   // scratch of divide
	settled int64    // the moment up to which time is divided
	busy    int64    // time with a run in flight, until then
}

type flight struct {
	from, to int64
	lanes    int64
	plan     *planFold
	at       float64 // scratch of divide
}

type edge struct {
	at    int64
	run   int32
	begin bool
}

// flightsKept is how many flights are kept. Half of them are divided when it is
// reached: a run that began before all of that half ended is cut there.
const flightsKept = 512

func (e *elapsed) init() {
	e.flights = make([]flight, 0, flightsKept)
	e.edges = make([]edge, 0, 2*flightsKept)
}

// addRuns adds runs of one plan that have ended. It allocates nothing.
func (e *elapsed) addRuns(f *planFold, runs []*Run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range runs {
		if r.Start > 0 && r.End >= r.Start { // others are left out of everything
			e.addSpan(f, r.Start, r.End)
		}
	}
}

// addSpan adds the time of a run. The caller holds e.mu.
func (e *elapsed) addSpan(f *planFold, from, to int64) {
	if to <= e.settled { // reported late: what ran beside it is forgotten
		f.elapsed += float64(to - from)
		e.busy += to - from
		return
	}
	e.flights = append(e.flights, flight{from: max(from, e.settled), to: to, lanes: int64(len(f.plan.Lanes)), plan: f})
	if len(e.flights) < cap(e.flights) {
		return
	}
	if e.inTurn() {
		return
	}
	slices.SortFunc(e.flights, func(a, b flight) int { return cmp.Compare(a.to, b.to) })
	e.settled = e.flights[len(e.flights)/2].to
	e.busy += e.divide(e.flights, e.settled, func(f *planFold, ns float64) { f.elapsed += ns })
	rest := e.flights[:0]
	for _, s := range e.flights {
		if s.to > e.settled {
			s.from = max(s.from, e.settled)
			rest = append(rest, s)
		}
	}
	e.flights = rest
}

// inTurn divides the first half of the flights if each began after all before it had
// ended, as the runs of one caller do. It reports whether they did.
func (e *elapsed) inTurn() bool {
	for i := 1; i < len(e.flights); i++ {
		if e.flights[i].from < e.flights[i-1].to {
			return false
		}
	}
	n := len(e.flights)/2 + 1
	for _, s := range e.flights[:n] {
		s.plan.elapsed += float64(s.to - s.from)
		e.busy += s.to - s.from
	}
	e.settled = e.flights[n-1].to
	e.flights = append(e.flights[:0], e.flights[n:]...)
	return true
}

// divide gives each plan its part of the time that flights cover up to until. It
// returns the covered time. The caller holds e.mu.
func (e *elapsed) divide(flights []flight, until int64, give func(*planFold, float64)) (busy int64) {
	e.edges = e.edges[:0]
	for i, s := range flights {
		if s.from <= until {
			e.edges = append(e.edges, edge{s.from, int32(i), true}, edge{min(s.to, until), int32(i), false})
		}
	}
	slices.SortFunc(e.edges, func(a, b edge) int {
		switch {
		case a.at != b.at:
			return cmp.Compare(a.at, b.at)
		case a.begin == b.begin:
			return 0
		case a.begin: // before the end of an empty flight
			return -1
		}
		return 1
	})
	var lanes, last int64
	var perLane float64 // time for each lane that was there from the beginning
	for _, g := range e.edges {
		if lanes > 0 {
			busy += g.at - last
			perLane += float64(g.at-last) / float64(lanes)
		}
		last = g.at
		s := &flights[g.run]
		if g.begin {
			lanes += s.lanes
			s.at = perLane
		} else {
			lanes -= s.lanes
			give(s.plan, float64(s.lanes)*(perLane-s.at))
		}
	}
	return busy
}

// snapshot is the division as if all that was in flight had been reported.
func (e *elapsed) snapshot() (plans map[*planFold]float64, busy int64) {
	plans = map[*planFold]float64{}
	e.mu.Lock()
	defer e.mu.Unlock()
	flights := slices.Clone(e.flights)
	busy = e.busy + e.divide(flights, math.MaxInt64, func(f *planFold, ns float64) { plans[f] += ns })
	return plans, busy
}

// of returns a plan's part. open is the result of snapshot. wall is the sum of
// the plan's own run times; it caps the part, because of rounding and runs that
// were left out.
func (e *elapsed) of(f *planFold, open map[*planFold]float64, wall int64) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	ns := f.elapsed + open[f]
	if math.Abs(ns-float64(wall)) <= 1+1e-9*float64(wall) {
		return wall
	}
	return min(wall, int64(math.Round(ns)))
}
