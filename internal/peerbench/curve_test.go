package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"hotpath/internal/kernel/isa"
	"hotpath/internal/testmodels"
)

// TestCurve: a row per number of threads has both speed-ups and their ratio.
func TestCurve(t *testing.T) {
	counts := threadCounts(4)
	g := Group{Name: "scale-x", Title: "T", Works: []Work{embed(2, 8, 1)}, Inputs: inputs{}, Paired: true, Curve: &Curve{Threads: counts, Ceiling: "memory reads"}}
	fake := fakeRunner("", "restless", 0)
	g.addWays(fake, ours, "threads", "", counts)
	g.addCeiling(fake, ceilingOf{"memory reads", "reads", "GB/s"}, counts)
	got, err := bench{rounds: 6}.measure(context.Background(), g)
	if err != nil || got.failure() != nil {
		t.Fatal(err, got.failure())
	}
	var shown [][]string
	for _, row := range got.table()[1:] {
		shown = append(shown, []string{row[0], row[3], row[6], row[7]})
	}
	want := [][]string{{"1", "", "", ""}, {"2", "2.00x (2.00 to 2.00)", "1.60x (1.60 to 1.60)", "1.25x (1.25 to 1.25)"}, {"4", "2.50x (2.50 to 2.50)", "3.20x (3.20 to 3.20)", "0.78x (0.78 to 0.78)"}}
	if !reflect.DeepEqual(shown, want) {
		t.Errorf("%q, expected %q", shown, want)
	}
	lines, err := (&Report{Groups: []*Result{got}, Topology: "one"}).json(true)
	if n := strings.Count(string(lines), "\n"); err != nil || n != len(got.Rows) || !strings.Contains(string(lines), `"group":"scale-x","work":"2 x 8","runner":"memory reads, 4 threads"`) {
		t.Errorf("%d lines of %d rows, %v:\n%s", n, len(got.Rows), err, lines)
	}
}

// Each ceiling stands behind the work on as many threads.
func TestBesideEachOther(t *testing.T) {
	counts := threadCounts(6)
	g := Group{Works: []Work{embed(2, 8, 1)}}
	g.addWays(Runner{}, ours, "threads", "", counts)
	g.addCeiling(Runner{}, ceilingOf{"memory reads", "reads", "GB/s"}, counts)
	var ways []string
	for _, r := range besideEachOther(g.Runners, len(counts)) {
		ways = append(ways, r.Way)
	}
	want := []string{"threads=1", "reads=1", "threads=2", "reads=2", "threads=4", "reads=4", "threads=6", "reads=6"}
	if !reflect.DeepEqual(ways, want) {
		t.Errorf("%q, expected %q", ways, want)
	}
}

func TestThreadCounts(t *testing.T) {
	for most, want := range map[int][]int{1: {1}, 2: {1, 2}, 6: {1, 2, 4, 6}, 16: {1, 2, 4, 8, 16}} {
		if got := threadCounts(most); !reflect.DeepEqual(got, want) {
			t.Errorf("up to %d: %v, expected %v", most, got, want)
		}
	}
}

// TestCurvesAreAskedFor: they take the machine for minutes, so they do not run with
// the others.
func TestCurvesAreAskedFor(t *testing.T) {
	all := groups(place{cache: "c", models: "m", threads: 4})
	usual, err := choose(all, "")
	if err != nil || len(usual) != len(all)-5 {
		t.Errorf("%d of %d groups, %v, expected all but 5", len(usual), len(all), err)
	}
	asked, err := choose(all, "scale")
	if err != nil || len(asked) != 5 {
		t.Errorf("%d groups, %v, expected 5", len(asked), err)
	}
}

// TestEmbeddingIsOnEachCore: where gains of threads at tiles are measured, a turn has one
// call per core.
func TestEmbeddingIsOnEachCore(t *testing.T) {
	found := 0
	for _, g := range groups(place{cache: "c", models: "m", threads: 16}) {
		if g.Name != "threads" && g.Name != "scale-embed" {
			continue
		}
		found++
		if w := g.Works[0]; w.Reps != 16 || !w.Cores || !g.Paired {
			t.Errorf("%s: %+v, expected turns of 16 calls, each on a core", g.Name, w)
		}
	}
	if found != 2 {
		t.Errorf("%d groups, expected 2", found)
	}
}

// TestWaysOfReading: the packed weights are read by several numbers of threads. A model
// without enough of them has no rate.
func TestWaysOfReading(t *testing.T) {
	ask := func(path string) (a answer, err error) {
		w := &hotpathWorker{threads: 2, now: time.Now}
		t.Cleanup(func() { w.close() })
		if err := w.open(path, "auto"); err != nil {
			t.Fatal(err)
		}
		batch := [][]int32{{2, 3, 4}}
		err = w.answer(request{Op: "decode", Steps: 3, Batches: [][][]int32{batch, batch}, Calls: 1, Ways: []string{"reads=1", "reads=2"}}, &a)
		return a, err
	}
	if got, err := ask(testmodels.Dir(t, "llama")); err == nil || !strings.Contains(err.Error(), "fewer than are measured") {
		t.Errorf("%+v, %v, expected an error: too few weights", got, err)
	}
	got, err := ask(testmodels.Real(t, "SmolLM2-135M-Instruct.Q4_1.gguf"))
	if tier := isa.Active(); !slices.Contains([]isa.Tier{isa.AVX2, isa.AVXVNNI, isa.VNNI, isa.AMX, isa.AMXFP16}, tier) {
		if err == nil || !strings.Contains(err.Error(), "stay in its file") {
			t.Errorf("%+v, %v, expected an error: %s reads Q4_1 in the file", got, err, tier)
		}
		return
	}
	if err != nil || len(got.Turns) != 2 {
		t.Fatalf("%+v, %v, expected 2 ways", got, err)
	}
	for i, turn := range got.Turns {
		if len(turn.Amount) != 1 || !(turn.Amount[0] > 0 && turn.Seconds[0] > 0) {
			t.Errorf("way %d: %+v, expected a rate", i, turn)
		}
	}
}

// TestWaysOfGenerating: prompts and tokens of several numbers of threads.
func TestWaysOfGenerating(t *testing.T) {
	prompt := [][]int32{{2, 3, 4, 5, 6, 7, 8, 9}}
	got := askWorkerThreads(t, 2, testmodels.Dir(t, "llama"),
		request{Op: "prefill", Batches: [][][]int32{prompt, prompt}, Calls: 1, Ways: []string{"threads=1", "threads=2"}},
		request{Op: "decode", Steps: 3, Batches: [][][]int32{prompt, prompt}, Calls: 1, Ways: []string{"threads=1", "threads=2"}},
		request{Op: "train", Batches: [][][]int32{prompt, prompt}, Ways: []string{"threads=1"}})
	for i, amount := range []float64{8, 3} {
		for k, turn := range got[i].Turns {
			if len(turn.Amount) != 1 || turn.Amount[0] != amount || !(turn.Seconds[0] > 0) {
				t.Errorf("request %d, way %d: %+v, expected one call of %v tokens", i, k, turn, amount)
			}
		}
		if len(got[i].Turns) != 2 {
			t.Errorf("request %d: %+v, expected 2 ways", i, got[i])
		}
	}
	if !strings.Contains(got[2].Error, "without a training") {
		t.Errorf("%+v, expected an error: no training", got[2])
	}
}

// TestWaysOfTraining: each number of threads trains a model of its own, which is made
// without any file.
func TestWaysOfTraining(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "train")
	for range 2 { // the second call finds it
		if err := makeTraining(folder, "gpt2-124m", "model.d_model=32", "model.n_layers=1", "model.n_heads=2", "model.vocab=100", "model.context=16", "seq_len=16", "batch_tokens=32"); err != nil {
			t.Fatal(err)
		}
	}
	w := &hotpathWorker{trains: trainers{folder: folder}, now: time.Now}
	var a answer
	q := request{Op: "train", Batches: [][][]int32{{{1}}, {{1}}}, Ways: []string{"threads=1", "threads=2"}}
	for round, steps := range []int{2, 3} { // the first round also warms up
		a = answer{}
		if err := w.answer(q, &a); err != nil {
			t.Fatal(err)
		}
		for i, turn := range a.Turns {
			if len(turn.Amount) != 1 || turn.Amount[0] != 32 {
				t.Errorf("round %d, way %d: %+v, expected one step of 32 tokens", round, i, turn)
			}
		}
		for n, one := range w.trains.made {
			if one.run.Done() != steps {
				t.Errorf("round %d: %d steps with %d threads, expected %d", round, one.run.Done(), n, steps)
			}
		}
	}
	outs := []string{w.trains.made[1].out, w.trains.made[2].out}
	if err := w.close(); err != nil {
		t.Error(err)
	}
	for _, out := range outs {
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s is left", out)
		}
	}
}

func TestMakeOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	failed := errors.New("failed")
	if err := makeOnce(path, func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o666), failed) }); !errors.Is(err, failed) {
		t.Errorf("%v, expected %v", err, failed)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("what failed is left")
	}
	made := 0
	for range 2 {
		if err := makeOnce(path, func(path string) error { made++; return os.WriteFile(path, nil, 0o666) }); err != nil {
			t.Error(err)
		}
	}
	if made != 1 {
		t.Errorf("made %d times", made)
	}
}

func TestTopology(t *testing.T) {
	dir := t.TempDir()
	for cpu, at := range map[string][2]string{"cpu0": {"0", "0"}, "cpu1": {"0", "0"}, "cpu2": {"0", "1"}, "cpu3": {"0", "1"}, "cpu4": {"1", "0"}, "cpu5": {"1", "0"}, "cpu6": {"1", "1"}, "cpu7": {"1", "1"}} {
		folder := filepath.Join(dir, cpu, "topology")
		if err := os.MkdirAll(folder, 0o777); err != nil {
			t.Fatal(err)
		}
		for i, name := range []string{"physical_package_id", "core_id"} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(at[i]+"\n"), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := topologyOf(os.DirFS(dir)); got != "sockets: 2, cores per socket: 2, threads per core: 2" {
		t.Error(got)
	}
	if got := topologyOf(os.DirFS(t.TempDir())); got != "" {
		t.Errorf("%q of nothing", got)
	}
}
