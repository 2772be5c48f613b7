package study

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"hotpath/internal/atomicfile"
	"hotpath/internal/stats"
	"hotpath/profile"
	"hotpath/profile/export"
)

// Ranked steps and allocators in a report.
const (
	rankedSteps = 20
	rankedSites = 12
)

// Report is the run as a document: facts, hot paths, allocators, the hierarchy
// of calls and the books.
func (p *Profiled) Report() *Report {
	f := &p.Profile.Facts
	r := &Report{Name: "profile", Title: "Profile of " + f.Model, Created: p.Profile.Created,
		Question: "Where do time and memory go: " + p.work + "?"}
	r.Facts = []Fact{
		{"model", fmt.Sprintf("%s, %s parameters, precision %s", f.Model, number(float64(f.Params)), f.Precision)},
		{"machine", fmt.Sprintf("%s, tier %s, %s, %s, %s/%s", f.CPU, f.Tier, plural(f.Cores, "core"), plural(f.Threads, "thread"), f.OS, f.Arch)},
	}
	for _, c := range p.Profile.Ceilings {
		parts := []string{"f32 " + number(c.FLOPs/1e9) + " GFLOP/s"}
		for _, class := range slices.Sorted(maps.Keys(c.Class)) {
			parts = append(parts, class+" "+number(c.Class[class]/1e9)+" GFLOP/s")
		}
		r.Facts = append(r.Facts, Fact{"ceilings", strings.Join(append(parts, "memory "+number(c.Bytes/1e9)+" GB/s", c.Source), ", ")})
	}
	for _, key := range slices.Sorted(maps.Keys(f.Extra)) {
		r.Facts = append(r.Facts, Fact{key, f.Extra[key]})
	}
	if o := p.Profile.Overhead; o != nil {
		r.Facts = append(r.Facts, Fact{"recording", o.String()})
	}
	for _, w := range p.Profile.Warnings {
		r.Facts = append(r.Facts, Fact{"warning", w})
	}
	r.Advice = p.advice()
	r.Sections = []Section{p.iterations(), p.ranked("Hot paths by time", profile.ByTime), p.ranked("Hot paths by lost time", profile.ByLost), p.allocated(), p.arenas(), p.hierarchy(), p.books()}
	return r
}

func (p *Profiled) advice() []string {
	var out []string
	if top := p.Profile.Top(1, profile.ByTime); len(top) > 0 {
		out = append(out, fmt.Sprintf("Most time: %s (%s), %.1f %% of all lanes' time.", top[0].Step.Name, top[0].Step.Kernel, p.share(top[0].LaneTime())))
	}
	if ops := p.Profile.ByOp(); len(ops) > 0 {
		most := slices.MaxFunc(ops, func(a, b profile.Group) int { return cmp.Compare(a.Lost, b.Lost) })
		out = append(out, fmt.Sprintf("Most to win: %s steps lose %s beyond the roofline in all.", most.Name, millis(float64(most.Lost)/1e9)))
	}
	l := p.Profile.Ledger
	if wait := p.share(l.Barrier + l.Idle + l.Dispatch); wait > 0 {
		out = append(out, fmt.Sprintf("Workers wait for %.1f %% of their time (barriers %.1f %%, idle %.1f %%, dispatch %.1f %%).", wait, p.share(l.Barrier), p.share(l.Idle), p.share(l.Dispatch)))
	}
	return append(out, "To learn what would be gained before anything is mended, ask: hotpath study whatif.")
}

func (p *Profiled) share(ns int64) float64 {
	return 100 * float64(ns) / float64(max(1, p.Profile.Ledger.LaneTime))
}

func (p *Profiled) iterations() Section {
	t := &Table{Left: 1, Head: []string{"iteration", "time"}}
	for i, s := range p.Seconds {
		t.addRow(fmt.Sprint(i+1), millis(s))
	}
	t.addRow("median", millis(stats.Median(p.Seconds)))
	return Section{Title: "Iterations", Table: t}
}

func (p *Profiled) ranked(title string, by profile.By) Section {
	t := &Table{Left: 3, Head: []string{"#", "step", "kernel", "calls", "self ms", "of all", "clock ms", "GFLOP/s", "GB/s", "of the roofline", "lost ms"}}
	for i, s := range p.Profile.Top(rankedSteps, by) {
		t.addRow(fmt.Sprint(i+1), s.Step.Name, cmp.Or(s.Step.Kernel, s.Step.Op), fmt.Sprint(s.Calls), fmt.Sprintf("%.3f", float64(s.Self)/1e6), fmt.Sprintf("%.2f %%", p.share(s.LaneTime())), fmt.Sprintf("%.3f", float64(s.Clock)/1e6),
			number(s.GFLOPS()), number(s.GBps()), fmt.Sprintf("%.1f %%", s.Roofline()), fmt.Sprintf("%.3f", float64(s.Lost)/1e6))
	}
	return Section{Title: title, Table: t}
}

func (p *Profiled) allocated() Section {
	s := Section{Title: "Allocators by bytes", Text: []string{"On the Go heap, of one iteration; the function that asked, not the runtime below it."}}
	if len(p.Allocators) == 0 {
		s.Text = append(s.Text, "Nothing was allocated.")
		return s
	}
	s.Table = &Table{Left: 2, Head: []string{"#", "function", "allocations", "bytes"}}
	for i, a := range p.Allocators[:min(len(p.Allocators), rankedSites)] {
		s.Table.addRow(fmt.Sprint(i+1), a.Func, number(a.Count), bytes(a.Bytes))
	}
	return s
}

func (p *Profiled) arenas() Section {
	t := &Table{Left: 2, Head: []string{"#", "step", "outputs and scratch"}}
	for i, s := range p.Profile.Top(rankedSites, profile.ByAlloc) {
		t.addRow(fmt.Sprint(i+1), s.Step.Name, bytes(float64(s.Step.Alloc)))
	}
	return Section{Title: "Arena memory by step", Table: t, Text: []string{"Laid out once; steps whose lives do not overlap share it."}}
}

// hierarchy is plan, layer, step. Small steps of a layer are one line.
func (p *Profiled) hierarchy() Section {
	t := &Table{Left: 1, Head: []string{"call", "calls", "ms", "of all"}}
	line := func(depth int, name string, calls, ns int64) {
		t.addRow(strings.Repeat("· ", depth)+name, fmt.Sprint(calls), fmt.Sprintf("%.3f", float64(ns)/1e6), fmt.Sprintf("%.2f %%", p.share(ns)))
	}
	for i := range p.Profile.Plans {
		plan := &p.Profile.Plans[i]
		if plan.Ledger.Runs == 0 {
			continue
		}
		line(0, fmt.Sprintf("%s, %s", cmp.Or(plan.Name, plan.ID), plan.Phase), plan.Ledger.Runs, plan.Ledger.LaneTime)
		var order []int
		layers := map[int][]profile.StepResult{}
		for _, s := range p.Profile.Where(func(s profile.StepResult) bool { return s.Plan == plan && s.Calls > 0 }) {
			if layers[s.Step.Layer] == nil {
				order = append(order, s.Step.Layer)
			}
			layers[s.Step.Layer] = append(layers[s.Step.Layer], s)
		}
		slices.Sort(order)
		for _, layer := range order {
			name := "outside layers"
			if layer >= 0 {
				name = fmt.Sprintf("layer %d", layer)
			}
			var all, rest, few int64
			for _, s := range layers[layer] {
				all += s.LaneTime()
			}
			line(1, name, plan.Ledger.Runs, all)
			for _, s := range layers[layer] {
				if p.share(s.LaneTime()) < 0.2 && len(order) > 2 {
					rest, few = rest+s.LaneTime(), few+1
					continue
				}
				line(2, s.Step.Name, s.Calls, s.LaneTime())
			}
			if few > 0 {
				line(2, fmt.Sprintf("%s below 0.2 %% each", plural(int(few), "step")), plan.Ledger.Runs, rest)
			}
		}
	}
	return Section{Title: "Call hierarchy", Table: t, Text: []string{"Times are of all lanes together, so that a plan's layers and waits add up to its lane time."}}
}

func (p *Profiled) books() Section {
	t := &Table{Left: 1, Head: []string{"plan", "runs", "tok/s", "wall ms", "lane ms", "compute", "barrier", "dispatch", "idle", "residual", "gc"}}
	row := func(name, runs, rate string, wall int64, l profile.Ledger) {
		cells := []string{name, runs, rate, fmt.Sprintf("%.3f", float64(wall)/1e6), fmt.Sprintf("%.3f", float64(l.LaneTime)/1e6)}
		for _, v := range []int64{l.Compute, l.Barrier, l.Dispatch, l.Idle, l.Residual, l.GC} {
			cells = append(cells, fmt.Sprintf("%.2f %%", 100*float64(v)/float64(max(1, l.LaneTime))))
		}
		t.addRow(cells...)
	}
	for i := range p.Profile.Plans {
		if plan := &p.Profile.Plans[i]; plan.Ledger.Runs > 0 {
			row(cmp.Or(plan.Name, plan.ID)+", "+plan.Phase, fmt.Sprint(plan.Ledger.Runs), number(plan.TokensPerSecond()), plan.Ledger.Wall, plan.Ledger)
		}
	}
	for i := range p.Profile.Rounds {
		r := &p.Profile.Rounds[i]
		row(r.Name+", workers without a run", "none", "none", r.Wall, r.Outside())
	}
	l := p.Profile.Ledger
	row("total", fmt.Sprint(l.Runs), "of each", l.Wall, l)
	return Section{Title: "The books", Table: t, Text: []string{"Wall time times lanes = compute + barrier + dispatch + idle + residual; the residual is what no stamp explains."}}
}

// reportEndings are the documents that a profiling run writes itself.
var reportEndings = map[string]func(*Report) string{".md": (*Report).Markdown, ".txt": (*Report).Text}

// ProfileEndings are those that Write knows.
func ProfileEndings() []string {
	out := slices.Sorted(maps.Keys(reportEndings))
	for _, e := range export.Exporters() {
		if !slices.Contains(out, e.Ending) {
			out = append(out, e.Ending)
		}
	}
	return out
}

// Write writes the run by the ending of path: .md and .txt are the report, the
// others are formats of profiles.
func (p *Profiled) Write(path string) error {
	render, ok := reportEndings[filepath.Ext(path)]
	if !ok {
		return export.Export(path, p.Profile)
	}
	r := p.Report()
	if err := r.Check(); err != nil {
		return err
	}
	return atomicfile.WriteFile(path, []byte(render(r)))
}

// Text is the report for a terminal.
func (p *Profiled) Text() (string, error) {
	r := p.Report()
	return r.Text(), errors.Join(r.Check())
}
