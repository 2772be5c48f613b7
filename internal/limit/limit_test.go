package limit

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// bench runs a limiter on a made-up machine.
type bench struct {
	Limiter
	m        Machine
	switches int64
	idle     bool
	preempts bool  // each sample meets a context switch
	taken    int64 // or so many
	noise    func() float64
	runs     map[int]int
	lost     float64 // seconds that runs took beyond the best number of workers, without noise
	all      float64 // seconds of all runs
}

func newBench(workers int) *bench {
	b := &bench{noise: func() float64 { return 1 }}
	b.Init(workers)
	b.m = Machine{
		Switches: func() (int64, bool) {
			b.switches += b.taken
			if b.preempts {
				b.switches++
			}
			return b.switches, true
		},
		Idle: func() bool { return b.idle },
	}
	return b
}

// run makes n runs whose time depends on the workers.
func (b *bench) run(n int, times map[int]float64) {
	b.runs = map[int]int{}
	best := slices.Min(slices.Collect(maps.Values(times)))
	for range n {
		w := b.Workers()
		b.runs[w]++
		b.lost, b.all = b.lost+times[w]-best, b.all+times[w]
		b.Took(1, times[w]*b.noise(), &b.m)
	}
}

// steady is a machine on which all workers are faster; busy one on which they are
// not.
var (
	steady = map[int]float64{1: 6e-3, 2: 4.5e-3}
	busy   = map[int]float64{1: 6.2e-3, 2: 12e-3}
)

// TestFewerAfterTwoSlowRuns: one slow run changes nothing, the second in a row
// starts a probe of fewer workers, which stay if they are faster.
func TestFewerAfterTwoSlowRuns(t *testing.T) {
	b := newBench(2)
	b.run(110, steady)
	b.preempts = true
	b.run(1, busy)
	if w := b.Workers(); w != 2 {
		t.Fatalf("%d workers after one slow run", w)
	}
	b.run(1, busy)
	if w := b.Workers(); w != 1 {
		t.Fatalf("%d workers after two slow runs", w)
	}
	b.run(100, busy)
	if b.runs[2] > losses {
		t.Errorf("all workers had %d of 100 runs although one is faster", b.runs[2])
	}
	// Two slow runs of which fewer workers are no faster cost two runs of those.
	b = newBench(2)
	b.run(110, steady)
	b.preempts = true
	b.run(12, map[int]float64{1: 18e-3, 2: 9e-3})
	if b.runs[1] != losses || b.Workers() != 2 {
		t.Errorf("one worker had %d runs although all are faster", b.runs[1])
	}
}

// TestSlowRunsWithoutPreemption: runs that take longer although no other program
// took a processor have more to do: a longer context, for instance.
func TestSlowRunsWithoutPreemption(t *testing.T) {
	b := newBench(2)
	b.run(10, steady)
	b.run(10, map[int]float64{1: 18e-3, 2: 9e-3})
	if b.runs[1] > 0 {
		t.Errorf("%d probes of one worker", b.runs[1])
	}
	// A system that does not count context switches cannot tell.
	b = newBench(2)
	b.m = Machine{}
	b.run(10, steady)
	b.run(5, map[int]float64{1: 6e-3, 2: 9e-3})
	if b.Workers() != 1 {
		t.Error("two slow runs start no probe where the system does not tell about preemption")
	}
}

// TestStartOnABusyMachine: a process that never saw the machine quiet finds out
// that fewer workers are faster.
func TestStartOnABusyMachine(t *testing.T) {
	b := newBench(2)
	b.preempts = true
	b.run(12, busy)
	if b.Workers() != 1 || b.runs[2] > 6 {
		t.Errorf("%d workers after 12 runs, all had %d", b.Workers(), b.runs[2])
	}
}

// TestBackWhenACoreIsIdle: all workers come back soon after a core is seen idle,
// and by a rare probe if the system does not tell.
func TestBackWhenACoreIsIdle(t *testing.T) {
	for _, tells := range []bool{true, false} {
		b := newBench(2)
		b.preempts = true
		b.run(200, busy)
		if b.Workers() != 1 {
			t.Fatal("not one worker on a busy machine")
		}
		b.preempts, b.idle = false, tells
		runs, most := 0, 100
		if !tells {
			most = 5000
		}
		for ; b.Workers() == 1 || b.try != b.at; runs++ {
			if b.run(1, steady); runs > most {
				t.Fatalf("idle cores are seen: %t, but not all workers are back after %d runs", tells, runs)
			}
		}
	}
}

// TestNoFlapping: while times are constant, or differ by noise, the number of
// workers stays, and probes cost next to nothing.
func TestNoFlapping(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, times := range map[string]map[int]float64{
		"all are faster": {1: 6e-3, 2: 4.5e-3},
		"a tie":          {1: 5e-3, 2: 5e-3},
		"nearly a tie":   {1: 5.1e-3, 2: 5e-3},
		"short runs":     {1: 90e-6, 2: 60e-6},
		"long runs":      {1: 1.5, 2: 1},
	} {
		for i := range 4 {
			preempts, noise := i%2 == 1, 0.05*float64(i/2)
			b := newBench(2)
			b.preempts, b.noise = preempts, func() float64 { return 1 + noise*r.Float64() }
			changes, before := 0, b.at
			for range 20000 {
				b.run(1, times)
				if b.at != before {
					changes, before = changes+1, b.at
				}
			}
			if changes > 0 || b.lost > 0.01*b.all {
				t.Errorf("%s, preempted %t, noise %g: the number of workers changed %d times, %.2f %% of the time is lost", name, preempts, noise, changes, 100*b.lost/b.all)
			}
		}
	}
}

// TestOneIsFaster: runs that are too short to share go to one worker without any
// evidence, and stay there although cores are idle.
func TestOneIsFaster(t *testing.T) {
	b := newBench(2)
	b.idle = true
	times := map[int]float64{1: 50e-6, 2: 80e-6}
	b.run(10000, times)
	b.lost, b.all = 0, 0
	if b.run(10000, times); b.runs[1] < 9500 || b.lost > 1.1*shareSeen*b.all {
		t.Errorf("one worker had %d of 10000 runs, %.2f %% of the time is lost", b.runs[1], 100*b.lost/b.all)
	}
}

// TestAccidentsPass: a machine that was suspended for an hour in the middle of a
// run goes on with all workers.
func TestAccidentsPass(t *testing.T) {
	b := newBench(2)
	b.preempts = true
	b.run(100, steady)
	b.Took(1, 3600, &b.m)
	b.run(200, steady)
	if b.runs[2] < 180 || b.Workers() != 2 {
		t.Errorf("all workers had %d of 200 runs", b.runs[2])
	}
}

// TestMixedTimes: beside another program all workers are fast while they have
// their cores and slow while one of them is preempted. However often that is,
// runs take at most 1.1 times as long as with the better number of workers.
func TestMixedTimes(t *testing.T) {
	const one, fast, preempted, runs = 6.2e-3, 4.7e-3, 11e-3, 2000
	for _, often := range []float64{0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1} {
		all := often*preempted + (1-often)*fast
		var sum float64
		const seeds = 16
		for seed := range uint64(seeds) {
			r := rand.New(rand.NewPCG(seed, 3))
			b := newBench(2)
			b.preempts = true
			for range runs {
				seconds := one
				if b.Workers() == 2 {
					seconds = fast
					if r.Float64() < often {
						seconds = preempted
					}
				}
				sum += seconds
				b.Took(1, seconds*(1+0.1*r.Float64()), &b.m)
			}
		}
		if ratio := sum / (seeds * runs * min(one, all)); ratio > 1.1 {
			t.Errorf("%g of the runs of all workers are slow: %.3f times the time of the better number", often, ratio)
		}
	}
}

// TestHalf: with many workers the number goes down and up by steps.
func TestHalf(t *testing.T) {
	times := func(one, half, all float64) map[int]float64 {
		return map[int]float64{1: one, 8: half, 16: all}
	}
	b := newBench(16)
	b.run(20, times(60e-3, 10e-3, 6e-3))
	b.preempts = true
	b.run(20, times(60e-3, 11e-3, 20e-3)) // another program has some cores
	if w := b.arms[b.at].workers; w != 8 {
		t.Errorf("%d workers beside another program, expected 8", w)
	}
	b.run(20, times(62e-3, 90e-3, 95e-3)) // and then most of them
	if w := b.arms[b.at].workers; w != 1 {
		t.Errorf("%d workers, expected 1", w)
	}
	b.preempts, b.idle = false, true
	b.run(400, times(60e-3, 10e-3, 6e-3))
	if w := b.arms[b.at].workers; w != 16 {
		t.Errorf("%d workers on a machine that is quiet again", w)
	}
}

// TestArms: the numbers of workers are 1, half and all, each once.
func TestArms(t *testing.T) {
	for n, want := range map[int][]int{1: {1}, 2: {1, 2}, 3: {1, 3}, 4: {1, 2, 4}, 16: {1, 8, 16}} {
		var l Limiter
		l.Init(n)
		var got []int
		for _, a := range l.arms[:l.n] {
			got = append(got, a.workers)
		}
		if !slices.Equal(got, want) || l.Workers() != n {
			t.Errorf("%d workers: arms %v, begins with %d", n, got, l.Workers())
		}
	}
}

// TestSizesOfARunDoNotMatter: runs of a class that differ in size are compared by
// their time per token.
func TestSizesOfARunDoNotMatter(t *testing.T) {
	b := newBench(2)
	b.preempts = true
	for i := range 2000 {
		tokens := float64(128 + i%2*60)
		b.Took(tokens, tokens*map[int]float64{1: 60e-6, 2: 40e-6}[b.Workers()], &b.m)
		if b.at != 1 {
			t.Fatalf("one worker after %d runs", i)
		}
	}
}

func TestClasses(t *testing.T) {
	c := NewClasses(2)
	for _, s := range []struct {
		a, b int
		same bool
	}{{0, 0, true}, {1, 2, false}, {2, 3, false}, {140, 192, false}, {192, 255, true}, {255, 256, false}, {2048, 3071, true}, {2048, 3072, false}, {1 << 30, 1 << 40, true}} {
		if same := c.Of(s.a) == c.Of(s.b); same != s.same {
			t.Errorf("runs of %d and %d tokens are of one class: %t", s.a, s.b, same)
		}
	}
}

// TestLongRunsPutOffTheirFirstProbe: a context switch is no reason to spend two
// steps of a training, of a second each, on finding out.
func TestLongRunsPutOffTheirFirstProbe(t *testing.T) {
	b := newBench(2)
	b.preempts = true
	b.run(20, map[int]float64{1: 2, 2: 1})
	if b.runs[1] > 0 {
		t.Errorf("%d of the first 20 runs of a second each had one worker", b.runs[1])
	}
	b = newBench(2)
	b.preempts = true
	b.run(400, map[int]float64{1: 2, 2: 1})
	if b.runs[1] == 0 || b.lost > 0.03*b.all {
		t.Errorf("%d of 400 runs had one worker, which took %.1f %% of the time", b.runs[1], 100*b.lost/b.all)
	}
}

// TestOneBusyProgramAmongMany: a program that takes one of 16 cores is no reason to
// leave half of them, one that takes half of them is.
func TestOneBusyProgramAmongMany(t *testing.T) {
	for _, c := range []struct {
		taken int64
		times map[int]float64
		most  int // runs on fewer than all workers, of 60
		least int
	}{
		{1, map[int]float64{1: 80e-3, 8: 10e-3, 16: 6e-3}, 0, 0},
		{8, map[int]float64{1: 80e-3, 8: 10e-3, 16: 14e-3}, 60, 40},
		{50, map[int]float64{1: 1.6, 8: 0.35, 16: 0.2}, 0, 0}, // one program, in long runs
	} {
		b := newBench(16)
		b.taken = c.taken
		b.run(60, c.times)
		if fewer := b.runs[1] + b.runs[8]; fewer > c.most || fewer < c.least {
			t.Errorf("%d cores taken: %d of 60 runs on fewer workers, expected %d to %d", c.taken, fewer, c.least, c.most)
		}
	}
}

// TestCalm: it is known after two samples, and one context switch ends it.
func TestCalm(t *testing.T) {
	b := newBench(2)
	b.run(1, steady)
	if b.Calm() {
		t.Error("calm after one sample: nothing is known yet")
	}
	b.run(2, steady)
	if !b.Calm() {
		t.Error("not calm although nothing was taken")
	}
	b.switches++
	b.run(1, steady)
	if b.Calm() {
		t.Error("calm although a processor was taken")
	}
	b.m = Machine{}
	b.Init(2)
	b.run(5, steady)
	if b.Calm() {
		t.Error("calm on a system that does not count context switches")
	}
}
