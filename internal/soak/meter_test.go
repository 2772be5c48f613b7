package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What grows is found, what varies is not.
func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		at   func(gauge, round int) int64
		want []string
	}{
		"flat":   {func(gauge, round int) int64 { return 100 << 20 }, nil},
		"varies": {func(gauge, round int) int64 { return int64(100<<20 + round%2*gauges[gauge].allowance()) }, nil},
		"warms up": {func(gauge, round int) int64 {
			return int64(min(round, 3)) << 30
		}, nil},
		"a goroutine every other round": {func(gauge, round int) int64 {
			if gauges[gauge].name == "goroutines" {
				return 3 + int64(round/2)
			}
			return 7
		}, []string{"goroutines grew"}},
		"memory": {func(gauge, round int) int64 {
			if gauges[gauge].name == "RSS MiB" {
				return int64(20+5*round) << 20
			}
			return 7
		}, []string{"RSS MiB grew"}},
	} {
		var m meter
		for round := range 16 {
			var s []int64
			for gauge := range gauges {
				s = append(s, c.at(gauge, round))
			}
			m.samples = append(m.samples, s)
		}
		var f findings
		m.judge(&f)
		if !slices.Equal(f.order, c.want) || (f.err() == nil) != (c.want == nil) {
			t.Errorf("%s: %q, expected %q", name, f.order, c.want)
		}
	}
}

// allowance is what a gauge may vary by without being found.
func (g gauge) allowance() int { return int(g.units * g.unit / 2) }

// Temporary files are told from outputs.
func TestLeftovers(t *testing.T) {
	work := t.TempDir()
	c := &commands{work: work, out: filepath.Join(work, "out")}
	for _, file := range []string{"out/v.npy", "out/trained/step-2/model.gguf", "out/v.npy.resume", "cache/calibration/threads-1.json", "home/x", "out/.v.npy.tmp-1", "out/trained/.tmp-step-4/x", "tmp/hotpath-1.npy", "cache/calibration/.threads-1.json.tmp-7"} {
		path := filepath.Join(work, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, path := range c.leftovers() {
		got = append(got, filepath.Base(path))
	}
	if want := "hotpath-1.npy .v.npy.tmp-1 .tmp-step-4 .threads-1.json.tmp-7"; strings.Join(got, " ") != want {
		t.Errorf("%v, expected %s", got, want)
	}
}

// Every command is soaked, and the inputs that lines name exist.
func TestLinesCoverCommands(t *testing.T) {
	s := &settings{root: "ROOT"}
	lines, files := commandLines(s, "INPUTS"), inputs(s, "WORK")
	seen := map[string]bool{}
	for _, l := range lines {
		words := strings.Fields(l.args)
		seen[words[0]] = true
		for _, w := range words {
			if name, ok := strings.CutPrefix(w, "INPUTS/"); ok && files[name] == "" && !strings.HasPrefix(name, "none") {
				t.Errorf("%s: there is no input %s", l.args, name)
			}
		}
	}
	for _, name := range strings.Fields("info inspect tokenize embed rerank similar run score perplexity train bench profile study quantize convert pull list rm") {
		if !seen[name] {
			t.Errorf("no line runs %s", name)
		}
	}
}
