package engine

import (
	"math/bits"
	"slices"
)

// trials are one for loads of about a size: how far estimates are off depends on
// it, and what long texts took must not speak for short ones.
type trials [17]trial

// of is the trial of a load of so many tokens.
func (t *trials) of(tokens int) *trial { return &t[min(bits.Len(uint(tokens)), len(t)-1)] }

// trial chooses between sharing a load's steps among all workers and another
// way, by how each fares against its estimate: what else runs on the machine is
// in no estimate. Results are the same either way.
//
// The two are compared by three calls that follow one another, of which the
// middle one goes the other way, because the whole machine may be twice as fast a
// second later: where the first and the last say so, nothing is learnt. The
// middle one of five comparisons counts, because any call may meet with an
// accident. What comparing costs
// is bounded: a way that is twice as slow is tried every fiftieth call, one that
// is as fast every sixteenth, and at once where the faster way falls clearly
// behind what the other was seen to do.
type trial struct {
	calls  int
	since  int        // calls since the slower way was last tried
	trying bool       // the call under way is for the comparison
	tried  [2]float64 // off of the way that was compared, and of the other before it; 0 unless the next call completes it
	off    [2]float64 // [apart, all] how many times its estimate the last call took; 0 before the first
	before [2]float64 // the same of the call before it
	ratio  [5]float64 // off of apart over off of all, of the last comparisons
	pairs  int        // comparisons so far
	purse  float64    // seconds that comparisons may cost; below 0 where they cost more
}

const (
	trialApart = iota // one worker alone, or each with texts of its own
	trialAll
	trialEvery   = 16   // calls from one comparison to the next, at least, while nothing changes
	trialEarly   = 4    // the same of the first comparisons
	trialFirst   = 3    // which are so many
	trialSteady  = 1.25 // times as long may the last call of a comparison take as the first, or the other way round
	trialUnknown = 0.1  // of the time of the faster way more is what the other is held to take before anybody knows
	trialClear   = 0.8  // of the time of the faster way is what the other must have been seen to do to be tried at once
	trialShare   = 0.02 // of the time may go into comparisons
)

// match is who is compared, over a load: sharing its steps among all workers,
// and the other way.
type match struct {
	apart    way        // the other way
	estimate [2]float64 // seconds of each
	first    int        // which to begin with, until they were compared
	warm     int        // calls that take turns before that, whatever it costs
	sure     float64    // of the time of all is what the other must do it in
}

// next says which way to run a load.
func (t *trial) next(m *match) int {
	t.calls++
	if t.calls <= m.warm {
		t.trying = t.calls == m.warm-1
		return t.calls % 2
	}
	t.since++
	better := t.better(m)
	other := 1 - better
	now := t.lately(better) * m.estimate[better]
	cost := t.off[other]*m.estimate[other] - now
	if t.before[other] == 0 { // nothing is known of it, or how it fares cold
		cost = max(t.lately(better)*m.estimate[other]-now, trialUnknown*now)
	}
	every := trialEvery
	switch {
	case cost < (trialClear-1)*now:
		every = 2
	case t.pairs < trialFirst:
		every = trialEarly
	}
	t.trying = t.off[better] > 0 && cost <= t.purse && t.since >= every
	if !t.trying {
		// Nothing is saved up beyond the next comparison, or one could follow
		// the other after a long time without a change.
		t.purse = min(t.purse+trialShare*now, max(t.purse, cost))
		return better
	}
	t.since = 0
	return other
}

// better is the way that won the middle one of the last comparisons.
func (t *trial) better(m *match) int {
	if t.pairs == 0 {
		return m.first
	}
	r := t.ratio
	known := r[:min(t.pairs, len(r))]
	slices.Sort(known)
	if known[len(known)/2]*m.estimate[trialApart] < m.sure*m.estimate[trialAll] {
		return trialApart
	}
	return trialAll
}

// lately is what a way took of its estimate at the better one of its last two
// calls: one that is slow by itself says nothing.
func (t *trial) lately(way int) float64 {
	if t.before[way] == 0 {
		return t.off[way]
	}
	return min(t.off[way], t.before[way])
}

// took tells how long a load ran one way.
func (t *trial) took(m *match, way int, seconds float64) {
	cold := t.off[way] == 0
	t.before[way], t.off[way] = t.off[way], seconds/max(m.estimate[way], 1e-12)
	other := 1 - way
	tried := t.tried
	t.tried = [2]float64{}
	switch {
	case t.trying:
		if t.calls > m.warm {
			t.purse -= max(0, seconds-t.lately(other)*m.estimate[other])
		}
		if !cold && t.before[other] > 0 {
			t.tried = [2]float64{t.off[way], t.off[other]}
		}
	case tried[0] > 0:
		first, last := tried[1], t.off[way]
		if max(first, last) > trialSteady*min(first, last) {
			return
		}
		ratio := tried[0] / max((first+last)/2, 1e-12)
		if way == trialApart {
			ratio = 1 / max(ratio, 1e-12)
		}
		if t.pairs == 0 { // something to begin with: this comparison may be the accident
			t.purse = max(t.purse, 0) + seconds/2
		}
		t.ratio[t.pairs%len(t.ratio)] = ratio
		t.pairs++
	}
}
