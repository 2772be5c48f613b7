package engine

import (
	"math/bits"
	"slices"
)

// trials are one for loads of about a size: how far estimates are off depends on
// it, and what long texts took must not speak for short ones.
type trials [10]trial

// of is the trial of a load of so many tokens.
func (t *trials) of(tokens int) *trial { return &t[min(bits.Len(uint(tokens)), len(t)-1)] }

// trial chooses between one worker and all of them by how each fares against its
// estimate: what else runs on the machine is in no estimate. Results are the
// same either way.
//
// The two are compared by calls that follow one another, because the whole
// machine may be twice as fast a second later, and by the middle one of three
// comparisons, because any call may meet with an accident. What comparing costs
// is bounded: a way that is twice as slow is tried every fiftieth call, one that
// is as fast every eighth, and what the faster way has fallen behind of at once.
type trial struct {
	calls  int
	since  int        // calls since the slower way was last tried
	trying bool       // the call under way is for the comparison
	off    [2]float64 // [one, all] how many times its estimate the last call took; 0 before the first
	before [2]float64 // the same of the call before it
	ratio  [3]float64 // off of one over off of all, of the last comparisons
	pairs  int        // comparisons so far
	purse  float64    // seconds that comparisons may cost; below 0 where they cost more
}

const (
	trialOne = iota
	trialAll
	trialWarm  = 4    // calls: each way twice, as the first is cold
	trialEvery = 8    // calls from one comparison to the next, at least, while nothing changes
	trialShare = 0.02 // of the time may go into comparisons
	trialSure  = 0.9  // of the time of all is what one must do it in: a tie is everybody's
)

// next says which way to run what is estimated to take so many seconds on one
// worker and on all.
func (t *trial) next(estimate [2]float64) int {
	t.calls++
	if t.calls <= trialWarm {
		t.trying = t.calls == trialWarm // the first pair of which neither is cold
		return t.calls % 2
	}
	t.since++
	better := t.better(estimate)
	other := 1 - better
	cost := t.off[other]*estimate[other] - t.lately(better)*estimate[better]
	t.trying = cost <= t.purse && (t.since >= trialEvery || t.since >= 2 && cost < 0)
	if !t.trying {
		// Nothing is saved up beyond the next comparison, or one could follow
		// the other after a long time without a change.
		t.purse = min(t.purse+trialShare*t.lately(better)*estimate[better], max(t.purse, cost))
		return better
	}
	t.since = 0
	return other
}

// better is the way that won the middle one of the last comparisons.
func (t *trial) better(estimate [2]float64) int {
	if t.pairs == 0 {
		return trialAll
	}
	r := t.ratio
	known := r[:min(t.pairs, len(r))]
	slices.Sort(known)
	if known[len(known)/2]*estimate[trialOne] < trialSure*estimate[trialAll] {
		return trialOne
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

// took tells how long a load ran one way, beside the estimates for it.
func (t *trial) took(way int, seconds float64, estimate [2]float64) {
	t.before[way], t.off[way] = t.off[way], seconds/max(estimate[way], 1e-12)
	other := 1 - way
	if !t.trying || t.off[other] == 0 {
		return
	}
	t.ratio[t.pairs%len(t.ratio)] = t.off[trialOne] / max(t.off[trialAll], 1e-12)
	t.pairs++
	if t.pairs == 1 { // one call's time to begin with: the first comparison may be the accident
		t.purse = min(seconds, t.off[other]*estimate[other])
		return
	}
	t.purse -= max(0, seconds-t.lately(other)*estimate[other])
}
