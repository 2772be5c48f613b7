package main

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/testmodels"
)

func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		v    []float64
		q    float64
		want float64
	}{{[]float64{3}, 0.5, 3}, {[]float64{4, 1}, 0.5, 2.5}, {[]float64{5, 1, 3}, 0.5, 3}, {[]float64{1, 2, 3, 4, 5}, 0.25, 2}, {[]float64{1, 2}, 1, 2}} {
		if got := quantile(slices.Clone(c.v), c.q); got != c.want {
			t.Errorf("quantile %v of %v is %v, expected %v", c.q, c.v, got, c.want)
		}
	}
}

// A machine that is slow in some rounds slows both engines: the interval must
// not widen for it, but must for noise of one engine alone.
func TestRatioPairsRounds(t *testing.T) {
	den := []float64{100, 50, 100, 50, 100, 50, 100, 50, 100}
	num := make([]float64, len(den))
	for i := range den {
		num[i] = 3 * den[i]
	}
	if r := ratio(num, den); r.Value != 3 || r.Low != 3 || r.High != 3 {
		t.Errorf("ratio %+v, expected exactly 3", r)
	}
	num[0], num[1], num[2] = 100, 500, 90
	if r := ratio(num, den); !(r.Low < r.Value && r.Value <= r.High) {
		t.Errorf("ratio %+v, expected an interval around the value", r)
	}
}

func TestLeads(t *testing.T) {
	if mean, worst := leadsOf([][]float64{{0, 1}, {0, 0}}); mean != 0.25 || worst != 1 {
		t.Errorf("mean %v, worst %v", mean, worst)
	}
	if mean, _ := leadsOf(nil); !math.IsNaN(mean) {
		t.Errorf("mean %v of nothing, expected NaN: it must not pass", mean)
	}
	if mean, worst := leadsOf([][]float64{{math.NaN(), 0}}); !math.IsNaN(mean) || !math.IsNaN(worst) {
		t.Errorf("mean %v, worst %v, expected NaN", mean, worst)
	}
}

func TestWorstCosine(t *testing.T) {
	a, b := []float32{1, 0}, []float32{1, 1}
	if got, err := worstCosine([][]float32{a, b}, [][]float32{a, a}); err != nil || math.Abs(got-math.Sqrt(0.5)) > 1e-7 {
		t.Errorf("%v, %v", got, err)
	}
	if got, _ := worstCosine([][]float32{{0, 0}}, [][]float32{a}); !math.IsNaN(got) {
		t.Errorf("%v for a vector of zeros, expected NaN: it must not pass", got)
	}
	if _, err := worstCosine([][]float32{a}, nil); err == nil {
		t.Error("no error for a vector too many")
	}
	if _, err := worstCosine([][]float32{{1}}, [][]float32{a}); err == nil {
		t.Error("no error for a short vector")
	}
}

func TestTextsHaveTheirLength(t *testing.T) {
	sources := map[string]*source{"random": {rng: rand.New(rand.NewPCG(1, 2)), vocab: 1000}}
	for _, name := range []string{"bert", "llama"} {
		s, err := inputs{Model: testmodels.Dir(t, name)}.open()
		if err != nil {
			t.Fatal(err)
		}
		sources[name] = s
	}
	for name, s := range sources {
		for _, n := range []int{5, 16, 256} {
			a, b := s.text(n), s.text(n)
			if len(a) != n || len(b) != n || n > 5 && slices.Equal(a, b) {
				t.Errorf("%s: %d and %d tokens, expected two texts of %d", name, len(a), len(b), n)
			}
		}
	}
}

func TestGroups(t *testing.T) {
	all := groups(place{cache: "c", models: "m", threads: 2})
	docs, err := os.ReadFile(filepath.Join("..", "..", "docs", "performance.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range all {
		if _, err := between(string(docs), g.Name, ""); err != nil {
			t.Errorf("docs/performance.md: %v", err)
		}
		for _, r := range g.Runners {
			if r.Base != "" && !slices.ContainsFunc(g.Runners, func(o Runner) bool { return o.Name == r.Base }) {
				t.Errorf("%s: %s is based on %q, which is not there", g.Name, r.Name, r.Base)
			}
			if r.Op == "" && r.Limit == 0 && !slices.Contains([]string{"start", "whole", "peak", "steady"}, g.Works[0].Op) { // commands give no answers
				t.Errorf("%s: answers of %s are held to nothing", g.Name, r.Name)
			}
		}
	}
	got, err := choose(all, "minilm,avx2-smollm2")
	var names []string
	for _, g := range got {
		names = append(names, g.Name)
	}
	if want := []string{"minilm", "minilm-gguf", "avx2-smollm2"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("chosen %v, %v, expected %v", names, err, want)
	}
	if _, err := choose(all, "mini"); err == nil || !strings.Contains(err.Error(), "minilm-gguf") {
		t.Errorf("error %v, expected the names that there are", err)
	}
}

func TestNarrow(t *testing.T) {
	all := groups(place{cache: "c", models: "m", threads: 2})
	if got := narrow(all, ""); len(got) != len(all) || len(got[0].Works) != len(all[0].Works) {
		t.Errorf("%d groups, expected all %d with all works", len(got), len(all))
	}
	got := narrow(all, "8 of 12;decode, 4")
	var names []string
	for _, g := range got {
		for _, w := range g.Works {
			names = append(names, g.Name+": "+w.Name)
		}
	}
	if want := []string{"smollm2: decode, 4 at once", "parallel: 8 of 12 tokens", "parallel: 128 of 12 tokens"}; !slices.Equal(names, want) {
		t.Errorf("%q, expected %q", names, want)
	}
	if got := narrow(all, "nothing"); len(got) != 0 {
		t.Errorf("%d groups, expected none", len(got))
	}
	if err := runGroups(t.Context(), []string{"--works", "8 of 12", "--docs", filepath.Join(t.TempDir(), "p.md")}); err == nil || !strings.Contains(err.Error(), "--works") {
		t.Errorf("error %v, expected one: half a table is none for the documentation", err)
	}
}

func TestWriteDocs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.md")
	write := func(s string) {
		if err := os.WriteFile(path, []byte(s), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("head\n<!-- peers:a -->\nold\n<!-- /peers:a -->\nmiddle\n<!-- peers:b -->\nkeep\n<!-- /peers:b -->\n")
	row := &Row{Work: "1 x 16", Runner: "x", Unit: "tok/s", Samples: []float64{8, 9, 10, 11, 12}, Median: 10, Q1: 9, Q3: 11, Ratio: &Ratio{Value: 2, Low: 1, High: 3}, ends: []int{1, 2, 3, 4, 5}}
	short := &Row{Work: "1 x 16", Runner: "z", Unit: "tok/s", Samples: []float64{5}, Median: 5, Ratio: &Ratio{Value: 4, Low: 4, High: 4}}
	r := &Report{Date: "2026-01-02", CPU: "Some CPU", Groups: []*Result{{Name: "a", Title: "Title", Lead: "hotpath", Rows: []*Row{row, {Work: "1 x 16", Runner: "y", Problem: "gone"}, short}, Idle: []Idle{{"x", 0.5}}}}}
	if err := r.writeDocs(path); err != nil {
		t.Fatal(err)
	}
	data, _ := os.ReadFile(path)
	got := string(data)
	for _, want := range []string{"head\n<!-- peers:a -->\n### Title\n", "| 1 x 16 | x | 10 tok/s | 9 to 11 |", "2.00x (1.00 to 3.00)", "4.00x |", "not measured: gone", "50.0 % of a core", "Some CPU", "middle\n<!-- peers:b -->\nkeep\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "old") {
		t.Errorf("the old table is still there:\n%s", got)
	}
	write("nothing here")
	if err := r.writeDocs(path); err == nil || !strings.Contains(err.Error(), "peers:a") {
		t.Errorf("error %v, expected the marker that is missing", err)
	}
}

// TestPeerCommandIsNotOurs: what is wrong with another engine's command costs its
// rows, not hotpath's status.
func TestPeerCommandIsNotOurs(t *testing.T) {
	commands := place{cache: "cache", threads: 2}.commands("model", "MiB", 1, 0)
	g := &Result{Name: "g"}
	for _, r := range commands {
		g.Rows = append(g.Rows, newRow(Work{Name: "peak"}, r, errors.New(r.Name+" failed")))
	}
	if err := g.failure(); err == nil || !strings.Contains(err.Error(), "hotpath run failed") || strings.Contains(err.Error(), "llama") {
		t.Errorf("failure %v, expected that of hotpath alone", err)
	}
}
