package engine

import (
	"math/bits"
	"math/rand/v2"
	"testing"
)

// bench runs loads by a trial on a made-up machine, whose clock is the sum of
// what they took.
type bench struct {
	trial   trial
	texts   int
	seconds float64 // all loads
	best    float64 // the same, had each gone the faster way
	ways    [2]int  // how often each way was taken
	noise   func() float64
	// The other way is to share out texts, and first is which to begin with.
	shared bool
	first  int
}

func (b *bench) match(size float64) match {
	if b.shared {
		return match{apart: wayCoarse, estimate: [2]float64{size, size}, first: b.first, sure: 1}
	}
	return match{apart: wayOne, estimate: [2]float64{size, size}, first: trialAll, warm: smallWarm, sure: smallSure}
}

// run gives it loads that take a way's factor of their estimate, which is the
// same for both ways and differs from load to load.
func (b *bench) run(calls int, one, all float64) {
	b.ways = [2]int{}
	b.seconds, b.best = 0, 0
	for range calls {
		b.texts++
		size := float64(1 + b.texts*b.texts%5)
		m := b.match(size)
		way := b.trial.next(&m)
		took := size * [2]float64{one, all}[way]
		if b.noise != nil {
			took *= b.noise()
		}
		b.trial.took(&m, way, took)
		b.ways[way]++
		b.seconds += size * [2]float64{one, all}[way]
		b.best += size * min(one, all)
	}
}

// TestTrial: small loads go the way that is faster, and find out when that
// changes.
func TestTrial(t *testing.T) {
	var b bench
	b.run(200, 2, 1)
	if b.ways[trialAll] < 180 {
		t.Errorf("all workers are faster, but had %d of 200 calls", b.ways[trialAll])
	}
	// Another program takes one of the processors: all workers are behind what
	// one was seen to do, and the next calls tell.
	b.run(20, 2, 6)
	if b.ways[trialAll] > 8 {
		t.Errorf("one worker is faster by now, but all had %d of 20 calls", b.ways[trialAll])
	}
	b.run(1000, 2, 6)
	if b.ways[trialAll] > 50 {
		t.Errorf("one worker is faster, but all had %d of 1000 calls", b.ways[trialAll])
	}
	// It has left. That shows at the next trial, which those before it, at three
	// times the time, have made rare.
	b.run(150, 2, 1)
	b.run(100, 2, 1)
	if b.ways[trialAll] < 90 {
		t.Errorf("all workers are faster again, but had %d of 100 calls", b.ways[trialAll])
	}
	// A tie is for all.
	b = bench{}
	b.run(100, 1, 1)
	if b.ways[trialAll] < 80 {
		t.Errorf("both are as fast, and all workers had %d of 100 calls", b.ways[trialAll])
	}
}

// TestTrialOfSharing: large loads begin with the way that is estimated to be
// faster, and change to the other where it is.
func TestTrialOfSharing(t *testing.T) {
	for first := range 2 {
		for fast := range 2 {
			b := bench{shared: true, first: first}
			off := [2]float64{1.3, 1.3}
			off[fast] = 1
			b.run(6, off[trialApart], off[trialAll])
			if n := b.ways[first]; n < 5 {
				t.Errorf("the way to begin with had %d of the first 6 calls", n)
			}
			b.run(60, off[trialApart], off[trialAll])
			b.run(100, off[trialApart], off[trialAll])
			if n := b.ways[fast]; n < 85 {
				t.Errorf("begun with way %d: way %d is faster, and had %d of 100 calls", first, fast, n)
			}
		}
	}
}

// TestTrialsCostLittle: whatever the slower way takes, trying it costs no more
// than its share of the time, and while it costs little it is tried often.
func TestTrialsCostLittle(t *testing.T) {
	for _, slower := range []float64{1.02, 1.2, 1.5, 2, 4, 10} {
		for i := range 4 {
			fast, shared := i%2, i/2 == 1
			if fast == trialApart && slower < 1/smallSure && !shared {
				continue // a tie
			}
			off := [2]float64{slower, slower}
			off[fast] = 1
			b := bench{shared: shared, first: fast}
			b.run(50, off[trialApart], off[trialAll]) // it is found out
			b.run(3000, off[trialApart], off[trialAll])
			if lost := b.seconds/b.best - 1; lost > 1.1*trialShare {
				t.Errorf("a way that takes %g times as long costs %.1f %% of the time", slower, 100*lost)
			}
			if n := b.ways[1-fast]; n < 3 || slower < 1.1 && n < 3000/trialEvery/2 {
				t.Errorf("a way that takes %g times as long was tried %d times in 3000 calls", slower, n)
			}
		}
	}
}

// TestTrialsSurviveNoise: calls that meet with an accident, and a machine that
// is three times as fast or as slow from one moment to the next, turn nothing
// around for long.
func TestTrialsSurviveNoise(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	accidents := func() float64 {
		if r.Float64() < 0.05 {
			return 5
		}
		return 1 + 0.1*r.Float64()
	}
	speed := 1.0
	flips := func() float64 {
		if r.Float64() < 0.1 {
			speed = 4 - speed
		}
		return speed * (1 + 0.1*r.Float64())
	}
	for name, noise := range map[string]func() float64{"accidents": accidents, "flips": flips} {
		b := bench{noise: noise}
		b.run(50, 1.5, 1)
		b.run(3000, 1.5, 1)
		if lost := b.seconds/b.best - 1; lost > trialShare {
			t.Errorf("%s: all workers are faster, and had %d of 3000 calls: %.1f %% of the time is lost", name, b.ways[trialAll], 100*lost)
		}
	}
}

// TestTrialLearnsNothingFromChange: a machine that is faster right after the
// slower way was tried says nothing about that way.
func TestTrialLearnsNothingFromChange(t *testing.T) {
	b := bench{}
	b.run(100, 1.2, 1)
	learnt, speed, tries := b.trial.pairs, 1.0, 0
	if learnt == 0 {
		t.Fatal("nothing was compared in 100 calls")
	}
	b.noise = func() float64 {
		if b.trial.trying { // with the call that is the way to the next one
			defer func() { speed = 1.5 - speed }()
			tries++
		}
		return speed
	}
	b.run(300, 1.2, 1)
	if tries == 0 || b.trial.pairs != learnt {
		t.Errorf("%d calls tried the slower way, each on a machine that changed, and %d were learnt from", tries, b.trial.pairs-learnt)
	}
}

// TestTrialFollowsTheEstimates: small texts are for one and long ones for all,
// whatever came before.
func TestTrialFollowsTheEstimates(t *testing.T) {
	var tr trial
	var seconds, best float64
	for i := range 200 {
		estimate := [2]float64{1, 2}
		if i%3 == 0 {
			estimate = [2]float64{100, 60}
		}
		m := match{estimate: estimate, first: trialAll, warm: smallWarm, sure: smallSure}
		way := tr.next(&m)
		tr.took(&m, way, 1.5*estimate[way])
		seconds, best = seconds+estimate[way], best+min(estimate[0], estimate[1])
	}
	if lost := seconds/best - 1; lost > 0.05 { // what the first calls cost included
		t.Errorf("texts of two lengths lost %.1f %% of the time on the slower way", 100*lost)
	}
}

// TestTrialsBySize: long texts that all workers are slower at than the estimate
// says do not turn short ones away from them.
func TestTrialsBySize(t *testing.T) {
	var trials trials
	onAll := 0
	for i := range 400 {
		tokens, off := 256, [2]float64{1.1, 1.8}
		if i%2 == 0 {
			tokens, off = 12, [2]float64{0.85, 0.95}
		}
		tr, m := trials.of(tokens), match{estimate: [2]float64{1.5, 1}, first: trialAll, warm: smallWarm, sure: smallSure}
		way := tr.next(&m)
		tr.took(&m, way, off[way]*m.estimate[way])
		if tokens == 12 {
			onAll += way
		}
	}
	if onAll < 180 {
		t.Errorf("%d of 200 short texts ran on all workers, which are faster", onAll)
	}
	if len(trials) <= bits.Len(CoarseRunTokens) {
		t.Errorf("%d trials, and loads of up to %d tokens", len(trials), CoarseRunTokens)
	}
}
