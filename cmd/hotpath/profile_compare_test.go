package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotpath/internal/testmodels"
	"hotpath/profile"
	"hotpath/profile/compare"
	"hotpath/profile/export"
)

func TestProfileCompare(t *testing.T) {
	dir := t.TempDir()
	// One text: how several are put into batches depends on when they arrive.
	record := func(name string) string {
		file := filepath.Join(dir, name)
		ok(t, "embed", "-m", testmodels.Dir(t, "bert"), "a text that is always one batch", "--format", "csv", "--profile="+file)
		return file
	}
	a, b := record("a.json"), record("b.json")
	if out := ok(t, "profile", "compare", a, b, "--fail-above", "3%"); !strings.Contains(out, "Too few runs to compare times") || strings.Contains(out, "slower") || strings.Contains(out, "more work") {
		t.Errorf("two recordings of one build:\n%s", out)
	}
	var c compare.Comparison
	if err := json.Unmarshal([]byte(ok(t, "profile", "compare", a+","+b, b, "--format", "json")), &c); err != nil || c.Recordings != [2]int{2, 1} || len(c.Plans) == 0 {
		t.Errorf("%v: %+v", err, c)
	}
	if out := ok(t, "profile", "compare", strings.Join([]string{a, b, a, b}, ","), a+","+b); !strings.Contains(out, a+" and 3 more (4 recordings)") || !strings.Contains(out, a+","+b+" (2 recordings)") {
		t.Errorf("sides of several files:\n%s", out)
	}
	for _, ending := range export.ComparisonEndings() {
		out := filepath.Join(dir, "diff"+ending)
		ok(t, "profile", "compare", a, b, "-o", out)
		if info, err := os.Stat(out); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", ending, err)
		}
	}

	// A thousand times the work is surely more, however few runs there are and
	// however long they waited for a processor.
	p, err := profile.ReadFile(b)
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Plans {
		for s := range p.Plans[i].Stats {
			st := &p.Plans[i].Stats[s]
			st.FLOPs, st.Bytes = 1000*st.FLOPs, 1000*st.Bytes
		}
	}
	more := filepath.Join(dir, "more.json")
	if err := p.WriteFile(more); err != nil {
		t.Fatal(err)
	}
	fails(t, exitFailed, []string{"profile", "compare", a, more, "--fail-above", "3%"}, "more than 3%: ", " has more work\n")
	ok(t, "profile", "compare", a, more, "--fail-above", "9000000%")

	fails(t, exitUsage, []string{"profile", "compare", a, b, "--fail-above", "fast"}, "--fail-above")
	for _, top := range []string{"0", "-2"} {
		fails(t, exitUsage, []string{"profile", "compare", a, b, "--top", top}, "--top "+top, "-1 for all")
		fails(t, exitUsage, []string{"profile", "show", a, "--top", top}, "--top "+top, "-1 for all")
	}
	fails(t, exitUsage, []string{"profile", "compare", a}, "accepts 2 arg")
	fails(t, exitUsage, []string{"profile", "compare", a, b, "-o", "diff.gif"}, ".json")
	fails(t, exitFailed, []string{"profile", "compare", a, b, "-o", filepath.Join(dir, "none", "diff.json")}, "cannot be written")
	fails(t, exitFailed, []string{"profile", "compare", a, t.TempDir()}, "expected recordings")
	fails(t, exitFailed, []string{"profile", "compare", a, filepath.Join(dir, "none.json")}, "none.json")
}

// What cannot be written is said before the work: here, before the file to be
// exported is even looked for.
func TestProfileOutputsAreTriedFirst(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "folder.md")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{filepath.Join(dir, "none", "x.pprof"), folder} {
		fails(t, exitFailed, []string{"profile", "export", "not-there.json", "-o", out}, out, "cannot be written")
	}
}
