package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
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

// TestWorkerCountsBytes: the bytes of a run are those of the weights per token, and
// reads are of as many.
func TestWorkerCountsBytes(t *testing.T) {
	text := func(first int32) []int32 { return []int32{first, 20, 30, 40, 50, 60} }
	batches := [][][]int32{{text(10)}, {text(11)}}
	got := askWorker(t, testmodels.Dir(t, "gguf/llama-q4_0.gguf"),
		request{Op: "decode", Batches: batches, Steps: 4},
		request{Op: "bytes", Batches: batches, Steps: 4},
		request{Op: "reads", Batches: batches})
	for i, a := range got {
		if a.Error != "" || len(a.Amount) != 1 || !(a.Amount[0] > 0 && a.Seconds[0] > 0) {
			t.Fatalf("answer %d: %+v", i, a)
		}
	}
	w := &hotpathWorker{threads: 1}
	defer w.close()
	if err := w.open(testmodels.Dir(t, "gguf/llama-q4_0.gguf"), "f32"); err != nil {
		t.Fatal(err)
	}
	each := w.tokenBytes()
	if all := w.store.Bytes(); each <= 0 || each >= all {
		t.Errorf("%d bytes per token of a file of %d", each, all)
	}
	if want := got[0].Amount[0] * float64(each) / 1e9; math.Abs(got[1].Amount[0]-want) > 1e-9*want {
		t.Errorf("%g GB for %g tokens, expected %g", got[1].Amount[0], got[0].Amount[0], want)
	}
}

// TestWorkerGoesFromSamplingToSampling: drawing tokens and taking the best ones are
// ways too.
func TestWorkerGoesFromSamplingToSampling(t *testing.T) {
	text := func(first int32) []int32 { return []int32{first, 20, 30, 40, 50, 60} }
	got := askWorker(t, testmodels.Dir(t, "llama"),
		request{Op: "decode", Batches: [][][]int32{{text(10)}, {text(11)}, {text(12)}}, Steps: 4, Calls: 2, Ways: []string{"greedy", "top-p 0.9"}},
		request{Op: "decode", Batches: [][][]int32{{text(10)}, {text(11)}, {text(12)}}, Steps: 4, Skip: 3, Calls: 2, Ways: []string{"greedy", "threads=1"}})
	for k, a := range got {
		if a.Error != "" || len(a.Turns) != 2 {
			t.Fatalf("answer %+v, expected two turns", a)
		}
		for i, turn := range a.Turns {
			if !slices.Equal(turn.Amount, []float64{4, 4}) {
				t.Errorf("request %d: way %d made %v tokens, expected 4 per call, others not counted", k, i, turn.Amount)
			}
		}
	}
}

// TestCommandWorker: a command is timed until its first output, its memory is looked
// at, and it has to write something and to end well.
func TestCommandWorker(t *testing.T) {
	ask := func(op string, argv ...string) (a answer) {
		t.Helper()
		var out bytes.Buffer
		w := &commandWorker{argv: argv}
		if err := w.serve(strings.NewReader(`{"op":"`+op+`","steps":5,"batches":[[[1],[2],[3]]]}`), &out); err != nil {
			t.Fatal(err)
		}
		dec := json.NewDecoder(&out)
		var h hello
		if err := errors.Join(dec.Decode(&h), dec.Decode(&a)); err != nil {
			t.Fatal(err)
		}
		return a
	}
	lists := []string{os.Args[0], "-test.list", "TestCommandWorker"}
	if a := ask("start", lists...); a.Error != "" || !slices.Equal(a.Amount, []float64{1}) || !(a.Seconds[0] > 0) {
		t.Errorf("answer %+v, expected one timed start", a)
	}
	// It gets the numbers of the request, and a line per prompt.
	counts := []string{"sh", "-c", `[ "$0 $1 $(wc -l)" = "3 5 3" ] && echo yes`, textsArg, stepsArg}
	counts[0], _ = exec.LookPath("sh")
	if a := ask("whole", counts...); a.Error != "" || !slices.Equal(a.Amount, []float64{15}) || !(a.Seconds[0] > 0) {
		t.Errorf("answer %+v, expected 15 tokens", a)
	}
	for _, op := range []string{"peak", "steady"} { // a command so short may end before its memory is read
		a := ask(op, lists...)
		if a.Error == "" && !(len(a.Amount) == 1 && a.Amount[0] > 0 && a.Seconds[0] == 1) || a.Error != "" && !strings.Contains(a.Error, "before its memory was read") {
			t.Errorf("%s: answer %+v, expected MiB", op, a)
		}
	}
	if now := residentMiB(os.Getpid()); runtime.GOOS == "linux" && now <= 0 {
		t.Errorf("this process holds %v MiB", now)
	}
	if a := ask("start", os.Args[0], "-test.list", "("); a.Error == "" {
		t.Errorf("answer %+v of a command that fails, expected an error", a)
	}
	if a := ask("sing", lists...); a.Error == "" {
		t.Errorf("answer %+v, expected that a command does not sing", a)
	}
	if err := (&commandWorker{argv: []string{"/no/such/command"}}).serve(strings.NewReader(""), io.Discard); err == nil {
		t.Error("a command that is not there was taken")
	}
}
