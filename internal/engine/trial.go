package engine

import (
	"math"
	"math/bits"
)

// trials are one for loads of about a size, up to half as large again: how far
// estimates are off depends on it, and what long texts took must not speak for
// short ones.
type trials [35]trial

// of is the trial of a load of so many tokens.
func (t *trials) of(tokens int) *trial {
	size := bits.Len(uint(tokens))
	half := 0 // the bit behind the first: 8 and 12 begin sizes
	if size > 1 {
		half = tokens >> (size - 2) & 1
	}
	return &t[min(2*size+half, len(t)-1)]
}

// trial chooses between sharing a load's steps among all workers and another
// way, by how each fares against its estimate: what else runs on the machine is
// in no estimate. Results are the same either way.
//
// The two are compared by three pieces of work that follow one another closely,
// of which the middle one goes the other way, because the whole machine may be
// twice as fast a second later: where the first and the last say so, nothing is
// learnt. Of a long load they are three parts, and the rest goes the faster way;
// of short ones they are calls, which have about the same load, because a kind of
// load that takes longer than its estimate would speak against the way it was
// tried with, and in a stream where kinds take turns it is always the same one.
// Where no load comes back, estimates have to do: the call to try is drawn by lot
// and held against what all calls took lately. What counts is a tally of many
// comparisons.
//
// What comparing costs is bounded by a purse that a share of the time fills: a
// way that takes twice as long is tried every hundredth call, one that takes as
// long every sixteenth, more often while it is open which is faster, and at once
// where the faster way falls clearly behind what the other was seen to do.
// Comparisons that teach nothing become rarer.
type trial struct {
	calls   int
	since   int        // calls since the slower way was last tried
	away    bool       // nobody has told what the last call took
	trying  bool       // the call under way is for the comparison
	loose   bool       // the comparison relies on estimates
	parted  bool       // the comparison is of parts of the call
	armed   bool       // a comparison is due and waits for the load of first
	first   outcome    // the call a comparison begins with, or would
	tried   outcome    // the call of a comparison that waits for its last; off is 0 where none does
	waited  int        // calls that a comparison has waited for its load
	wait    int        // calls that it may
	roved   int        // comparisons in a row whose load did not come back
	dropped int        // comparisons that taught nothing, since one did
	lot     uint32     // what lots are drawn from
	cost    float64    // seconds that the call under way is expected to cost, where it tries
	now     float64    // and that what is tried would take the faster way
	off     [2]float64 // [apart, all] how many times its estimate the last call took; 0 before the first
	before  [2]float64 // the same of the call before it
	usual   [2]average // of the logarithm of off
	tally   tally
	purse   float64 // seconds that comparisons may cost; below 0 where they cost more
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
	trialOpen    = 8    // the same while it is open which way is faster
	trialEarly   = 4    // the same of the first comparisons
	trialFirst   = 3    // which are so many
	trialAlike   = 32   // a load is like another that has as many texts and up to a part in so many more tokens
	trialWait    = 16   // calls may pass before the load that a comparison needs comes again, and up to as many more
	trialRoved   = 2    // comparisons without it make the wait a quarter
	trialDropped = 3    // times at most the calls between comparisons double where they teach nothing
	trialSteady  = 1.25 // times as long may the last piece of a comparison take as the first, or the other way round
	trialUnknown = 0.1  // of the time of the faster way more is what the other is held to take before anybody knows
	trialClose   = 0.05 // is by how much one way is faster where it is open which
	trialClear   = 0.8  // of the time of the faster way is what the other must have been seen to do to be tried at once
	trialShare   = 0.01 // of the time may go into comparisons
	trialParts   = 4    // parts make a load long
	// trialAccident times as long as the call before it, or as it would have taken
	// the other way, takes nothing but a call that met with an accident.
	trialAccident = 10
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
	parts    int        // that the load has
}

func (m *match) long() bool { return m.parts >= trialParts }

// next says which way to run a load. Where parted is set afterwards, three parts
// of it go that way, the other, and that way again, and then the rest.
func (t *trial) next(m *match) int {
	t.lost(m)
	t.calls++
	t.away, t.trying, t.parted = true, false, false
	if t.calls <= m.warm {
		t.trying, t.loose = t.calls == m.warm-1, false
		return t.calls % 2
	}
	t.since++
	better := t.better(m)
	other := 1 - better
	now := t.lately(better) * m.estimate[better]
	cost := t.last(other)*m.estimate[other] - now
	if t.before[other] == 0 { // nothing is known of it, or how it fares cold
		cost = max(t.lately(better)*m.estimate[other]-now, trialUnknown*now)
	}
	every := t.every(m, cost < (trialClear-1)*now)
	if m.long() {
		now, cost = now/float64(m.parts), cost/float64(m.parts)
	}
	budget := t.purse
	if t.off[other] == 0 { // something to begin with
		budget += trialUnknown * now
	}
	if t.off[better] > 0 && cost <= budget && t.since >= every && t.tried.off == 0 {
		t.parted = m.long()
		t.trying = t.parted || t.ready(m.load, better)
	}
	if !t.trying {
		// Nothing is saved up beyond the next comparison, or one could follow
		// the other after a long time without a change.
		share := trialShare * t.lately(better) * m.estimate[better]
		t.purse = min(t.purse+share, max(t.purse, cost))
		return better
	}
	t.since, t.armed, t.cost, t.now = 0, false, cost, now
	if t.parted {
		return better
	}
	return other
}

// every is how many calls are from one comparison to the next; clear is that the
// other way was seen to be faster, which a long load that is compared with itself
// need not go by: the machine may have been.
func (t *trial) every(m *match, clear bool) int {
	every := trialEvery
	switch {
	case clear && !m.long():
		every = 2
	case t.tally.n < trialFirst && m.long():
		every = 2
	case t.tally.n < trialFirst:
		every = trialEarly
	case math.Abs(math.Log(t.lead(m))) < trialClose:
		every = trialOpen
	}
	return every << min(max(t.dropped-1, 0), trialDropped) // one may be the change that makes the next worth it
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
		t.roved = 0
		return true
	}
	if !t.armed {
		t.armed, t.waited = true, 0
		t.lot = t.lot*1664525 + 1013904223
		t.wait = trialWait + int(t.lot>>16)%trialWait
		if t.roved >= trialRoved {
			t.wait /= 4
		}
	}
	t.waited++
	t.loose = t.waited > t.wait
	return t.loose
}

// better is the way that the tally speaks for.
func (t *trial) better(m *match) int {
	if t.tally.n == 0 {
		return m.first
	}
	if t.lead(m) < 1 {
		return trialApart
	}
	return trialAll
}

// lead is what apart takes, over what it must take to be the better way.
func (t *trial) lead(m *match) float64 {
	return t.tally.ratio() * m.estimate[trialApart] / max(m.sure*m.estimate[trialAll], 1e-12)
}

// lately is what a way took of its estimate at the better one of its last two
// calls: one that is slow by itself says nothing.
func (t *trial) lately(way int) float64 {
	if t.before[way] == 0 {
		return t.off[way]
	}
	return min(t.off[way], t.before[way])
}

// last is what a way took of its estimate at its last call, or at the one before
// where the machine was suspended meanwhile.
func (t *trial) last(way int) float64 {
	if t.before[way] > 0 && t.off[way] > trialAccident*t.before[way] {
		return t.before[way]
	}
	return t.off[way]
}

// saw notes what work took of its estimate, and whether it was the first of its
// way.
func (t *trial) saw(way int, off float64) (cold bool) {
	cold = t.off[way] == 0
	t.before[way], t.off[way] = t.off[way], off
	if !cold {
		t.usual[way].add(off)
	}
	return cold
}

// took tells how long a load ran one way.
func (t *trial) took(m *match, way int, seconds float64) {
	t.away = false
	usual, known := t.usual[1-way].value(), t.usual[1-way].n > 0
	cold := t.saw(way, seconds/max(m.estimate[way], 1e-12))
	this, other := outcome{m.load, way, t.off[way]}, 1-way
	if !t.trying {
		if t.tried.off > 0 {
			t.compare(this)
		}
		if t.tried.off == 0 && (!t.armed || t.first.way != way) {
			t.first = this
		}
		return
	}
	like := !t.loose && t.first.way == other && alike(t.first.load, m.load)
	normal := t.lately(other)
	switch {
	case like:
		normal = t.first.off
	case t.loose && known:
		normal = usual
	}
	if t.calls > m.warm {
		t.pay(seconds - normal*m.estimate[other])
	}
	switch {
	case cold:
	case t.loose && known:
		t.roved++
		t.learn(t.off[way]/usual, way, true)
	case like && t.before[other] > 0:
		t.tried, t.waited, t.wait = this, 0, 2*trialWait
	}
}

// pay takes from the purse how many seconds longer what was tried took. A machine
// that was suspended meanwhile would empty it for good: what was not to be
// expected is bounded.
func (t *trial) pay(longer float64) {
	t.purse -= min(max(0, longer), max(t.cost, trialAccident*t.now))
}

// compare ends a comparison with its last call, if this is one.
func (t *trial) compare(last outcome) {
	if t.waited++; !alike(t.tried.load, last.load) && t.waited < t.wait {
		return
	}
	tried := t.tried
	t.tried = outcome{}
	if tried.way == last.way || !alike(tried.load, last.load) {
		t.dropped++
		return
	}
	t.between(t.first.off, tried.off, last.off, tried.way)
}

// tookParts tells what three parts of a load took of their estimates, of which
// the middle one was tried the other way than the load, and how many seconds
// longer that took.
func (t *trial) tookParts(way int, off [3]float64, longer float64) {
	t.away = false
	t.pay(longer)
	cold := t.saw(1-way, off[1])
	t.saw(way, off[0])
	t.saw(way, off[2])
	if !cold {
		t.between(off[0], off[1], off[2], 1-way)
	}
}

// between learns from work that was tried between two pieces that went the usual
// way, unless the machine changed meanwhile.
func (t *trial) between(first, tried, last float64, way int) {
	if max(first, last) > trialSteady*min(first, last) {
		t.dropped++
		return
	}
	t.learn(tried/max((first+last)/2, 1e-12), way, false)
}

// learn counts that a way took so many times what the other did.
func (t *trial) learn(ratio float64, way int, loose bool) {
	if t.dropped = 0; way == trialAll {
		ratio = 1 / max(ratio, 1e-12)
	}
	if t.tally.n == 0 { // this comparison may be the accident
		t.purse = max(t.purse, 0) + t.now/2
	}
	t.tally.add(ratio, loose)
}
