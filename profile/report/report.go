// Package report prints profiles for people: as text, as Markdown, and steps as CSV.
//
// It imports package profile and is imported by compare and export.
package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"hotpath/internal/term"
	"hotpath/profile"
	"hotpath/profile/internal/table"
)

// Options shapes a report. The zero value is a good one.
type Options struct {
	Top   int        // steps listed: 15; negative lists all
	By    profile.By // ranking of the steps: ByTime
	Color bool       // ANSI colours, for terminals
}

// Text writes the report for people.
func Text(w io.Writer, p *profile.Profile, o Options) error {
	for _, t := range report(p, o) {
		if err := t.Text(w, o.Color); err != nil {
			return err
		}
	}
	return nil
}

// Markdown writes the same report as Markdown.
func Markdown(w io.Writer, p *profile.Profile, o Options) error {
	if _, err := fmt.Fprintf(w, "# Profile of %s\n\n", table.MarkdownEscape.Replace(term.Printable(profile.Subject(p)))); err != nil {
		return err
	}
	for _, t := range report(p, o) {
		if err := t.Markdown(w); err != nil {
			return err
		}
	}
	return nil
}

// sections is the report from top to bottom. A section that has nothing to
// say gives no rows and is left out.
var sections = []func(*profile.Profile, Options) table.Table{
	FactsTable, processTable, plansTable, ledgerTable, transfersTable, deviceMemoryTable, processorTable, probesTable, lostTable, stepsTable, treeTable, stagesTable, layersTable, opsTable, kernelsTable,
	scopesTable, requestsTable, partsTable, countersTable, residentTable, memoryTable, peakTable, heapTable, canaryTable, warningsTable,
}

func report(p *profile.Profile, o Options) []table.Table {
	if o.Top == 0 {
		o.Top = 15
	}
	o.By = cmp.Or(o.By, profile.ByTime)
	var out []table.Table
	for _, section := range sections {
		if t := section(p, o); len(t.Rows) > 0 {
			out = append(out, t)
		}
	}
	return out
}

func FactsTable(p *profile.Profile, _ Options) table.Table {
	t := table.Table{Title: "hotpath profile", Note: p.Created.UTC().Format("2006-01-02 15:04:05 UTC"), Cols: []table.Col{table.Left(""), table.Left("")}}
	f := &p.Facts
	params := ""
	if f.Params > 0 {
		params = table.Si(float64(f.Params)) + " parameters"
	}
	t.Add(table.Strong, "model", table.Join(profile.Subject(p), params, f.Precision, f.Device))
	t.Add(table.Plain, "machine", table.Join(f.CPU, f.Tier, table.Count(f.Cores, "core"), table.Count(f.Threads, "thread"), table.Join(f.OS, f.Arch), f.Go))
	for _, backend := range slices.Sorted(maps.Keys(p.Ceilings)) {
		c := p.Ceilings[backend]
		if c.Source == profile.SampledSource {
			continue // they have a table
		}
		parts := []string{backend, table.Si(c.FLOPs) + "FLOP/s", table.Si(c.Bytes) + "B/s"}
		for _, class := range slices.Sorted(maps.Keys(c.Class)) {
			parts = append(parts, class+" "+table.Si(c.Class[class])+"FLOP/s")
		}
		t.Add(table.Plain, "ceilings", table.Join(append(parts, c.Source)...))
		if one := c.One; one != nil && p.OnFewerLanes(c.Lanes) {
			parts := []string{table.Si(one.FLOPs) + "FLOP/s", table.Si(one.Bytes) + "B/s"}
			for _, class := range slices.Sorted(maps.Keys(one.Class)) {
				parts = append(parts, class+" "+table.Si(one.Class[class])+"FLOP/s")
			}
			t.Add(table.Plain, "one lane", table.Join(parts...))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(f.Extra)) {
		t.Add(table.Plain, key, f.Extra[key])
	}
	if o := p.Overhead; o != nil {
		t.Add(table.Plain, "recording", o.String())
	}
	return t
}

func plansTable(p *profile.Profile, _ Options) table.Table {
	t := table.Table{Title: "plans", Note: "cold is the first run; ms is of one run; tok/s and us/token are of all that were in flight at once",
		Cols: []table.Col{table.Left("plan"), table.Left("phase"), table.Left("device"), table.Right("lanes"), table.Right("at once"), table.Right("runs"), table.Right("tokens"),
			table.Right("tok/s"), table.Right("cold ms"), table.Right("ms/run"), table.Right("p50"), table.Right("p95"), table.Right("p99"), table.Right("us/token")}}
	var tokens int64
	for i := range p.Plans {
		s := &p.Plans[i]
		if s.Ledger.Runs == 0 {
			continue
		}
		perToken := ""
		if s.Tokens > 0 {
			perToken = fmt.Sprintf("%.2f", float64(s.Elapsed)/float64(s.Tokens)/1e3)
		}
		t.Add(table.Plain, cmp.Or(s.Name, s.ID), s.Phase, s.DeviceName(), strconv.Itoa(len(s.Lanes)), fmt.Sprintf("%.1f", s.AtOnce()), table.Integer(s.Ledger.Runs), table.Integer(s.Tokens),
			fmt.Sprintf("%.0f", s.TokensPerSecond()), table.Ms(s.First), table.Ms(s.Run.Mean), table.Ms(s.Run.P50), table.Ms(s.Run.P95), table.Ms(s.Run.P99), perToken)
		tokens += s.Tokens
	}
	if len(t.Rows) > 1 && tokens > 0 {
		t.Add(table.Strong, "total", "", "", "", "", table.Integer(p.Ledger.Runs), table.Integer(tokens), fmt.Sprintf("%.0f", table.PerTime(tokens, p.Elapsed)*1e9),
			"", "", "", "", "", fmt.Sprintf("%.2f", table.PerTime(p.Elapsed, tokens)/1e3))
	}
	return t
}

func ledgerTable(p *profile.Profile, _ Options) table.Table {
	t := table.Table{Title: "ledger", Note: "wall x lanes = compute + barrier + dispatch + idle + residual; gc lies within them",
		Cols: []table.Col{table.Left(""), table.Right("runs"), table.Right("wall ms"), table.Right("lane ms"), table.Right("compute %")}}
	offCPU := p.Ledger.OffCPU > 0 // an engine may not know it
	if offCPU {
		t.Note = strings.Replace(t.Note, "= compute +", "= compute + no cpu +", 1) + "; no cpu: in steps whose thread had no processor"
		t.Cols = append(t.Cols, table.Right("no cpu %"))
	}
	t.Cols = append(t.Cols, table.Right("barrier %"), table.Right("dispatch %"), table.Right("idle %"), table.Right("residual %"), table.Right("gc %"))
	if p.Elapsed < p.Ledger.Wall {
		t.Note += fmt.Sprintf("; wall adds up runs side by side, %s ms on the clock", table.Ms(p.Elapsed))
	}
	if len(p.Rounds) > 0 {
		t.Note += "; no run: workers before and between their runs (dispatch), and after their last (idle)"
	}
	row := func(m table.Mark, name string, l profile.Ledger) {
		if r := l.ResidualPercent(); r > 1 || r < 0 {
			m = table.Warn
		}
		cells := []string{name, table.Integer(l.Runs), table.Ms(l.Wall), table.Ms(l.LaneTime)}
		if l.Runs == 0 {
			cells[1], cells[2] = "", ""
		}
		parts := []int64{l.Compute - l.OffCompute}
		if offCPU {
			parts = append(parts, l.OffCompute)
		}
		for _, part := range append(parts, l.Barrier, l.Dispatch, l.Idle, l.Residual, l.GC) {
			cells = append(cells, fmt.Sprintf("%.2f", table.Percent(part, l.LaneTime)))
		}
		t.Add(m, cells...)
	}
	for i := range p.Plans {
		s := &p.Plans[i]
		if s.Ledger.Runs == 0 {
			continue
		}
		row(table.Plain, strings.TrimSpace(cmp.Or(s.Name, s.ID)+" "+s.Phase), s.Ledger)
		if len(s.ByLane) == 1 {
			continue // the same again, of whichever worker ran
		}
		for _, l := range s.ByLane {
			row(table.Plain, "  "+l.Lane, l.Ledger)
		}
	}
	for i := range p.Rounds {
		r := &p.Rounds[i]
		row(table.Plain, r.Name+", no run", r.Outside())
		for k := range r.ByWorker {
			row(table.Plain, "  "+r.ByWorker[k].Worker, r.ByWorker[k].Outside())
		}
	}
	if len(p.Plans) > 0 {
		row(table.Strong, "total", p.Ledger)
	}
	return t
}

// fusedNote is the note of tables that show the parts of a fused step separately.
const fusedNote = "a fused step is divided by FLOPs"

// aboveNote explains what looks like a mistake and is none.
const aboveNote = "above 100 %, and lost below 0: from caches, which are faster than the memory that the ceiling is of"

func groupTable(p *profile.Profile, title, note, first string, groups []profile.Group) table.Table {
	if slices.ContainsFunc(groups, func(g profile.Group) bool { return g.Lost < 0 }) {
		note = strings.TrimPrefix(note+"; "+aboveNote, "; ")
	}
	t := table.Table{Title: title, Note: note, Cols: []table.Col{table.Left(first), table.Right("steps"), table.Right("ms"), table.Right("%"), table.Right("GFLOP/s"), table.Right("GB/s"), table.Right("roofline %"), table.Right("lost ms")}}
	for _, g := range groups {
		// Steps without a ceiling have neither floor nor loss and stay out of
		// the group's place on the roofline.
		t.Add(table.Plain, g.Name, strconv.Itoa(g.Steps), table.Ms(g.Self), fmt.Sprintf("%.2f", table.Percent(g.LaneTime, p.Ledger.LaneTime)),
			table.Rate(table.PerTime(g.FLOPs, g.Clock)), table.Rate(table.PerTime(g.Bytes, g.Clock)), roof(g.Floor, g.Floor+g.Lost), lost(g.Floor, g.Lost))
	}
	return t
}

func layersTable(p *profile.Profile, _ Options) table.Table {
	return groupTable(p, "by layer", "", "layer", p.ByLayer())
}

// stagesTable is a training step from data to optimizer.
func stagesTable(p *profile.Profile, _ Options) table.Table {
	groups := p.ByStage()
	t := groupTable(p, "by stage", "of training; data is the time in which the step waits for a batch, and steps counts calls from there on; step is all of its runs, and epoch all of its steps, evaluations and samples", "stage", groups)
	if len(groups) == 0 {
		return t
	}
	for _, stage := range []struct {
		name   string
		scopes []string
		m      table.Mark
	}{{"data", []string{profile.DataScope, profile.OldDataScope}, table.Plain}, {"checkpoint", []string{"checkpoint"}, table.Plain}, {"step", []string{"step"}, table.Strong}, {"epoch", []string{"epoch"}, table.Strong}} {
		var total, calls int64
		for _, name := range stage.scopes {
			for _, s := range p.ScopesByName(name) {
				total, calls = total+s.Total, calls+s.Calls
			}
		}
		if calls > 0 {
			t.Add(stage.m, stage.name, table.Integer(calls), table.Ms(total), fmt.Sprintf("%.2f", table.Percent(total, p.Ledger.Wall)), "", "", "", "")
		}
	}
	return t
}

func opsTable(p *profile.Profile, _ Options) table.Table {
	return groupTable(p, "by op", fusedNote, "op", p.ByOp())
}

func kernelsTable(p *profile.Profile, _ Options) table.Table {
	return groupTable(p, "by kernel", "", "kernel", p.ByKernel())
}

func scopesTable(p *profile.Profile, _ Options) table.Table {
	t := table.Table{Title: "scopes", Note: "self is the time in which no inner scope was open",
		Cols: []table.Col{table.Left("scope"), table.Right("calls"), table.Right("total ms"), table.Right("self ms"), table.Right("min"), table.Right("mean"), table.Right("p50"), table.Right("p95"), table.Right("p99"), table.Right("max"), table.Right("open")}}
	p.EachScope(func(s *profile.ScopeStats, depth int) {
		open := ""
		if s.Open > 0 {
			open = table.Integer(s.Open)
		}
		c := &s.Call
		t.Add(table.Plain, strings.Repeat("  ", depth)+s.Name, table.Integer(s.Calls), table.Ms(s.Total), table.Ms(s.Self), table.Ms(c.Min), table.Ms(c.Mean), table.Ms(c.P50), table.Ms(c.P95), table.Ms(c.P99), table.Ms(c.Max), open)
	})
	return t
}

func countersTable(p *profile.Profile, _ Options) table.Table {
	t := table.Table{Title: "counters", Cols: []table.Col{table.Left("counter"), table.Left("unit"), table.Right("samples"), table.Right("last"), table.Right("peak")}}
	for _, c := range p.Counters {
		unit, show := c.Unit, table.Decimal
		if unit == "bytes" { // as in the tables of memory
			unit, show = "MiB", func(v float64) string { return table.Mib(int64(v)) }
		}
		t.Add(table.Plain, c.Name, unit, table.Integer(c.Samples), show(c.Last), show(c.Peak))
	}
	return t
}

func warningsTable(p *profile.Profile, _ Options) table.Table {
	t := table.Table{Title: "warnings", Cols: []table.Col{table.Left("")}}
	for _, w := range p.Warnings {
		t.Add(table.Warn, w)
	}
	for i, c := range p.Contradictions() {
		if i == 5 {
			t.Add(table.Warn, "contradiction: further steps that were faster than the roofline allows, see the column roofline %")
			break
		}
		t.Add(table.Warn, "contradiction: "+c)
	}
	if p.Abandoned > 0 {
		t.Add(table.Warn, table.Count(int(p.Abandoned), "run")+" did not complete and left no times")
	}
	return t
}
