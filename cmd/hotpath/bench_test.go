package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotpath/internal/testmodels"
)

func TestBenchList(t *testing.T) {
	out := ok(t, "bench", "matmul", "norm", "--list", "--threads", "1", "--filter", "m=128/n=1536/|rows=16-")
	for _, want := range []string{
		"Matmul/class=f32/type=F32/kernel=panels/m=128/n=1536/k=384-1\n",
		"Matmul/class=i8g32/type=Q8_0/kernel=panels/m=128/n=1536/k=384-1\n",
		"Norm/kind=qk/steps=separate/heads=12/rows=16-1\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not listed in\n%s", want, out)
		}
	}
	if strings.Contains(out, "Rope") || strings.Contains(out, "-2\n") || strings.Contains(out, "rows=128") {
		t.Errorf("listed:\n%s", out)
	}
	if out := ok(t, "bench", "embed", "--list", "-m", testmodels.Dir(t, "bert")); !strings.Contains(out, "Embed/model=bert/precision=auto/batch=1/len=16-1\n") {
		t.Errorf("listed:\n%s", out)
	}
}

func TestBenchRun(t *testing.T) {
	args := []string{"bench", "rope", "--time", "1ms", "--count", "1", "--threads", "1", "--filter", "split/heads=3/.*len=16-"}
	out := ok(t, args...)
	for _, want := range []string{"goos: ", "goarch: ", "cpu: ", "tier: ", "threads: 1\n", "Unit tok/s better=higher\n", "Unit flops/op assume=exact\n",
		"\nBenchmarkRope/pairs=split/heads=3/dim=64/len=16-1\t", " ns/op\t", " GB/s\t", " %ceiling\t", " 0 allocs/op\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	var doc struct {
		Machine struct {
			CPU, Tier string
			Threads   int
		}
		Results []struct {
			Name, Unit string
			Samples    []float64
		}
	}
	if err := json.Unmarshal([]byte(ok(t, append(args, "--format", "json", "--count", "2")...)), &doc); err != nil {
		t.Fatal(err)
	}
	if first := doc.Results[0]; doc.Machine.Threads != 1 || doc.Machine.Tier == "" || first.Name != "Rope/pairs=split/heads=3/dim=64/len=16-1" || first.Unit != "ns/op" || len(first.Samples) != 2 {
		t.Errorf("%+v", doc)
	}
}

func TestBenchWrongUsage(t *testing.T) {
	for _, c := range []struct{ args, word string }{
		{"bench nothing", "matmul"},
		{"bench --count 0", "--count 0"},
		{"bench --time -1s", "--time"},
		{"bench --threads -1", "--threads"},
		{"bench --precision f64", "--precision"},
		{"bench --filter (", "--filter"},
		{"bench compare one", "accepts 2 arg"},
		{"bench compare a b --fail-above much", "--fail-above"},
		{"bench compare a b --fail-above -3%", "--fail-above"},
		{"bench compare a b --fail-above NaN", "--fail-above"},
		{"bench compare a b --unit (", "--unit"},
	} {
		fails(t, exitUsage, strings.Fields(c.args), c.word)
	}
	fails(t, exitFailed, []string{"bench", "rope", "--filter", "nothing"}, "no case")
	fails(t, exitFailed, []string{"bench", "-m", filepath.Join(t.TempDir(), "none")}, "none")
}

func TestBenchCompare(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, times ...string) string {
		path := filepath.Join(dir, name)
		var b strings.Builder
		for _, v := range times {
			b.WriteString("BenchmarkX-2 10 " + v + " ns/op 0 allocs/op\n")
		}
		if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	old := file("old.txt", "100", "101", "102", "103", "104")
	slow := file("slow.txt", "110", "111", "112", "113", "114")
	bad := filepath.Join(dir, "bad.txt")
	if err := os.WriteFile(bad, []byte("BenchmarkX 1 NaN ns/op\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := ok(t, "bench", "compare", old, slow); !strings.Contains(out, "+9.8%") || !strings.Contains(out, "slower") {
		t.Errorf("compared:\n%s", out)
	}
	ok(t, "bench", "compare", old, slow, "--fail-above", "10%")
	ok(t, "bench", "compare", slow, old, "--fail-above", "3%")
	ok(t, "bench", "compare", old, old, "--fail-above", "0")
	fails(t, exitFailed, []string{"bench", "compare", old, slow, "--fail-above", "3%"}, "worse by more than 3%: X-2 ns/op 102 -> 112 (+9.8%, p=0.008)")
	fails(t, exitFailed, []string{"bench", "compare", old, bad}, "bad.txt", "expected a number")
	fails(t, exitFailed, []string{"bench", "compare", old, filepath.Join(dir, "none")}, "none")
	// What cannot be judged is shown, and passes no gate.
	one, two := file("one.txt", "100"), file("two.txt", "200")
	if out := ok(t, "bench", "compare", one, two); !strings.Contains(out, "+100.0%") || !strings.Contains(out, "too few samples") || strings.Contains(out, "no difference") {
		t.Errorf("one sample a side:\n%s", out)
	}
	fails(t, exitFailed, []string{"bench", "compare", one, two, "--fail-above", "3%"}, "too few samples to judge: X-2 in ns/op has 1 and 1, expected 4 or more of each")
	fails(t, exitFailed, []string{"bench", "compare", old, slow, "--unit", "nothing"}, "--unit nothing: no such unit", "the units ns/op, allocs/op")
	var doc struct {
		Changes []struct {
			Name, Unit, Verdict string
			Percent, P          float64
			Old                 struct{ Median float64 }
		}
	}
	if err := json.Unmarshal([]byte(ok(t, "bench", "compare", old, slow, "--format", "json")), &doc); err != nil {
		t.Fatal(err)
	}
	if c := doc.Changes[0]; len(doc.Changes) != 2 || c.Name != "X-2" || c.Verdict != "slower" || c.Old.Median != 102 {
		t.Errorf("%+v", doc)
	}
}
