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
// The two are compared by three calls that follow one another closely, of which
// the middle one goes the other way, because the whole machine may be twice as
// fast a second later: where the first and the last say so, nothing is learnt.
// All three have about the same load, because a kind of load that takes longer
// than its estimate would speak against the way it was tried with, and in a
// stream where kinds take turns it is always the same one. Where no load comes
// back, estimates have to do, and the call to try is drawn by lot. The
// middle one of five comparisons counts, because any call may meet with an
// accident. What comparing costs
// is bounded: a way that is twice as slow is tried every fiftieth call, one that
// is as fast every sixteenth, and at once where the faster way falls clearly
// behind what the other was seen to do. Comparisons that teach nothing become
// rarer.
type trial struct {
	calls   int
	since   int        // calls since the slower way was last tried
	away    bool       // nobody has told what the last call took
	trying  bool       // the call under way is for the comparison
	loose   bool       // the comparison relies on estimates
	armed   bool       // a comparison is due and waits for the load of first
	first   outcome    // the call a comparison begins with, or would
	tried   outcome    // the call of a comparison that waits for its last; off is 0 where none does
	waited  int        // calls that a comparison has waited for its load
	wait    int        // calls that it may
	dropped int        // comparisons that taught nothing, since one did
	lot     uint32     // what lots are drawn from
	cost    float64    // seconds that the call under way is expected to cost, where it tries
	off     [2]float64 // [apart, all] how many times its estimate the last call took; 0 before the first
	before  [2]float64 // the same of the call before it
	ratio   [5]float64 // off of apart over off of all, of the last comparisons
	pairs   int        // comparisons so far
	purse   float64    // seconds that comparisons may cost; below 0 where they cost more
}

// outcome is what a load took one way.
type outcome struct {
	load load
	way  int
	off  float64 // of its estimate
}

// alike reports whether what two loads took can be compared without estimates.
func alike(a, b load) bool {
	return a.seqs == b.seqs && max(a.tokens, b.tokens)-min(a.tokens, b.tokens) <= max(a.tokens, b.tokens)/trialAlike
}

const (
	trialApart = iota // one worker alone, or each with texts of its own
	trialAll
	trialEvery   = 16   // calls from one comparison to the next, at least, while nothing changes
	trialEarly   = 4    // the same of the first comparisons
	trialFirst   = 3    // which are so many
	trialAlike   = 32   // a load is like another that has as many texts and up to a part in so many more tokens
	trialWait    = 16   // calls may pass before the load that a comparison needs comes again, and up to as many more
	trialDropped = 3    // times at most the calls between comparisons double where they teach nothing
	trialSteady  = 1.25 // times as long may the last call of a comparison take as the first, or the other way round; that cubed where loads differ
	trialUnknown = 0.1  // of the time of the faster way more is what the other is held to take before anybody knows
	trialClear   = 0.8  // of the time of the faster way is what the other must have been seen to do to be tried at once
	trialShare   = 0.02 // of the time may go into comparisons
)

// match is who is compared, over a load: sharing its steps among all workers,
// and the other way.
type match struct {
	load     load
	apart    way        // the other way
	estimate [2]float64 // seconds of each
	first    int        // which to begin with, until they were compared
	warm     int        // calls that take turns before that, whatever it costs
	sure     float64    // of the time of all is what the other must do it in
}

// next says which way to run a load.
func (t *trial) next(m *match) int {
	t.lost(m)
	t.calls++
	t.away, t.trying = true, false
	if t.calls <= m.warm {
		t.trying, t.loose = t.calls == m.warm-1, false
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
	every <<= min(max(t.dropped-1, 0), trialDropped) // one may be the change that makes the next worth it
	if t.off[better] > 0 && cost <= t.purse && t.since >= every && t.tried.off == 0 {
		t.trying = t.ready(m.load, better)
	}
	if !t.trying {
		// Nothing is saved up beyond the next comparison, or one could follow
		// the other after a long time without a change.
		t.purse = min(t.purse+trialShare*now, max(t.purse, cost))
		return better
	}
	t.since, t.armed, t.cost = 0, false, cost
	return other
}

// lost gives up what the last call was for where it did not come to its end, or
// was not alone: what it may have cost is paid for all the same.
func (t *trial) lost(m *match) {
	if !t.away {
		return
	}
	if t.trying && t.calls > m.warm {
		t.purse -= max(0, t.cost)
	}
	if t.trying || t.tried.off > 0 {
		t.dropped++
	}
	t.tried = outcome{}
}

// ready reports whether a load is the one to try the other way with: the load of
// the call before it, or of one that is kept until its load comes again. Where it
// does not, any load will do in the end.
func (t *trial) ready(l load, better int) bool {
	if t.loose = false; t.first.off > 0 && t.first.way == better && alike(t.first.load, l) {
		return true
	}
	if !t.armed {
		t.armed, t.waited = true, 0
		t.lot = t.lot*1664525 + 1013904223
		t.wait = trialWait + int(t.lot>>16)%trialWait
	}
	t.waited++
	t.loose = t.waited > t.wait
	return t.loose
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
	t.away = false
	t.before[way], t.off[way] = t.off[way], seconds/max(m.estimate[way], 1e-12)
	this, other := outcome{m.load, way, t.off[way]}, 1-way
	if !t.trying {
		if t.tried.off > 0 {
			t.compare(m, this, seconds)
		}
		if t.tried.off == 0 && (!t.armed || t.first.way != way) {
			t.first = this
		}
		return
	}
	if t.loose {
		t.first = outcome{m.load, other, t.off[other]}
	}
	like, usual := t.first.way == other && alike(t.first.load, m.load), t.lately(other)
	if like && !t.loose {
		usual = t.first.off
	}
	if t.calls > m.warm {
		t.purse -= max(0, seconds-usual*m.estimate[other])
	}
	if like && !cold && t.before[other] > 0 {
		t.tried, t.waited, t.wait = this, 0, 2*trialWait
	}
}

// compare ends a comparison with its last call, if this is one.
func (t *trial) compare(m *match, last outcome, seconds float64) {
	if t.waited++; !t.loose && !alike(t.tried.load, last.load) && t.waited < t.wait {
		return
	}
	first, tried := t.first.off, t.tried
	t.tried = outcome{}
	steady := trialSteady
	if t.loose {
		steady *= steady * steady
	}
	if tried.way == last.way || !t.loose && !alike(tried.load, last.load) || max(first, last.off) > steady*min(first, last.off) {
		t.dropped++
		return
	}
	t.dropped = 0
	ratio := tried.off / max((first+last.off)/2, 1e-12)
	if last.way == trialApart {
		ratio = 1 / max(ratio, 1e-12)
	}
	if t.pairs == 0 { // something to begin with: this comparison may be the accident
		t.purse = max(t.purse, 0) + seconds/2
	}
	t.ratio[t.pairs%len(t.ratio)] = ratio
	t.pairs++
}
