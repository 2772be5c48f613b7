package main

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/testmodels"
)

// TestWorkerGoesFromWayToWay: each way has every batch but the first, what is
// counted is how it ran, and where there is time left it goes on, to the end of a
// turn.
func TestWorkerGoesFromWayToWay(t *testing.T) {
	batch := [][]int32{{2, 3, 4, 5}, {6, 7, 8}, {9, 10, 11, 12}, {13, 14}}
	got := askWorkerThreads(t, 2, testmodels.Dir(t, "bert"),
		request{Op: "embed", Batches: [][][]int32{batch, batch, batch[:2]}, Calls: 2, Ways: []string{"fine", "coarse", "auto", "fine"}},
		request{Op: "vectors", Batches: [][][]int32{batch}, Ways: []string{"coarse"}},
		request{Op: "vectors", Batches: [][][]int32{batch}, Ways: []string{"fine"}},
		request{Op: "embed", Batches: [][][]int32{batch}, Ways: []string{"sideways"}},
		request{Op: "embed", Batches: [][][]int32{batch, batch, batch[:2], batch[:1]}, Calls: 3, Seconds: 0.05, Ways: []string{"fine"}},
		request{Op: "embed", Batches: [][][]int32{batch}, Ways: []string{"fine"}})
	turns := got[0].Turns
	if len(turns) != 4 {
		t.Fatalf("%+v, expected 4 turns", got[0])
	}
	for i, want := range map[int]ran{0: {Fine: 2}, 1: {Coarse: 2}, 3: {Fine: 2}} {
		if turns[i].Ran != want {
			t.Errorf("way %d ran %+v, expected %+v", i, turns[i].Ran, want)
		}
	}
	for i, turn := range turns {
		if !slices.Equal(turn.Amount, []float64{13, 7}) || len(turn.Seconds) != 2 || turn.Ran.Fine+turn.Ran.Coarse+turn.Ran.One != 2 {
			t.Errorf("way %d: %+v, expected the batches of 13 and 7 tokens", i, turn)
		}
	}
	if worst, err := worstCosine(got[1].Vectors, got[2].Vectors); err != nil || !(worst >= 0.99999) {
		t.Errorf("coarse against fine: cosine %v, %v", worst, err)
	}
	if !strings.Contains(got[3].Error, "sideways") {
		t.Errorf("answer %+v, expected an error that names the way", got[3])
	}
	if a := got[4].Turns[0].Amount; !slices.Equal(a, []float64{13, 7, 4, 13, 7, 4, 13, 7, 4}) {
		t.Errorf("amounts %v, expected turns of 13, 7 and 4 until the time is over, to the end of the last one", a)
	}
	if got[5].Error == "" {
		t.Errorf("answer %+v, expected an error: nothing to measure", got[5])
	}
}

// TestWaysOfThreads: hotpath on other numbers of threads, and what they do at
// most, are ways too.
func TestWaysOfThreads(t *testing.T) {
	batch := [][]int32{{2, 3, 4, 5}, {6, 7, 8}, {9, 10, 11, 12}, {13, 14}}
	got := askWorkerThreads(t, 2, testmodels.Dir(t, "bert"),
		request{Op: "embed", Batches: [][][]int32{batch, batch, batch}, Calls: 2, Ways: []string{"threads=1", "threads=2", "f32=1", "f32=2"}},
		request{Op: "vectors", Batches: [][][]int32{batch}, Ways: []string{"threads=1"}},
		request{Op: "vectors", Batches: [][][]int32{batch}, Ways: []string{"fine"}},
		request{Op: "embed", Batches: [][][]int32{batch, batch}, Ways: []string{"threads=none"}},
		request{Op: "embed", Batches: [][][]int32{batch, batch}, Ways: []string{"f128=1"}},
		request{Op: "vectors", Batches: [][][]int32{batch}, Ways: []string{"fixed=2"}},
		request{Op: "vectors", Batches: [][][]int32{batch}, Ways: []string{"default"}})
	for i, turn := range got[0].Turns {
		if len(turn.Amount) != 2 || !(turn.Amount[0] > 0 && turn.Seconds[0] > 0) {
			t.Errorf("way %d: %+v, expected two calls", i, turn)
		}
	}
	if worst, err := worstCosine(got[1].Vectors, got[2].Vectors); err != nil || !(worst >= 0.99999) {
		t.Errorf("one thread against two: cosine %v, %v", worst, err)
	}
	if worst, err := worstCosine(got[5].Vectors, got[6].Vectors); err != nil || !(worst >= 0.99999) {
		t.Errorf("fixed threads against the engine's choice: cosine %v, %v", worst, err)
	}
	for i, name := range map[int]string{3: "threads=none", 4: "f128=1"} {
		if !strings.Contains(got[i].Error, name) {
			t.Errorf("answer %+v, expected an error that names %s", got[i], name)
		}
	}
}

// TestTurns: a turn is the time of all its calls, or where each has a core of its
// own the mean of their rates.
func TestTurns(t *testing.T) {
	calls := turn{Amount: []float64{1, 1, 2, 2}, Seconds: []float64{1, 3, 1, 1}}
	for _, c := range []struct {
		work Work
		want []float64
	}{{Work{Reps: 2}, []float64{0.5, 2}}, {Work{Reps: 2, Cores: true}, []float64{2.0 / 3, 2}}, {Work{Reps: 4}, []float64{1}}} {
		var r Row
		if err := r.addTurns(calls, c.work); err != nil || !slices.Equal(r.Samples, c.want) {
			t.Errorf("%+v: %v, %v, expected %v", c.work, r.Samples, err, c.want)
		}
	}
	for _, bad := range []turn{{}, {Amount: []float64{1, 1, 1}, Seconds: []float64{1, 1, 1}}, {Amount: []float64{1, 1}, Seconds: []float64{1, 0}}} {
		if err := new(Row).addTurns(bad, Work{Reps: 2}); err == nil {
			t.Errorf("no error for %+v", bad)
		}
	}
}

// TestWaysShareAProcess: what differs in its way alone is one process, and its
// ratio is that of each round.
func TestWaysShareAProcess(t *testing.T) {
	runner := func(name, way, base string) Runner {
		r := fakeRunner(name, "restless", 0.99)
		r.Way, r.Base = way, base
		return r
	}
	g := Group{
		Name: "g", Title: "T", Lead: "auto", Works: []Work{embed(2, 8, 3)}, Inputs: inputs{Model: testmodels.Dir(t, "bert")}, Paired: true,
		Runners: []Runner{runner("auto", "auto", ""), runner("fine", "fine", ""), runner("coarse", "coarse", ""), runner("fine, again", "fine", "fine"), runner("auto, based", "auto", "coarse")},
		Gains:   []Gain{{Name: "gain", Of: "auto, based", Over: "fine, again"}, {Name: "no gain", Of: "auto, based", Over: "nobody"}},
	}
	got, err := bench{rounds: 6}.measure(context.Background(), g)
	if err != nil {
		t.Fatal(err)
	}
	// The fake's speed changes threefold from request to request, and it counts
	// them: with a process for each way they would not agree.
	for name, want := range map[string]float64{"fine": 1.5, "coarse": 0.75, "fine, again": 1} {
		r := rowOf(t, got, name).Ratio
		if r == nil || math.Abs(r.Value-want) > 1e-9 || math.Abs(r.High-r.Low) > 1e-9 {
			t.Errorf("%s: ratio %+v, expected %g without any spread", name, r, want)
		}
	}
	if r := rowOf(t, got, "gain").Ratio; r == nil || math.Abs(r.Value-0.75) > 1e-9 || math.Abs(r.High-r.Low) > 1e-9 {
		t.Errorf("gain %+v, expected 0.75 without any spread", r)
	}
	if r := rowOf(t, got, "no gain"); r.Problem == "" || got.failure() == nil {
		t.Errorf("%+v, expected a problem", r)
	}
	if text := (&Report{}).text(got); !strings.Contains(text, "0.75x (0.75 to 0.75)") {
		t.Errorf("no gain in\n%s", text)
	}
	if lead := rowOf(t, got, "auto"); lead.Ran != (ran{Fine: 6, Coarse: 12}) || lead.Ran.String() != "33 % fine, 67 % coarse" {
		t.Errorf("auto ran %+v: %s", lead.Ran, lead.Ran)
	}
}

// TestPairedRatios: a machine whose speed changes between turns changes no ratio
// of paired samples, and how sure one is depends on the rounds that agree.
func TestPairedRatios(t *testing.T) {
	num := []float64{10, 30, 10, 31, 9, 30, 11}
	den, ends := make([]float64, len(num)), make([]int, len(num))
	for i := range num {
		den[i], ends[i] = num[i]/0.9, i+1
	}
	if r := paired(num, den, ends); math.Abs(r.Value-0.9) > 1e-9 || math.Abs(r.Low-0.9) > 1e-9 || math.Abs(r.High-0.9) > 1e-9 {
		t.Errorf("%+v, expected 0.9 without any spread", r)
	}
	den[0], den[1], den[2], den[3] = 20, 20, 20, 20
	if r := paired(num, den, ends); math.Abs(r.Value-0.9) > 1e-9 || r.Low >= 0.9 || r.High <= 0.9 {
		t.Errorf("%+v, expected 0.9 with a spread", r)
	}
	// Five rounds, of which two say 0.8 in all of their turns: as many turns as
	// one likes do not make that less likely to happen again.
	num, den, ends = nil, nil, nil
	for round := range 5 {
		for range 20 + round {
			num, den = append(num, []float64{8, 10}[min(round/2, 1)]), append(den, 10)
		}
		ends = append(ends, len(num))
	}
	if r := paired(num, den, ends); r.Value != 1 || r.Low != 0.8 || r.High != 1 {
		t.Errorf("%+v, expected 1, and 0.8 as not unlikely", r)
	}
}
