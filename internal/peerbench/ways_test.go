package main

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/testmodels"
)

// TestWorkerGoesFromWayToWay: each way has every batch but the first, and what
// is counted is how it ran.
func TestWorkerGoesFromWayToWay(t *testing.T) {
	batch := [][]int32{{2, 3, 4, 5}, {6, 7, 8}, {9, 10, 11, 12}, {13, 14}}
	got := askWorkerThreads(t, 2, testmodels.Dir(t, "bert"),
		request{Op: "embed", Batches: [][][]int32{batch, batch, batch[:2]}, Ways: []string{"fine", "coarse", "auto", "fine"}},
		request{Op: "vectors", Batches: [][][]int32{batch}, Ways: []string{"coarse"}},
		request{Op: "vectors", Batches: [][][]int32{batch}, Ways: []string{"fine"}},
		request{Op: "embed", Batches: [][][]int32{batch}, Ways: []string{"sideways"}})
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
	if worst, err := worstCosine(got[1].Vectors, got[2].Vectors); err != nil || worst < 0.99999 {
		t.Errorf("coarse against fine: cosine %v, %v", worst, err)
	}
	if !strings.Contains(got[3].Error, "sideways") {
		t.Errorf("answer %+v, expected an error that names the way", got[3])
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
		Runners: []Runner{runner("auto", "auto", ""), runner("fine", "fine", ""), runner("coarse", "coarse", ""), runner("fine, again", "fine", "fine")},
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
	if lead := rowOf(t, got, "auto"); lead.Ran != (ran{Fine: 6, Coarse: 12}) || lead.Ran.String() != "33 % fine, 67 % coarse" {
		t.Errorf("auto ran %+v: %s", lead.Ran, lead.Ran)
	}
}

// TestPairedRatios: a machine whose speed changes between rounds changes no
// ratio of paired samples.
func TestPairedRatios(t *testing.T) {
	num := []float64{10, 30, 10, 31, 9, 30, 11}
	den := make([]float64, len(num))
	for i := range num {
		den[i] = num[i] / 0.9
	}
	if r := paired(num, den); math.Abs(r.Value-0.9) > 1e-9 || math.Abs(r.Low-0.9) > 1e-9 || math.Abs(r.High-0.9) > 1e-9 {
		t.Errorf("%+v, expected 0.9 without any spread", r)
	}
	den[0], den[1], den[2], den[3] = 20, 20, 20, 20
	if r := paired(num, den); math.Abs(r.Value-0.9) > 1e-9 || r.Low >= 0.9 || r.High <= 0.9 {
		t.Errorf("%+v, expected 0.9 with a spread", r)
	}
}
