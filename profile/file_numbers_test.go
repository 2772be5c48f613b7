package profile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// leaf is one number of a file.
type leaf struct {
	path string // .plans[0].ledger.runs
	kind string // .plans[].ledger.runs
	set  func(json.Number)
	was  json.Number
}

var inBrackets = regexp.MustCompile(`\[\d+\]`)

// numbersIn lists the numbers of a file, and returns what encodes the file with the
// numbers that were set.
func numbersIn(t testing.TB, file []byte) (leaves []leaf, encoded func() []byte) {
	var root any
	d := json.NewDecoder(bytes.NewReader(file))
	d.UseNumber()
	if err := d.Decode(&root); err != nil {
		t.Fatal(err)
	}
	var walk func(path string, v any, set func(json.Number))
	walk = func(path string, v any, set func(json.Number)) {
		switch v := v.(type) {
		case json.Number:
			leaves = append(leaves, leaf{path, inBrackets.ReplaceAllString(path, "[]"), set, v})
		case map[string]any:
			for _, k := range slices.Sorted(maps.Keys(v)) {
				walk(path+"."+k, v[k], func(n json.Number) { v[k] = n })
			}
		case []any:
			for i := range v {
				walk(fmt.Sprintf("%s[%d]", path, i), v[i], func(n json.Number) { v[i] = n })
			}
		}
	}
	walk("", root, nil)
	return leaves, func() []byte {
		out, err := json.Marshal(root)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
}

// hostile is what numbers are set to: the first ones of each kind to all of it, the
// others to the first few.
var hostile = []json.Number{"-1", "9223372036854775807", "1000000000000000", "0", "1", "0.5", "-9223372036854775808", "1152921504606846976", "1e300", "1e-300", "-1e300"}

const (
	firstOfKind = 2
	fewHostile  = 3
)

// absurd is what no report contains, whatever the file.
var absurd = []string{"NaN", "+Inf", "-Inf", " Inf", "%!", "9223372036854775807", "9223372036854775808", "000000000000000000000000"}

// readAll reads a changed file by everything that reads profiles.
func readAll(t *testing.T, what string, p, base *Profile) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("%s: panic: %v", what, r)
		}
	}()
	if err := Readers.EachFormat(p); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	var b bytes.Buffer
	for name, write := range map[string]func(io.Writer) error{
		"show":           func(w io.Writer) error { return Readers.Text(w, p) },
		"compare before": func(w io.Writer) error { return Readers.Compare(w, p, base) },
		"compare after":  func(w io.Writer) error { return Readers.Compare(w, base, p) },
	} {
		b.Reset()
		if err := write(&b); err != nil {
			t.Errorf("%s: %s: %v", what, name, err)
		}
		for _, word := range absurd {
			if at := bytes.Index(b.Bytes(), []byte(word)); at >= 0 {
				t.Errorf("%s: %s says ...%q", what, name, b.Bytes()[max(0, at-80):min(b.Len(), at+40)])
			}
		}
	}
}

// A file is refused by the number that is wrong, or all readers can read it.
func TestEveryNumberOfAFile(t *testing.T) {
	skipWithRaceDetector(t)
	for name, p := range map[string]*Profile{"fixture": fixture(t), "filled": filled(t)} {
		leaves, encoded := numbersIn(t, encode(t, p))
		base, err := Read("base", encoded())
		if err != nil {
			t.Fatal(err)
		}
		kinds, seen := map[string]int{}, map[string]bool{}
		var accepted, refused int
		for _, l := range leaves {
			values := hostile
			if kinds[l.kind]++; kinds[l.kind] > firstOfKind {
				values = hostile[:fewHostile]
			}
			for _, n := range values {
				l.set(n)
				changed, err := Read("f.json", encoded())
				l.set(l.was)
				what := fmt.Sprintf("%s: %s = %s", name, l.path, n)
				if err != nil {
					refused++
					checkRefusal(t, what, l, n, err)
					continue
				}
				accepted++
				if outOfAnyRange(l.kind, n) {
					t.Errorf("%s is accepted", what)
				}
				// Numbers of one kind take the same way through all readers.
				if way := l.kind + string(n); !seen[way] {
					seen[way] = true
					readAll(t, what, changed, base)
				}
			}
		}
		t.Logf("%s: %d numbers, %d files are read and %d refused", name, len(leaves), accepted, refused)
		if accepted == 0 || refused < 2*len(leaves) {
			t.Errorf("%s: %d of %d files are refused", name, refused, accepted+refused)
		}
	}
}

// Sums overflow where each number alone is one that a recording can have: the numbers
// of one kind are large together, in a field or in all fields of a name.
func TestLargeNumbersTogether(t *testing.T) {
	skipWithRaceDetector(t)
	for name, p := range map[string]*Profile{"fixture": fixture(t), "filled": filled(t)} {
		leaves, encoded := numbersIn(t, encode(t, p))
		base, err := Read("base", encoded())
		if err != nil {
			t.Fatal(err)
		}
		groups := map[string][]leaf{}
		for _, l := range leaves {
			groups[l.kind] = append(groups[l.kind], l)
			groups["all "+fieldOf(l.kind)] = append(groups["all "+fieldOf(l.kind)], l)
		}
		for group, leaves := range groups {
			for _, n := range []json.Number{"0", "1152921504606846976", "9007199254740992", "1e30"} {
				for _, l := range leaves {
					l.set(n)
				}
				changed, err := Read("f.json", encoded())
				for _, l := range leaves {
					l.set(l.was)
				}
				if what := fmt.Sprintf("%s: %s = %s", name, group, n); err == nil {
					readAll(t, what, changed, base)
				} else {
					checkRefusal(t, what, leaves[0], "", err)
				}
			}
		}
	}
}

func skipWithRaceDetector(t *testing.T) {
	if raceDetector {
		t.Skip("only one goroutine reads files, and it is slow with the race detector")
	}
}

// checkRefusal: an error names the file, and the field if the number is wrong by
// itself, and what was expected.
func checkRefusal(t *testing.T, what string, l leaf, n json.Number, err error) {
	t.Helper()
	says := err.Error()
	if !errors.Is(err, ErrFormat) || !strings.HasPrefix(says, "f.json: ") {
		t.Errorf("%s: error %v is no ErrFormat of the file", what, err)
	}
	if !strings.Contains(says, "expected") && fieldOf(l.kind) != "version" {
		t.Errorf("%s: error %v does not say what was expected", what, err)
	}
	if n != "" && outOfAnyRange(l.kind, n) && !strings.Contains(says, fieldOf(l.kind)) && !inMap.MatchString(l.kind) {
		t.Errorf("%s: error %v does not name the field", what, err)
	}
}

// inMap matches numbers by a name of the file's own: an error may name the map.
var inMap = regexp.MustCompile(`(memory_bytes|used_by_class|class_flops_per_s)\.[^.]+$`)

// fieldOf is the last field of a path.
func fieldOf(kind string) string {
	kind = strings.TrimRight(kind, "[]")
	return kind[strings.LastIndex(kind, ".")+1:]
}

// mayBeNegative are the fields in which a number below 0 has a meaning, or was written
// by earlier builds, as in those of requests.
var mayBeNegative = regexp.MustCompile(`\.(requests\.parts\[\]\.time_ns|layer|last|parent|dispatch_ns|idle_ns|residual_ns|lost_ns|lost_low_ns|lost_high_ns|cache_ns|neighbour_ns|kernel_ns|peak|value|median_percent|interval95_percent\[\])$`)

// outOfAnyRange is true of numbers that no field of a kind can have.
func outOfAnyRange(kind string, n json.Number) bool {
	v, _ := n.Float64()
	return math.Abs(v) > 1e30 || v < -mostFloat || v < 0 && !mayBeNegative.MatchString(kind)
}

// Numbers that JSON does not have, and new fields, are refused too.
func TestNumbersOfNewFields(t *testing.T) {
	type nested struct {
		Value float64 `json:"value"`
		Many  []int64 `json:"many"`
	}
	for _, c := range []struct {
		value any
		want  string
	}{
		{nested{Value: math.NaN()}, ".value is NaN, expected 0 to 1e+30"},
		{nested{Value: math.Inf(1)}, ".value is +Inf, expected 0 to 1e+30"},
		{nested{Value: math.Inf(-1)}, ".value is -Inf, expected 0 to 1e+30"},
		{nested{Many: []int64{1, -1}}, ".many[1] is -1, expected 0 or more"},
		{map[string]*nested{"a": {Many: []int64{most + 1}}}, `["a"].many[0] is 1152921504606846977, expected at most 1152921504606846976`},
	} {
		at, err := numberWalk{}.check(reflect.ValueOf(c.value), nil)
		if err == nil || at+" "+err.Error() != c.want {
			t.Errorf("%+v: %s %v, expected %s", c.value, at, err, c.want)
		}
	}
}

// A number of a kind that the walk does not know would have no range.
func TestNumbersOfUnknownKinds(t *testing.T) {
	for _, v := range []any{struct{ N uint64 }{}, struct{ N []int32 }{[]int32{1}}, struct{ N float32 }{}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%T: its number is taken for none", v)
				}
			}()
			numberWalk{}.check(reflect.ValueOf(v), nil)
		}()
	}
}
