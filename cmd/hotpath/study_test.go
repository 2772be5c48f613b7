package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotpath/internal/testmodels"
	"hotpath/profile"
)

func TestStudyWritesReport(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	out := ok(t, "study", "whatif", "-m", testmodels.Dir(t, "bert"), "--quick", "--step", "linear", "-o", dir)
	for _, name := range []string{"report.md", "report.html", "data.json", "gain-twice.svg"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !strings.Contains(out, filepath.Join(dir, "report.md")) || !strings.HasPrefix(out, "- ") {
		t.Errorf("standard output has no advice and no path:\n%s", out)
	}
}

func TestStudyMistakes(t *testing.T) {
	bert := testmodels.Dir(t, "bert")
	file := write(t, "file", "")
	fails(t, exitUsage, []string{"study", "nothing"}, "nothing", "parallelism")
	fails(t, exitUsage, []string{"study"}, "accepts 1 arg")
	fails(t, exitUsage, []string{"study", "scaling", "-m", bert, "--threads", "-1"}, "--threads")
	fails(t, exitUsage, []string{"study", "scaling", "-m", bert, "--precision", "f8"}, "--precision", "f8")
	fails(t, exitFailed, []string{"study", "scaling", "-m", bert, "-o", filepath.Join(file, "in")}, "-o")
	fails(t, exitFailed, []string{"study", "whatif", "-m", bert, "--quick", "--step", "nosuch", "-o", t.TempDir()}, "nosuch")
	// What failed leaves no folder behind.
	folder := filepath.Join(t.TempDir(), "folder")
	fails(t, exitFailed, []string{"study", "whatif", "-m", "nosuch-model", "-o", folder}, "nosuch-model", "hotpath pull")
	if _, err := os.Stat(folder); err == nil {
		t.Error("an empty folder was left")
	}
}

func TestProfileRun(t *testing.T) {
	llama, bert := testmodels.Dir(t, "llama"), testmodels.Dir(t, "bert")
	for _, c := range [][]string{{"embed", bert}, {"generate", llama}, {"train", llama}} {
		path := filepath.Join(t.TempDir(), "report.md")
		ok(t, "profile", "run", "-m", c[1], "--work", c[0], "--iterations", "2", "--tokens", "8", "-o", path)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		at := 0
		for _, part := range []string{"# Profile of", "| machine |", "| build |", "| gc |", "| shape |", "## Hot paths by time", "## Hot paths by lost time", "## Allocators by bytes", "## Call hierarchy"} {
			k := strings.Index(string(b[at:]), part)
			if k < 0 {
				t.Errorf("%s: no %q after byte %d:\n%s", c[0], part, at, b)
				break
			}
			at += k
		}
	}
	text := ok(t, "profile", "run", "-m", bert, "--iterations", "1", "--tokens", "4")
	if !strings.Contains(text, "HOT PATHS BY TIME") {
		t.Errorf("no report is printed:\n%s", text)
	}
	path := filepath.Join(t.TempDir(), "run.json")
	ok(t, "profile", "run", "-m", bert, "--iterations", "2", "--tokens", "4", "-o", path)
	p, err := profile.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var runs int64
	for i := range p.Plans {
		runs += p.Plans[i].Ledger.Runs
	}
	// Warm-up and the unrecorded twins are no part of it: 32 texts of 4 tokens
	// are a handful of runs at most.
	if runs == 0 || runs > 2*32 || p.Overhead == nil || p.Overhead.Runs < 2 || p.Overhead.Median == nil || p.Facts.Extra["gc"] == "" {
		t.Errorf("%d runs, overhead %+v, facts %v", runs, p.Overhead, p.Facts.Extra)
	}
	// Short as it is, it has samples of ceilings, so lost time is known.
	if len(p.Probes) < 2 {
		t.Errorf("samples of %d ceilings, expected compute classes and memory", len(p.Probes))
	}
	// One answer of 8 tokens is a prefill and 7 decodes, the cold one before it
	// none of them.
	answer := filepath.Join(t.TempDir(), "answer.json")
	ok(t, "profile", "run", "-m", llama, "--work", "generate", "--iterations", "1", "--tokens", "8", "-o", answer)
	a, err := profile.ReadFile(answer)
	if err != nil {
		t.Fatal(err)
	}
	phases := map[string]int64{}
	for i := range a.Plans {
		phases[a.Plans[i].Phase] += a.Plans[i].Ledger.Runs
	}
	if phases["prefill"] != 1 || phases["decode"] != 7 {
		t.Errorf("runs by phase %v, expected 1 prefill and 7 decodes", phases)
	}
	// A model has so many positions; what is above them is not dropped in silence.
	for _, c := range [][]string{{"embed", bert, "a text"}, {"generate", llama, "an answer"}, {"train", llama, "a sequence"}} {
		path := filepath.Join(t.TempDir(), "run.json")
		r := run(t, "profile", "run", "-m", c[1], "--work", c[0], "--iterations", "1", "--tokens", "100000", "-o", path)
		p, err := profile.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		note := p.Facts.Extra["tokens"]
		if r.status != exitDone || !strings.Contains(note, "--tokens 100000: "+c[2]+" takes ") || !strings.Contains(r.err, note) {
			t.Errorf("%s: exit %d, the report says %q, standard error %q", c[0], r.status, note, r.err)
		}
	}
	if note := p.Facts.Extra["tokens"]; note != "" {
		t.Errorf("4 tokens: %q", note)
	}
	fails(t, exitUsage, []string{"profile", "run", "-m", bert, "--work", "dance"}, "dance", "embed")
	fails(t, exitUsage, []string{"profile", "run", "-m", bert, "--iterations", "0"}, "--iterations")
	fails(t, exitUsage, []string{"profile", "run", "-m", bert, "-o", "report.exe"}, "report.exe", ".md")
	fails(t, exitFailed, []string{"profile", "run", "-m", bert, "-o", filepath.Join(t.TempDir(), "no", "folder.md")}, "cannot be written")
	fails(t, exitFailed, []string{"profile", "run", "-m", bert, "--work", "generate"}, "does not generate")
}

func TestProfileDeep(t *testing.T) {
	for _, m := range []string{"bert", "llama", "gguf/llama-q8_0.gguf"} {
		out := ok(t, "profile", "deep", "-m", testmodels.Dir(t, m), "--quick")
		for _, part := range []string{"PRODUCTS OF THE MODEL", "ATTENTION OF THE MODEL", "NORMS OF THE MODEL", "PRODUCTS, SQUARE", "SOFTMAX", "GELU", "ROPE", "128 × 128", "of the ceiling", "Rely on none of what follows"} {
			if !strings.Contains(out, part) {
				t.Errorf("%s: no %q:\n%s", m, part, out)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "deep.html")
	ok(t, "profile", "deep", "--quick", "-o", path)
	if b, err := os.ReadFile(path); err != nil || !strings.Contains(string(b), "</html>") {
		t.Errorf("%v: %.100s", err, b)
	}
	fails(t, exitUsage, []string{"profile", "deep", "-o", "deep.json"}, "deep.json", ".html")
	fails(t, exitFailed, []string{"profile", "deep", "-o", filepath.Join(t.TempDir(), "no", "folder.md")}, "cannot be written")
}
