package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	pprof "github.com/google/pprof/profile"

	"hotpath/internal/testmodels"
	"hotpath/profile"
)

// --pprof leaves files that Go's tools read, whatever the command.
func TestGoProfiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	var texts strings.Builder
	for range 200 {
		texts.WriteString("a text that takes some time to embed, and another sentence behind it\n")
	}
	recording := filepath.Join(t.TempDir(), "run.json")
	r := hotpathWith(t, texts.String(), "embed", "-m", testmodels.Dir(t, "bert"), "-f", "-", "--format", "csv", "--pprof", dir, "--profile="+recording)
	if r.status != exitDone {
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
		if name == heapProfile {
			checkOwners(t, p, recording)
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

// --pprof alone has the owners of memory too, for training as well, and the tool that
// people type opens the file and names them.
func TestGoHeapNamesOwners(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command to run pprof with")
	}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"run", "-m", testmodels.Dir(t, "llama"), "-p", "some words", "--raw", "-n", "5", "--ignore-eos"}, []string{"weights, packed", "generate KV cache", "generate activations"}},
		{[]string{"train", write(t, "train.json", `{"steps":2,"batch_tokens":64,"seq_len":32}`), "--set", "model=" + testmodels.Dir(t, "llama"), "--set", "data=" + testmodels.Dir(t, "shakespeare.txt"), "--set", "out=" + filepath.Join(t.TempDir(), "out")},
			[]string{"train weights", "train moments", "train activations"}},
	} {
		dir := filepath.Join(t.TempDir(), "folder")
		ok(t, append(c.args, "--pprof", dir)...)
		cmd := exec.Command(goTool, "tool", "pprof", "-top", "-nodefraction=0", "-nodecount=1000", filepath.Join(dir, heapProfile))
		cmd.Env = append(os.Environ(), "PPROF_TMPDIR="+dir)
		out, err := cmd.Output()
		if err != nil || !strings.Contains(string(out), "Type: resident_space") {
			t.Fatalf("%s: pprof: %v\n%s", c.args[0], err, out)
		}
		for _, owner := range c.want {
			if !strings.Contains(string(out), owner) && runtime.GOOS == "linux" {
				t.Errorf("%s: pprof does not name %q:\n%s", c.args[0], owner, out)
			}
		}
	}
}

// checkOwners holds a heap profile against the owners of memory in a recording of the
// same run.
func checkOwners(t *testing.T, p *pprof.Profile, recording string) {
	t.Helper()
	rec, err := profile.ReadFile(recording)
	if err != nil {
		t.Fatal(err)
	}
	if rec.Resident == nil {
		t.Log("the system does not say what is resident")
		return
	}
	last := len(p.SampleType) - 1
	if p.DefaultSampleType != "resident_space" || p.SampleType[last].Type != p.DefaultSampleType {
		t.Fatalf("sample types %v, by default %s", p.SampleType, p.DefaultSampleType)
	}
	found := map[string]int64{}
	var sum, inUse int64
	for _, s := range p.Sample {
		sum += s.Value[last]
		inUse += s.Value[last-1]
		if len(s.Label["owner"]) > 0 {
			found[s.Label["owner"][0]] += s.Value[last]
			if name := s.Location[0].Line[0].Function.Name; name != s.Label["owner"][0] {
				t.Errorf("memory of %s has the function %s", s.Label["owner"][0], name)
			}
		}
	}
	if sum != rec.Resident.Bytes || inUse == 0 {
		t.Errorf("%d bytes are resident, expected %d; %d are in use on the Go heap", sum, rec.Resident.Bytes, inUse)
	}
	for _, o := range rec.Resident.Owners {
		if found[o.Owner] != o.Bytes {
			t.Errorf("%s has %d bytes, expected %d", o.Owner, found[o.Owner], o.Bytes)
		}
		delete(found, o.Owner)
	}
	if len(found) > 0 {
		t.Errorf("unexpected owners %v", found)
	}
}
