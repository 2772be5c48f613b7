package engine

import (
	"math"
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
	tries   int     // of parts
	noise   func() float64
	// The other way is to share out texts, first is which to begin with, and
	// parts is how many loads have.
	shared bool
	first  int
	parts  int
}

func (b *bench) match(size float64) match {
	if b.shared {
		return match{apart: wayCoarse, estimate: [2]float64{size, size}, first: b.first, sure: 1, parts: b.parts}
	}
	return match{apart: wayOne, estimate: [2]float64{size, size}, first: trialAll, warm: smallWarm, sure: smallSure}
}

// run gives it loads that take a way's factor of their estimate, which is the
// same for both ways and differs from load to load.
func (b *bench) run(calls int, one, all float64) {
	b.ways, b.tries = [2]int{}, 0
	b.seconds, b.best = 0, 0
	for range calls {
		b.texts++
		size := float64(1 + b.texts*b.texts%5)
		m := b.match(size)
		way := b.trial.next(&m)
		factor := [2]float64{one, all}
		noisy := func() float64 {
			if b.noise != nil {
				return b.noise()
			}
			return 1
		}
		b.best += size * min(one, all)
		b.seconds += size * factor[way]
		b.ways[way]++
		if !b.trial.parted {
			b.trial.took(&m, way, size*factor[way]*noisy())
			continue
		}
		part := size / float64(b.parts)
		b.seconds += part * (factor[1-way] - factor[way])
		b.tries++
		off := [3]float64{factor[way] * noisy(), factor[1-way] * noisy(), factor[way] * noisy()}
		b.trial.tookParts(way, off, part*(off[1]-(off[0]+off[2])/2))
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
		for i := range 6 {
			fast, shared, parts := i%2, i/2 >= 1, i/4*8
			if fast == trialApart && slower < 1/smallSure && !shared {
				continue // a tie
			}
			off := [2]float64{slower, slower}
			off[fast] = 1
			b := bench{shared: shared, first: fast, parts: parts}
			b.run(50, off[trialApart], off[trialAll]) // it is found out
			b.run(3000, off[trialApart], off[trialAll])
			if lost := b.seconds/b.best - 1; lost > 1.1*trialShare {
				t.Errorf("a way that takes %g times as long costs %.1f %% of the time", slower, 100*lost)
			}
			if n := b.ways[1-fast] + b.tries; n < 3 || slower < 1.1 && n < 3000/trialEvery/2 {
				t.Errorf("a way that takes %g times as long was tried %d times in 3000 calls", slower, n)
			}
		}
	}
}

// TestLongLoadsAreTriedInPart: no call goes the slower way as a whole once that
// is known, and one that tries it loses no more than its part.
func TestLongLoadsAreTriedInPart(t *testing.T) {
	for first := range 2 {
		b := bench{shared: true, first: first, parts: 8}
		off := [2]float64{1, 1.3}
		b.run(8, off[trialApart], off[trialAll]) // it is found out
		b.run(1000, off[trialApart], off[trialAll])
		if b.ways[trialAll] > 0 || b.tries < 20 {
			t.Errorf("begun with way %d: %d of 1000 loads went the slower way as a whole, and %d tried it", first, b.ways[trialAll], b.tries)
		}
		if lost := b.seconds/b.best - 1; lost > trialShare/2 {
			t.Errorf("begun with way %d: trying costs %.2f %% of the time", first, 100*lost)
		}
	}
	b := bench{shared: true, parts: trialParts - 1}
	if b.run(200, 1, 1.3); b.tries > 0 {
		t.Errorf("%d loads of %d parts were tried in part", b.tries, b.parts)
	}
}

// TestTrialTellsSmallDifferences: a way that is faster by six per cent has most
// calls although calls differ by more, and the machine doubles its speed and
// halves it. Over a stream of a thousand calls, from the first, being wrong and
// finding out cost two per cent at most, of ways that differ by half five.
func TestTrialTellsSmallDifferences(t *testing.T) {
	for _, parts := range []int{0, 8} {
		for slower, most := range map[float64]float64{1.02: 0.02, 1.06: 0.02, 1.15: 0.02, 1.5: 0.03, 2: 0.05} {
			for seed := range uint64(16) {
				r, speed := rand.New(rand.NewPCG(seed, 8)), 1.0
				b := bench{shared: true, first: int(seed % 2), parts: parts, noise: func() float64 {
					if r.Float64() < 0.02 {
						speed = 3 - speed
					}
					return speed * math.Exp(0.08*r.NormFloat64())
				}}
				off := [2]float64{slower, slower}
				off[seed/2%2] = 1
				b.run(1000, off[trialApart], off[trialAll])
				if lost := b.seconds/b.best - 1; lost > most {
					t.Errorf("%d parts, a way that takes %g times as long, seed %d: %.1f %% of the time is lost", parts, slower, seed, 100*lost)
				}
			}
		}
	}
}

// TestTrialOfLoadsThatNeverComeBack: estimates are off by two, up or down, by
// another factor for each load.
func TestTrialOfLoadsThatNeverComeBack(t *testing.T) {
	for _, apart := range []float64{0.5, 0.67, 1.5, 2} {
		for seed := range uint64(16) {
			r := rand.New(rand.NewPCG(seed, 9))
			var tr trial
			m := match{apart: wayCoarse, estimate: [2]float64{1, 1}, first: int(seed % 2), sure: 1}
			var seconds, best float64
			for i := range 3000 {
				m.load = load{seqs: i, tokens: 200}
				size, off := math.Exp2(2*r.Float64()-1), [2]float64{apart, 1}
				way := tr.next(&m)
				tr.took(&m, way, size*off[way])
				seconds, best = seconds+size*off[way], best+size*min(apart, 1)
			}
			if lost := seconds/best - 1; lost > 0.06 {
				t.Errorf("apart %g of all, seed %d: %.1f %% of the time is lost", apart, seed, 100*lost)
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
	learnt, speed, tries := b.trial.tally.n, 1.0, 0
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
	if tries == 0 || b.trial.tally.n != learnt {
		t.Errorf("%d calls tried the slower way, each on a machine that changed, and %d were learnt from", tries, b.trial.tally.n-learnt)
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
	for _, c := range []struct {
		a, b int
		same bool
	}{{0, 0, true}, {1, 2, false}, {2, 3, false}, {140, 192, false}, {192, 255, true}, {255, 256, false}, {2048, 3071, true}, {2048, 3072, false}, {1 << 30, 1 << 40, true}} {
		if same := trials.of(c.a) == trials.of(c.b); same != c.same {
			t.Errorf("loads of %d and %d tokens have the same trial: %v", c.a, c.b, same)
		}
	}
}

// stream runs loads by a trial, where every period-th is of another kind that
// takes so many times its estimate, whichever way. It returns how many times as
// long they took as they would have the faster way, and how many of the last
// hundred went it. kind makes the load of the i-th call.
func stream(t *trial, m match, period int, times float64, off [2]float64, kind func(i int, other bool) load) (lost float64, settled int) {
	const calls = 3000
	fast := trialApart
	if off[trialAll] < off[trialApart] {
		fast = trialAll
	}
	var seconds, best float64
	for i := range calls {
		other, took := i%period == 0, 1.0
		if other {
			took = times
		}
		m.load = kind(i, other)
		way := t.next(&m)
		t.took(&m, way, took*off[way])
		seconds, best = seconds+took*off[way], best+took*off[fast]
		if i >= calls-100 && way == fast {
			settled++
		}
	}
	return seconds / best, settled
}

// TestTrialOfAlternatingLoads: a kind of load that takes longer than its
// estimate, or less, and comes every so many calls is not held against the way
// it was tried with.
func TestTrialOfAlternatingLoads(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	kinds := map[string]func(i int, other bool) load{
		"two loads": func(_ int, other bool) load {
			if other {
				return load{seqs: 1, tokens: 200}
			}
			return load{seqs: 4, tokens: 150}
		},
		"loads of two sizes": func(_ int, other bool) load {
			if other {
				return load{seqs: 1, tokens: 128 + r.IntN(48)}
			}
			return load{seqs: 1, tokens: 200 + r.IntN(48)}
		},
		"no load twice": func(i int, _ bool) load { return load{seqs: i, tokens: 200} },
	}
	errors := map[string][]float64{"two loads": {0.5, 1.7, 2}, "loads of two sizes": {0.5, 1.7, 2}, "no load twice": {0.5, 0.85, 1.2, 1.7, 2}}
	for name, kind := range kinds {
		for period := 2; period <= 7; period++ {
			for _, times := range errors[name] {
				for _, apart := range []float64{0.5, 0.7, 1.5, 2} {
					for i, m := range []match{
						{apart: wayOne, estimate: [2]float64{1, 1}, first: trialAll, warm: smallWarm, sure: smallSure},
						{apart: wayCoarse, estimate: [2]float64{1, 1}, first: trialAll, sure: 1},
						{apart: wayCoarse, estimate: [2]float64{1, 1}, first: trialApart, sure: 1},
					} {
						var tr trial
						lost, settled := stream(&tr, m, period, times, [2]float64{apart, 1}, kind)
						if lost > 1.06 || settled < 85 {
							t.Errorf("%s, every %d-th %g times its estimate, apart %g of all, match %d: %.2f times the time, %d of the last 100 calls the faster way", name, period, times, apart, i, lost, settled)
						}
					}
				}
			}
		}
	}
}

// TestTrialForgetsCallsThatDidNotEnd: a comparison whose call was cancelled, or
// joined by others, is over, it is paid for, and where all are, they become rare.
func TestTrialForgetsCallsThatDidNotEnd(t *testing.T) {
	var tr trial
	m := match{apart: wayCoarse, estimate: [2]float64{1, 1}, first: trialAll, sure: 1}
	off := [2]float64{1.2, 1}
	for tr.tried.off == 0 {
		way := tr.next(&m)
		tr.took(&m, way, off[way])
	}
	tr.next(&m) // would end the comparison, and nobody tells what it took
	learnt := tr.tally.n
	way := tr.next(&m)
	tr.took(&m, way, off[way])
	if tr.tally.n != learnt || tr.tried.off != 0 {
		t.Errorf("a comparison ended with the call after the one that was lost")
	}
	tries := 0
	for range 1000 {
		way := tr.next(&m)
		if tr.trying {
			tries++
			purse := tr.purse
			if way = tr.next(&m); tr.purse >= purse {
				t.Fatal("a try that was lost cost nothing")
			}
		}
		tr.took(&m, way, off[way])
	}
	if tries == 0 || tries > 1000/trialEvery {
		t.Errorf("%d of 1000 calls tried a way that nothing was ever learnt of", tries)
	}
}

// TestTrialsThatTeachNothingBecomeRare: the faster way was seen to be slow, so
// the other is tried at once, but the machine is never the same twice.
func TestTrialsThatTeachNothingBecomeRare(t *testing.T) {
	tr := trial{calls: smallWarm, tally: tally{n: 1, mean: math.Log(2)}, off: [2]float64{1, 2}, before: [2]float64{1, 2}, purse: 1}
	m := match{apart: wayCoarse, estimate: [2]float64{1, 1}, first: trialAll, sure: 1}
	tries, speed := 0, 2.0
	for range 1000 {
		way := tr.next(&m)
		if way == trialApart {
			tries++
			tr.took(&m, way, 1)
			speed = 5.5 - speed // the first and the last call never agree
			continue
		}
		tr.took(&m, way, speed)
	}
	if tries == 0 || tries > 100 {
		t.Errorf("%d of 1000 calls were for comparisons that taught nothing", tries)
	}
}

// TestTrialForgivesAnAccident: a call, or a part of one, that was under way while
// the machine was suspended is no reason never to try its way again.
func TestTrialForgivesAnAccident(t *testing.T) {
	for _, parts := range []int{0, 8} {
		b, suspended := bench{shared: true, first: trialAll, parts: parts}, false
		b.run(300, 1.2, 1)
		tried := 0
		b.noise = func() float64 {
			switch {
			case suspended || !b.trial.trying:
				return 1
			case b.trial.parted: // the middle one of three
				if tried++; tried != 2 {
					return 1
				}
			}
			suspended = true
			return 1e6
		}
		b.run(300, 1.2, 1)
		if !suspended {
			t.Fatalf("%d parts: nothing was tried in 300 calls", parts)
		}
		b.run(3000, 0.5, 1)
		if b.run(100, 0.5, 1); b.ways[trialApart] < 85 {
			t.Errorf("%d parts: the other way takes half the time since thousands of calls, and had %d of 100", parts, b.ways[trialApart])
		}
	}
}
