package bench

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

var someSamples = []Sample{
	{"Rope/heads=9/len=16-1", 1000, []Value{{1234.5, "ns/op"}, {2.5, "GFLOP/s"}, {512, "flops/op"}, {0, "allocs/op"}}},
	{"Embed/model=a/len=16-2", 10, []Value{{9876543, "ns/op"}, {1234.5, "tok/s"}}},
	{"Rope/heads=9/len=16-1", 1001, []Value{{1233.5, "ns/op"}, {2.6, "GFLOP/s"}, {512, "flops/op"}, {1, "allocs/op"}}},
}

// What was written as text and as JSON reads as the same data.
func TestRoundTrip(t *testing.T) {
	m := Machine{"linux", "amd64", "Some CPU @ 2 GHz", "avx2", 2, "go1.26"}
	var text, doc strings.Builder
	lines, err := NewText(&text, m)
	if err != nil {
		t.Fatal(err)
	}
	report := NewReport(m)
	for _, s := range someSamples {
		if err := errors.Join(lines.Emit(s), report.Emit(s)); err != nil {
			t.Fatal(err)
		}
	}
	if err := report.Write(&doc); err != nil {
		t.Fatal(err)
	}
	a, err := Read("text", []byte(text.String()))
	if err != nil {
		t.Fatalf("%v\n%s", err, text.String())
	}
	b, err := Read("json", []byte(doc.String()))
	if err != nil {
		t.Fatalf("%v\n%s", err, doc.String())
	}
	a.File = b.File
	if !reflect.DeepEqual(a, b) {
		t.Errorf("text reads as\n%+v\nJSON as\n%+v", a, b)
	}
	want := Series{"Rope/heads=9/len=16-1", "ns/op", []float64{1234.5, 1233.5}}
	if !reflect.DeepEqual(a.Series[0], want) || a.Machine["cpu"] != m.CPU || a.Machine["threads"] != "2" || a.Units["tok/s"].Better != "higher" {
		t.Errorf("read %+v", a)
	}
}

// Packages of go test have cases of the same name.
func TestReadGoTest(t *testing.T) {
	d, err := Read("go test", []byte("goos: linux\npkg: a/x\nBenchmarkRun-2 10 5.0 ns/op 3 MB/s\nPASS\npkg: a/y\nBenchmarkRun-2 10 7 ns/op 0 B/op\nok a/y 1s\n"))
	if err != nil {
		t.Fatal(err)
	}
	if x, y := d.series("a/x.Run-2", "ns/op"), d.series("a/y.Run-2", "ns/op"); x == nil || y == nil || x.Samples[0] != 5 || y.Samples[0] != 7 || d.series("a/x.Run-2", "MB/s") == nil {
		t.Errorf("%+v", d.Series)
	}
}

func TestReadHostile(t *testing.T) {
	for _, c := range []struct{ data, word string }{
		{"", "no results"},
		{"hello\n", "no results"},
		{"BenchmarkX\n", "no results"},
		{"\nBenchmarkX 5\n", "line 2: missing measurements"},
		{"BenchmarkX many 5 ns/op\n", "iteration count"},
		{"BenchmarkX 1 five ns/op\n", "measurement"},
		{"BenchmarkX 1 5\n", "missing units"},
		{"BenchmarkX 1 NaN ns/op\n", "expected a number"},
		{"BenchmarkX 1 +Inf ns/op\n", "expected a number"},
		{"BenchmarkX 1 1e999 ns/op\n", "measurement"},
		{"BenchmarkX\x1b[31m 1 5 ns/op\n", "printable"},
		{"BenchmarkX\xff 1 5 ns/op\n", "printable"},
		{"BenchmarkX 1 5 n\x07s\n", "printable"},
		{"Unit ns/op better=higher\nUnit ns/op better=lower\nBenchmarkX 1 1 ns/op\n", "already set"},
		{"BenchmarkX 1 5 " + strings.Repeat("y", 1<<17), "too long"},
		{"{", "unexpected EOF"},
		{"{}", "no results"},
		{`{"results":[{"name":"a","unit":"s","samples":[]}]}`, "results[0].samples is empty"},
		{`{"results":[{"name":"","unit":"s","samples":[1]}]}`, "results[0]: name"},
		{`{"results":[{"name":"a","unit":"a b","samples":[1]}]}`, "unit"},
		{`{"results":[{"name":"a","unit":"s","samples":["x"]}]}`, "string"},
		{`{"results":[{"name":"a","unit":"s","samples":[1e999]}]}`, "1e999"},
		{`{"results":[{"name":"a","unit":"s","samples":[1]},{"name":"a","unit":"s","samples":[1]}]}`, "results[1] repeats a in s"},
		{`{"results":[{"name":"a","unit":"s","samples":[1]}]} {}`, "more text after"},
		{`{"results":7}`, "number"},
		{strings.Repeat("x", maxFile+1), "more than"},
	} {
		_, err := Read("bad.txt", []byte(c.data))
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.word) || !strings.HasPrefix(err.Error(), "bad.txt: ") {
			t.Errorf("%.60q: %v, expected %q", c.data, err, c.word)
		}
	}
}

// No input makes the reader or the comparison panic, and what is read can be
// compared with itself: nothing changed.
func FuzzRead(f *testing.F) {
	f.Add([]byte("goos: linux\nUnit tok/s better=higher\nBenchmarkX/a=1-2 10 5 ns/op 7 tok/s\nBenchmarkX/a=1-2 10 6 ns/op 7 tok/s\n"))
	f.Add([]byte(`{"machine":{"cpu":"a"},"units":{"x":{"assume":"exact"}},"results":[{"name":"a","unit":"x","samples":[1,2,2]},{"name":"b","unit":"ns/op","samples":[1e308,-1e308]}]}`))
	f.Add([]byte("BenchmarkX 1 1e308 ns/op\nBenchmarkX 1 -1e308 ns/op\nBenchmarkX 1 0 ns/op\n"))
	f.Add([]byte("pkg: a\nBenchmarkX 1 1 a 2 b 3 c\npkg:\nBenchmarkX 1 1 a\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := Read("fuzzed", data)
		if err != nil {
			if d != nil || strings.TrimSpace(err.Error()) == "" {
				t.Fatalf("%v with data", err)
			}
			return
		}
		c, err := Compare(d, d, nil)
		if err != nil {
			return
		}
		if len(c.Failures(0)) != 0 {
			t.Fatalf("a report got worse than itself: %+v", c.Changes)
		}
		var b strings.Builder
		if err := c.Print(&b); err != nil {
			t.Fatal(err)
		}
	})
}
