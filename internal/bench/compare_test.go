package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
)

// The probabilities are scipy's, and where samples tie those of trying all
// ways to divide them.
func TestMannWhitney(t *testing.T) {
	data, err := os.ReadFile("testdata/mannwhitney.json")
	if err != nil {
		t.Fatal(err)
	}
	var tests []struct {
		X, Y []float64
		P    float64
		Ties bool
	}
	if err := json.Unmarshal(data, &tests); err != nil {
		t.Fatal(err)
	}
	for i, c := range tests {
		ch := compareOne(t, "ns/op", c.X, c.Y)
		if math.Abs(ch.P-c.P) > 1e-9+1e-6*c.P || ch.Holm != ch.P {
			t.Errorf("test %d (%d and %d samples, ties %v): p %v, corrected %v, expected %v", i, len(c.X), len(c.Y), c.Ties, ch.P, ch.Holm, c.P)
		}
	}
	if len(tests) < 10 {
		t.Errorf("only %d tests", len(tests))
	}
}

func compareOne(t *testing.T, unit string, before, after []float64) Change {
	t.Helper()
	c, err := Compare(dataOf(t, unit, before), dataOf(t, unit, after), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c.Changes[0]
}

func dataOf(t *testing.T, unit string, cases ...[]float64) *Data {
	t.Helper()
	r := NewReport(Machine{CPU: "a"})
	for i, samples := range cases {
		for _, v := range samples {
			if err := r.Emit(Sample{fmt.Sprintf("Case%d-1", i), 1, []Value{{v, unit}}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	var b strings.Builder
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	d, err := Read("made", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestVerdicts(t *testing.T) {
	low, high := []float64{10, 11, 12, 13, 14}, []float64{20, 21, 22, 23, 24}
	for _, c := range []struct {
		unit     string
		old, new []float64
		want     Verdict
		percent  float64
		worse    bool // by more than 3 %
	}{
		{"ns/op", low, high, Slower, 1000.0 / 12, true},
		{"ns/op", high, low, Faster, -1000.0 / 22, false},
		{"GFLOP/s", low, high, Faster, 1000.0 / 12, false},
		{"GFLOP/s", high, low, Slower, -1000.0 / 22, true},
		{"allocs/op", low, high, Worse, 1000.0 / 12, true},
		{"B/op", high, low, Better, -1000.0 / 22, false},
		{"apples", low, high, Changed, 1000.0 / 12, false},
		{"flops/op", []float64{5, 5}, []float64{5}, Same, 0, false},
		{"flops/op", []float64{5, 5}, []float64{6, 6}, Changed, 20, false},
		{"ns/op", low, []float64{10, 11, 12, 13, 15}, NoDifference, 0, false},
		{"ns/op", low, low[:1], TooFew, -1000.0 / 60, false},
		{"ns/op", []float64{100, 101, 102, 103, 104}, []float64{104.1, 104.2, 104.3, 104.4, 104.5}, Slower, 230.0 / 102, false},
		{"ns/op", []float64{-5, -5, -5, -5, -5}, []float64{-4, -4, -4, -4, -4}, Slower, 20, true},
	} {
		ch := compareOne(t, c.unit, c.old, c.new)
		if ch.Verdict != c.want || ch.Percent == nil || math.Abs(*ch.Percent-c.percent) > 1e-9 || ch.Worsened(3) != c.worse {
			t.Errorf("%s %v -> %v: %+v", c.unit, c.old, c.new, ch)
		}
	}
	zero := make([]float64, 5)
	if ch := compareOne(t, "allocs/op", zero, []float64{1, 1, 1, 1, 1}); ch.Verdict != Worse || ch.Percent != nil || !ch.Worsened(1e9) {
		t.Errorf("allocations where there were none: %+v", ch)
	}
	if ch := compareOne(t, "ns/op", []float64{5e-324, 5e-324, 5e-324, 5e-324}, []float64{1e308, 1e308, 1e308, 1e308}); ch.Percent != nil || !ch.Worsened(3) {
		t.Errorf("a change beyond all numbers: %+v", ch)
	}
}

// What is exact needs no statistics; whether it is worse only the report can say.
func TestExactWithDirection(t *testing.T) {
	for _, c := range []struct {
		better   string
		old, new int
		want     Verdict
	}{{"lower", 5, 6, Worse}, {"lower", 6, 5, Better}, {"higher", 5, 6, Better}, {"higher", 6, 5, Worse}, {"lower", 5, 5, Same}} {
		read := func(v int) *Data {
			d, err := Read("made", fmt.Appendf(nil, "Unit size/op better=%s assume=exact\nBenchmarkX 1 %d size/op\n", c.better, v))
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		got, err := Compare(read(c.old), read(c.new), nil)
		if err != nil {
			t.Fatal(err)
		}
		if ch := got.Changes[0]; ch.Verdict != c.want || len(got.Failures(3)) != map[bool]int{true: 1}[c.want == Worse] {
			t.Errorf("%s: %d -> %d: %+v, %d failures", c.better, c.old, c.new, ch, len(got.Failures(3)))
		}
	}
}

// A difference that one case shows is not one among many cases.
func TestManyCases(t *testing.T) {
	low, high := []float64{1, 2, 3, 4, 5}, []float64{6, 7, 8, 9, 10}
	same := [][]float64{low, low, low, low, low, low, low}
	before, after := dataOf(t, "ns/op", append(same, low)...), dataOf(t, "ns/op", append(same, high)...)
	c, err := Compare(before, after, nil)
	if err != nil {
		t.Fatal(err)
	}
	last := c.Changes[7]
	if last.Verdict != TooFew || math.Abs(last.Holm-8*last.P) > 1e-12 || len(c.Failures(3)) != 0 {
		t.Errorf("%+v", last)
	}
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "6 or more") {
		t.Errorf("warnings: %q", c.Warnings)
	}
	few, err := Compare(dataOf(t, "ns/op", low), dataOf(t, "ns/op", high), nil)
	if err != nil {
		t.Fatal(err)
	}
	if f := few.Failures(3); len(f) != 1 || !strings.Contains(f[0].String(), "Case0-1 ns/op 3 -> 8 (+166.7%, p=0.008)") {
		t.Errorf("failures: %+v", f)
	}
}

func TestCompareParts(t *testing.T) {
	read := func(text string) *Data {
		d, err := Read("made", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	before := read("cpu: a\nBenchmarkBoth-2 10 5 ns/op 7 GFLOP/s 1 extra\nBenchmarkGone 1 1 ns/op\nBenchmarkRate 1 5 tok/s\n")
	after := read("cpu: b\nBenchmarkBoth-2 10 6 ns/op 6 GFLOP/s\nBenchmarkCame 1 1 ns/op\nBenchmarkRate 1 5 tok/s\n")
	c, err := Compare(before, after, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := c.Print(&b); err != nil {
		t.Fatal(err)
	}
	got := b.String()
	for _, want := range []string{"Both-2  ns/op", "Rate    tok/s", "only in old: Gone", "only in new: Came", "2 too few samples"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "GFLOP/s") || len(c.Warnings) < 1 || !strings.Contains(c.Warnings[0], "cpu differs") {
		t.Errorf("%q\n%s", c.Warnings, got)
	}
	if c, err = Compare(before, after, regexp.MustCompile("^GFLOP/s$")); err != nil || len(c.Changes) != 1 || c.Changes[0].Unit != "GFLOP/s" {
		t.Errorf("asked for one unit: %+v, %v", c, err)
	}
	if _, err := Compare(before, after, regexp.MustCompile("^none$")); !errors.Is(err, ErrUnit) || !strings.Contains(err.Error(), "have the units ns/op, GFLOP/s, tok/s") {
		t.Errorf("a unit that is not there: %v", err)
	}
	if _, err := Compare(before, read("BenchmarkOther 1 1 ns/op\n"), nil); err == nil || errors.Is(err, ErrUnit) || !strings.Contains(err.Error(), "in common") {
		t.Errorf("nothing in common: %v", err)
	}
}

// The machine's ceilings are shown, fail nothing and take no other case's
// chances; alone they are nothing to judge.
func TestCeilingsAreNotJudged(t *testing.T) {
	report := func(ceiling, time int, names ...string) *Data {
		var b strings.Builder
		for i := range 5 {
			for _, name := range names {
				fmt.Fprintf(&b, "Benchmark%s 1 %d GFLOP/s\n", name, ceiling+i)
			}
			if time > 0 {
				fmt.Fprintf(&b, "BenchmarkX-1 1 %d ns/op 0 allocs/op\nBenchmarkRate-1 1 %d GFLOP/s\n", time+i, time+i)
			}
		}
		d, err := Read("made", []byte(b.String()))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	names := []string{"Ceiling/class=f32-1", "Ceiling/class=f32-2", "Ceiling/class=bf16-1", "Cases/Ceiling/class=f32/threads=1-2",
		"Ceiling/a-1", "Ceiling/b-1", "Ceiling/c-1"} // with the rate eight cases, for which five samples are too few
	c, err := Compare(report(200, 100, names...), report(100, 100, names...), nil)
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, ch := range c.Changes {
		if strings.Contains(ch.Name, "Ceiling") {
			shown++
			if ch.Verdict != NotJudged || ch.P > 0.01 {
				t.Errorf("%+v", ch)
			}
		} else if ch.Verdict != NoDifference {
			t.Errorf("%+v", ch)
		}
	}
	if shown != len(names) || len(c.Failures(3)) != 0 || c.Unjudged() != nil || len(c.Warnings) != 0 {
		t.Errorf("%d shown, %v, %v, %q", shown, c.Failures(3), c.Unjudged(), c.Warnings)
	}
	var b strings.Builder
	if err := c.Print(&b); err != nil || strings.Count(b.String(), "not judged") != len(names)+1 {
		t.Errorf("%v\n%s", err, b.String())
	}
	if c, err = Compare(report(200, 0, names...), report(100, 0, names...), nil); err != nil || c.Unjudged() == nil {
		t.Errorf("ceilings alone: %+v, %v", c, err)
	}
}

// As many samples as a test needs at least, however they are divided.
func TestTooFewSamples(t *testing.T) {
	for _, c := range []struct {
		old, new, tests int
		want            bool
	}{{1, 1, 1, false}, {3, 3, 1, false}, {4, 4, 1, true}, {1, 38, 1, false}, {1, 40, 1, true}, {5, 5, 8, false}, {6, 6, 8, true}, {1000, 1000, 1000, true}} {
		ch := Change{Old: Side{N: c.old}, New: Side{N: c.new}}
		if got := ch.canDiffer(c.tests); got != c.want {
			t.Errorf("%d and %d samples of %d tests: %v", c.old, c.new, c.tests, got)
		}
	}
}
