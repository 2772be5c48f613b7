package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"hotpath/internal/atomicfile"
)

// Report is one run of peerbench.
type Report struct {
	Date    string    `json:"date"`
	CPU     string    `json:"cpu"`
	System  string    `json:"system"`
	Cores   string    `json:"cores"`
	Threads int       `json:"threads"`
	Rounds  int       `json:"rounds"`
	Hotpath string    `json:"hotpath"` // commit
	Groups  []*Result `json:"groups"`
	// Topology is the machine's sockets, cores and threads.
	Topology string `json:"topology,omitempty"`
}

// line is a row with its group and machine.
type line struct {
	Date     string `json:"date"`
	CPU      string `json:"cpu"`
	Topology string `json:"topology,omitempty"`
	Hotpath  string `json:"hotpath"`
	Group    string `json:"group"`
	*Row
}

// json is the report, or one line per row.
func (r *Report) json(lines bool) ([]byte, error) {
	if !lines {
		data, err := json.MarshalIndent(r, "", " ")
		return append(data, '\n'), err
	}
	var out bytes.Buffer
	to := json.NewEncoder(&out)
	for _, g := range r.Groups {
		for _, row := range g.Rows {
			if err := to.Encode(line{r.Date, r.CPU, r.Topology, r.Hotpath, g.Name, row}); err != nil {
				return nil, err
			}
		}
	}
	return out.Bytes(), nil
}

// Result is a measured group.
type Result struct {
	Name     string   `json:"name"`
	Title    string   `json:"title"`
	Note     string   `json:"note,omitempty"`
	Lead     string   `json:"lead,omitempty"`
	Versions []string `json:"versions"`
	Rows     []*Row   `json:"rows"`
	Idle     []Idle   `json:"idle"`
	Curve    *Curve   `json:"curve,omitempty"`
}

// Row is one engine at one work.
type Row struct {
	Work      string    `json:"work"`
	Runner    string    `json:"runner"`
	Unit      string    `json:"unit"`
	Samples   []float64 `json:"samples"` // one a round, or a turn of paired runners
	Median    float64   `json:"median"`
	Q1        float64   `json:"q1"`
	Q3        float64   `json:"q3"`
	CallMS    float64   `json:"call_ms,omitempty"` // one call at the median rate
	Agreement string    `json:"agreement,omitempty"`
	Problem   string    `json:"problem,omitempty"` // why it is not measured
	Ratio     *Ratio    `json:"ratio,omitempty"`
	Ran       ran       `json:"ran"`            // of ways
	Gain      []float64 `json:"gain,omitempty"` // in place of samples: what a runner gained on its base

	tokens int
	ours   bool
	ends   []int // samples there were at the end of each round
}

// Idle is the share of one core that an engine used while another worked.
type Idle struct {
	Runner string  `json:"runner"`
	Share  float64 `json:"share"`
}

// fewest rounds say something about how sure a ratio is; draws from fewer only
// repeat them.
const fewest = 5

// idleLimit is what may go to an engine that should sleep.
const idleLimit = 0.02

func newRow(w Work, r Runner, err error) *Row {
	row := &Row{Work: w.Name, Runner: r.Name, Unit: r.Unit, tokens: w.tokens(), ours: r.Argv[0] == selfPath && !r.Peer}
	if row.Unit == "" {
		row.Unit = "tok/s"
	}
	if err != nil {
		row.Problem = err.Error()
	}
	return row
}

// addAnswer takes a turn: the median of its repetitions is one sample.
func (r *Row) addAnswer(a answer) error {
	if len(a.Seconds) == 0 || len(a.Seconds) != len(a.Amount) {
		return fmt.Errorf("%d times and %d amounts, expected as many of each", len(a.Seconds), len(a.Amount))
	}
	rates := make([]float64, len(a.Seconds))
	for i, s := range a.Seconds {
		if !(s > 0) {
			return fmt.Errorf("a time of %v s", s)
		}
		rates[i] = a.Amount[i] / s
	}
	r.Samples = append(r.Samples, quantile(rates, 0.5))
	r.ends = append(r.ends, len(r.Samples))
	return nil
}

func (g *Result) addVersion(h hello) {
	if v := strings.TrimSpace(h.Peer + " " + h.Version); h.Peer != "hotpath" && !slices.Contains(g.Versions, v) {
		g.Versions = append(g.Versions, v)
	}
}

// finish computes what is shown from the samples.
func (g *Result) finish(group Group) {
	find := func(work, runner string) *Row {
		for _, r := range g.Rows {
			if r.Work == work && r.Runner == runner && len(r.Samples) > 0 {
				return r
			}
		}
		return nil
	}
	for _, r := range g.Rows {
		if len(r.Samples) == 0 {
			continue
		}
		s := slices.Clone(r.Samples)
		r.Q1, r.Median, r.Q3 = quantile(s, 0.25), quantile(s, 0.5), quantile(s, 0.75)
		if r.Unit == "tok/s" || r.Unit == "per s" {
			r.CallMS = 1000 * float64(r.tokens) / r.Median
		}
		num, den := find(r.Work, group.Lead), r
		if base := group.base(r.Runner); base != "" {
			num, den = r, find(r.Work, base)
		}
		if num != nil && den != nil && num != den {
			q := ratio(num.Samples, den.Samples)
			if group.Paired {
				q = paired(num.Samples, den.Samples, num.ends)
			}
			q.Of, q.Over = num.Runner, den.Runner
			r.Ratio = &q
		}
	}
	for _, w := range group.Works {
		for _, gain := range group.Gains {
			var of [4]*Row
			for i, name := range []string{gain.Of, group.base(gain.Of), gain.Over, group.base(gain.Over)} {
				of[i] = find(w.Name, name)
			}
			row := &Row{Work: w.Name, Runner: gain.Name, ours: true}
			if slices.Contains(of[:], nil) {
				row.Problem = "a row that it needs was not"
			} else {
				row.Gain, row.ends = gainOf(of[0].Samples, of[1].Samples), of[0].ends
				q := paired(row.Gain, gainOf(of[2].Samples, of[3].Samples), row.ends)
				q.Of, q.Over = gain.Of, gain.Over
				row.Ratio = &q
			}
			g.Rows = append(g.Rows, row)
		}
	}
}

func (g Group) base(runner string) string {
	for _, r := range g.Runners {
		if r.Name == runner {
			return r.Base
		}
	}
	return ""
}

// failure is what went wrong with hotpath itself.
func (g *Result) failure() error {
	var errs []error
	for _, r := range g.Rows {
		if r.ours && r.Problem != "" {
			errs = append(errs, fmt.Errorf("%s, %s, %s: %s", g.Name, r.Work, r.Runner, r.Problem))
		}
	}
	return errors.Join(errs...)
}

// table is the group as cells, its head first.
func (g *Result) table() [][]string {
	if g.Curve != nil {
		return g.curve()
	}
	last := g.Lead + " is"
	if g.Lead == "" {
		last = "gain"
	}
	out := [][]string{{"work", "engine", "median", "middle half", "one call", "against f32", last}}
	for i, r := range g.Rows {
		work := r.Work
		if i > 0 && g.Rows[i-1].Work == work {
			work = ""
		}
		if len(r.Samples)+len(r.Gain) == 0 {
			out = append(out, []string{work, r.Runner, "not measured: " + r.Problem, "", "", "", ""})
			continue
		}
		call, q := "", ""
		if r.Runner == g.Lead {
			q = r.Ran.String()
		}
		if r.CallMS > 0 {
			call = rateText(r.CallMS) + " ms"
		}
		if r.Ratio != nil {
			q = r.ratioText()
		}
		if r.Gain != nil {
			out = append(out, []string{work, r.Runner, "", "", "", "", q})
			continue
		}
		out = append(out, []string{work, r.Runner, rateText(r.Median) + " " + r.Unit, rateText(r.Q1) + " to " + rateText(r.Q3), call, r.Agreement, q})
	}
	return out
}

// ratioText is the row's ratio, with its interval if there were rounds enough.
func (r *Row) ratioText() string {
	if r.Ratio == nil {
		return ""
	}
	q := fmt.Sprintf("%.2fx", r.Ratio.Value)
	if len(r.ends) >= fewest {
		q += fmt.Sprintf(" (%.2f to %.2f)", r.Ratio.Low, r.Ratio.High)
	}
	return q
}

// rateText has three digits or whole numbers.
func rateText(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// machine says where and with what a group was measured.
func (r *Report) machine(g *Result) string {
	cpu := r.CPU
	if g.Curve != nil && r.Topology != "" {
		cpu += " (" + r.Topology + ")"
	}
	engines := append([]string{strings.TrimSpace("hotpath " + r.Hotpath)}, g.Versions...)
	return fmt.Sprintf("%s: %s, %s, threads: %d, on cores %s, rounds: %d; %s.",
		r.Date, cpu, r.System, r.Threads, r.Cores, r.Rounds, strings.Join(engines, ", "))
}

func (g *Result) restless() []string {
	var out []string
	for _, i := range g.Idle {
		if i.Share > idleLimit {
			out = append(out, fmt.Sprintf("%s used %.1f %% of a core while others worked", i.Runner, 100*i.Share))
		}
	}
	return out
}

// text is a group for a terminal.
func (r *Report) text(g *Result) string {
	rows := g.table()
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		if strings.HasPrefix(row[2], "not measured") {
			continue
		}
		for i, cell := range row {
			width[i] = max(width[i], len(cell))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n== %s\n", g.Title)
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			line += fmt.Sprintf("%-*s  ", width[i], cell)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	b.WriteString(r.machine(g) + "\n")
	for _, s := range g.restless() {
		b.WriteString("warning: " + s + "\n")
	}
	return b.String()
}

// markdown is a group for the documentation.
func (r *Report) markdown(g *Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n", g.Title)
	if g.Note != "" {
		b.WriteString(g.Note + "\n\n")
	}
	for i, row := range g.table() {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString("|" + strings.Repeat("---|", len(row)) + "\n")
		}
	}
	b.WriteString("\n" + r.machine(g) + "\n")
	for _, s := range g.restless() {
		b.WriteString("Warning: " + s + ".\n")
	}
	return b.String()
}

// writeDocs replaces what stands between a group's markers.
func (r *Report) writeDocs(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text := string(data)
	for _, g := range r.Groups {
		if text, err = between(text, g.Name, r.markdown(g)); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return atomicfile.WriteFile(path, []byte(text))
}

func between(text, name, body string) (string, error) {
	begin, end := "<!-- peers:"+name+" -->\n", "<!-- /peers:"+name+" -->"
	before, rest, ok := strings.Cut(text, begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("the page has no %s before %s", strings.TrimSpace(begin), end)
	}
	return before + begin + body + end + after, nil
}
