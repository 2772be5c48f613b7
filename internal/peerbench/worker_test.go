package main

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"hotpath/internal/testmodels"
)

// askWorker serves requests with a small model and returns the answers.
func askWorker(t *testing.T, dir string, requests ...request) []answer {
	t.Helper()
	return askWorkerThreads(t, 1, dir, requests...)
}

func askWorkerThreads(t *testing.T, threads int, dir string, requests ...request) []answer {
	t.Helper()
	// A clock of its own: how many turns a request has is the same on any machine.
	var clock time.Time
	w := &hotpathWorker{threads: threads, now: func() time.Time {
		clock = clock.Add(10 * time.Millisecond)
		return clock
	}}
	t.Cleanup(func() { w.close() })
	if dir != "" {
		if err := w.open(dir, "f32"); err != nil {
			t.Fatal(err)
		}
	}
	var in, out bytes.Buffer
	for _, q := range requests {
		if err := json.NewEncoder(&in).Encode(q); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.serve(&in, &out); err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(&out)
	var h hello
	if err := dec.Decode(&h); err != nil || h.Peer != "hotpath" {
		t.Fatalf("hello %+v, %v", h, err)
	}
	var got []answer
	for {
		var a answer
		if err := dec.Decode(&a); err == io.EOF {
			return got
		} else if err != nil {
			t.Fatal(err)
		}
		got = append(got, a)
	}
}

func TestWorkerEmbeds(t *testing.T) {
	var batch [][]int32
	var want [][]float32
	for _, c := range testmodels.Load(t, "bert").Cases {
		if len(c.IDs) > 0 && len(batch) < 6 {
			var ids []int32
			for _, id := range c.IDs {
				ids = append(ids, int32(id))
			}
			batch, want = append(batch, ids), append(want, c.Embedding)
		}
	}
	got := askWorker(t, testmodels.Dir(t, "bert"),
		request{Op: "vectors", Batches: [][][]int32{batch}},
		request{Op: "embed", Batches: [][][]int32{batch, batch, batch[:2]}},
		request{Op: "decode", Batches: [][][]int32{batch}, Steps: 4},
		request{Op: "sing", Batches: [][][]int32{batch}},
		request{Op: "embed"})
	if worst, err := worstCosine(got[0].Vectors, want); err != nil || worst < 0.9999 {
		t.Errorf("worst cosine %v, %v", worst, err)
	}
	if want := []float64{float64(tokensOf(batch)), float64(tokensOf(batch[:2]))}; !slices.Equal(got[1].Amount, want) || len(got[1].Seconds) != 2 {
		t.Errorf("amounts %v in %v, expected %v without the first batch", got[1].Amount, got[1].Seconds, want)
	}
	for _, a := range got[2:] {
		if a.Error == "" {
			t.Errorf("answer %+v, expected an error", a)
		}
	}
}

func TestWorkerGenerates(t *testing.T) {
	text := func(first int32) []int32 { return []int32{first, 20, 30, 40, 50, 60} }
	got := askWorker(t, testmodels.Dir(t, "llama"),
		request{Op: "prefill", Batches: [][][]int32{{text(10)}, {text(11)}}},
		request{Op: "decode", Batches: [][][]int32{{text(12), text(13)}, {text(14), text(15), text(16)}}, Steps: 8},
		request{Op: "greedy", Batches: [][][]int32{{text(17), text(18)}}, Steps: 5},
		request{Op: "greedy", Batches: [][][]int32{{text(17)}}, Steps: 5})
	for i, a := range got {
		if a.Error != "" {
			t.Fatalf("answer %d: %s", i, a.Error)
		}
	}
	if !slices.Equal(got[0].Amount, []float64{6}) {
		t.Errorf("prefill of %v tokens, expected 6", got[0].Amount)
	}
	// Three sequences for up to 8 steps; those that began earlier are cut off
	// at both ends.
	if n := got[1].Amount[0]; n < 3 || n > 24 || got[1].Seconds[0] <= 0 {
		t.Errorf("decode of %v tokens in %v s, expected 3 to 24", n, got[1].Seconds)
	}
	if len(got[2].IDs) != 2 || len(got[2].IDs[0]) != 5 || !slices.Equal(got[2].IDs[0], got[3].IDs[0]) {
		t.Errorf("greedy %v, and alone %v", got[2].IDs, got[3].IDs)
	}
}

func TestWorkerMeasuresTheMachine(t *testing.T) {
	got := askWorker(t, "", request{Op: "read"}, request{Op: "embed", Batches: [][][]int32{{{1}}}})
	if a := got[0]; a.Error != "" || len(a.Amount) != 1 || !(a.Amount[0] > 0) {
		t.Errorf("answer %+v, expected a rate", a)
	}
	if !strings.Contains(got[1].Error, "without a model") {
		t.Errorf("error %q", got[1].Error)
	}
}
