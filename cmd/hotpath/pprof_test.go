package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	pprof "github.com/google/pprof/profile"

	"hotpath/internal/testmodels"
)

// --pprof leaves files that Go's tools read, whatever the command.
func TestGoProfiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	var texts strings.Builder
	for range 200 {
		texts.WriteString("a text that takes some time to embed, and another sentence behind it\n")
	}
	r := hotpathWith(t, texts.String(), "embed", "-m", testmodels.Dir(t, "bert"), "-f", "-", "--format", "csv", "--pprof", dir, "--profile")
	if r.status != exitDone || !strings.Contains(r.err, "LEDGER") {
		t.Fatalf("exit %d: %s", r.status, r.err)
	}
	for name, unit := range map[string]string{cpuProfile: "nanoseconds", heapProfile: "bytes"} {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		p, err := pprof.Parse(f)
		f.Close()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if p.SampleType[len(p.SampleType)-1].Unit != unit {
			t.Errorf("%s counts %v, expected %s", name, p.SampleType, unit)
		}
		for _, s := range p.Sample {
			if name == cpuProfile && len(s.Label["step"]) > 0 && (len(s.Label["op"]) == 0 || len(s.Label["program"]) == 0 || s.Label["program"][0] == "") {
				t.Errorf("a sample has the labels %v", s.Label)
			}
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, execTrace)); err != nil || !strings.HasPrefix(string(b), "go 1.") || !strings.Contains(string(b), "blk.0/") {
		t.Errorf("%s: %v, begins with %.16q", execTrace, err, b)
	}
	file := write(t, "file", "")
	fails(t, exitFailed, []string{"embed", "-m", testmodels.Dir(t, "bert"), "a", "--pprof", filepath.Join(file, "in")}, "--pprof")
}
