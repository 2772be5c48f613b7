package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"strconv"
	"strings"

	"hotpath/internal/kernel/isa"
)

// Machine is where and how a report was measured. What varies from run to run,
// such as the ceilings, is no part of it: benchstat compares only what was
// measured under the same of these.
type Machine struct {
	GOOS    string `json:"goos"`
	GOARCH  string `json:"goarch"`
	CPU     string `json:"cpu"`
	Tier    string `json:"tier"`
	Threads int    `json:"threads"`
	Go      string `json:"go"`
}

// Describe is this machine.
func Describe(threads int) Machine {
	host := isa.Host()
	if threads == 0 {
		threads = isa.Threads()
	}
	return Machine{runtime.GOOS, runtime.GOARCH, host.Brand, isa.Active().String(), threads, runtime.Version()}
}

// Unit says how the figures of a unit are to be read.
type Unit struct {
	Better string `json:"better,omitempty"` // higher or lower
	Assume string `json:"assume,omitempty"` // exact: equal in every sample
}

// units are those of our reports. Go's own tools know the others.
var units = []struct {
	name string
	Unit
}{
	{"tok/s", Unit{Better: "higher"}},
	{"GFLOP/s", Unit{Better: "higher"}},
	{"GB/s", Unit{Better: "higher"}},
	{"%ceiling", Unit{Better: "higher"}},
	{"flops/op", Unit{Assume: "exact"}},
	{"bytes/op", Unit{Assume: "exact"}},
}

// Text writes samples as they come, in Go's benchmark format.
type Text struct{ w io.Writer }

// NewText writes the head of a report.
func NewText(w io.Writer, m Machine) (*Text, error) {
	var b strings.Builder
	for _, line := range [][2]string{
		{"goos", m.GOOS}, {"goarch", m.GOARCH}, {"cpu", m.CPU}, {"tier", m.Tier},
		{"threads", strconv.Itoa(m.Threads)}, {"go", m.Go},
	} {
		if line[1] != "" {
			fmt.Fprintf(&b, "%s: %s\n", line[0], line[1])
		}
	}
	for _, u := range units {
		if u.Better != "" {
			fmt.Fprintf(&b, "Unit %s better=%s\n", u.name, u.Better)
		}
		if u.Assume != "" {
			fmt.Fprintf(&b, "Unit %s assume=%s\n", u.name, u.Assume)
		}
	}
	_, err := io.WriteString(w, b.String())
	return &Text{w}, err
}

// Emit writes one line.
func (t *Text) Emit(s Sample) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Benchmark%s\t%8d", s.Name, s.Iters)
	for _, v := range s.Values {
		fmt.Fprintf(&b, "\t%12s %s", plain(v.Value), v.Unit)
	}
	b.WriteByte('\n')
	_, err := io.WriteString(t.w, b.String())
	return err
}

// plain writes a figure with five significant digits, and whole numbers whole.
func plain(v float64) string {
	if v == math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	digits := 4 - int(math.Floor(math.Log10(math.Abs(v))))
	return strconv.FormatFloat(v, 'f', max(0, digits), 64)
}

// Series is all samples of a case in one unit.
type Series struct {
	Name    string    `json:"name"`
	Unit    string    `json:"unit"`
	Samples []float64 `json:"samples"`
}

// Report is a measurement as one document.
type Report struct {
	Machine Machine         `json:"machine"`
	Units   map[string]Unit `json:"units"`
	Results []Series        `json:"results"`
	index   map[[2]string]int
}

// NewReport makes an empty report.
func NewReport(m Machine) *Report {
	r := &Report{Machine: m, Units: map[string]Unit{}, Results: []Series{}, index: map[[2]string]int{}}
	for _, u := range units {
		r.Units[u.name] = u.Unit
	}
	return r
}

// Emit adds a sample.
func (r *Report) Emit(s Sample) error {
	for _, v := range s.Values {
		key := [2]string{s.Name, v.Unit}
		i, ok := r.index[key]
		if !ok {
			i = len(r.Results)
			r.index[key] = i
			r.Results = append(r.Results, Series{Name: s.Name, Unit: v.Unit})
		}
		r.Results[i].Samples = append(r.Results[i].Samples, v.Value)
	}
	return nil
}

// Write encodes the report.
func (r *Report) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(r)
}
