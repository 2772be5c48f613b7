package profile

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"hotpath/internal/term"
)

// ReportOptions shapes a report. The zero value is a good one.
type ReportOptions struct {
	Top   int  // steps listed: 15; negative lists all
	By    By   // ranking of the steps: ByTime
	Color bool // ANSI colours, for terminals
}

// Text writes the report for people.
func Text(w io.Writer, p *Profile, o ReportOptions) error {
	for _, t := range report(p, o) {
		if err := t.text(w, o.Color); err != nil {
			return err
		}
	}
	return nil
}

// Markdown writes the same report as Markdown.
func Markdown(w io.Writer, p *Profile, o ReportOptions) error {
	if _, err := fmt.Fprintf(w, "# Profile of %s\n\n", markdownEscape.Replace(term.Printable(subject(p)))); err != nil {
		return err
	}
	for _, t := range report(p, o) {
		if err := t.markdown(w); err != nil {
			return err
		}
	}
	return nil
}

// sections is the report from top to bottom. A section that has nothing to
// say gives no rows and is left out.
var sections = []func(*Profile, ReportOptions) table{
	factsTable, processTable, plansTable, ledgerTable, processorTable, probesTable, lostTable, stepsTable, treeTable, stagesTable, layersTable, opsTable, kernelsTable,
	scopesTable, requestsTable, partsTable, countersTable, residentTable, memoryTable, peakTable, heapTable, canaryTable, warningsTable,
}

func report(p *Profile, o ReportOptions) []table {
	if o.Top == 0 {
		o.Top = 15
	}
	o.By = cmp.Or(o.By, ByTime)
	var out []table
	for _, section := range sections {
		if t := section(p, o); len(t.rows) > 0 {
			out = append(out, t)
		}
	}
	return out
}

func subject(p *Profile) string {
	for i := range p.Plans {
		return cmp.Or(p.Facts.Model, p.Plans[i].modelName())
	}
	return cmp.Or(p.Facts.Model, "hotpath")
}

// join leaves out what is empty.
func join(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " · ")
}

func count(n int, what string) string {
	if n == 0 {
		return ""
	}
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

func factsTable(p *Profile, _ ReportOptions) table {
	t := table{title: "hotpath profile", note: p.Created.UTC().Format("2006-01-02 15:04:05 UTC"), cols: []col{left(""), left("")}}
	f := &p.Facts
	params := ""
	if f.Params > 0 {
		params = si(float64(f.Params)) + " parameters"
	}
	t.add(strong, "model", join(subject(p), params, f.Precision, f.Device))
	t.add(plain, "machine", join(f.CPU, f.Tier, count(f.Cores, "core"), count(f.Threads, "thread"), join(f.OS, f.Arch), f.Go))
	for _, backend := range slices.Sorted(maps.Keys(p.Ceilings)) {
		c := p.Ceilings[backend]
		if c.Source == sampledSource {
			continue // they have a table
		}
		parts := []string{backend, si(c.FLOPs) + "FLOP/s", si(c.Bytes) + "B/s"}
		for _, class := range slices.Sorted(maps.Keys(c.Class)) {
			parts = append(parts, class+" "+si(c.Class[class])+"FLOP/s")
		}
		t.add(plain, "ceilings", join(append(parts, c.Source)...))
		if one := c.One; one != nil && p.shares(c.Lanes) {
			parts := []string{si(one.FLOPs) + "FLOP/s", si(one.Bytes) + "B/s"}
			for _, class := range slices.Sorted(maps.Keys(one.Class)) {
				parts = append(parts, class+" "+si(one.Class[class])+"FLOP/s")
			}
			t.add(plain, "one lane", join(parts...))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(f.Extra)) {
		t.add(plain, key, f.Extra[key])
	}
	if o := p.Overhead; o != nil {
		t.add(plain, "recording", o.String())
	}
	return t
}

// shares says whether a plan had fewer lanes in flight than a number, so that
// it was held against a part of the ceilings.
func (p *Profile) shares(lanes int) bool {
	for i := range p.Plans {
		if s := &p.Plans[i]; s.Ledger.Runs > 0 && s.HostLanes == 0 && s.LanesAtOnce() < float64(lanes)-0.05 {
			return true
		}
	}
	return false
}

func plansTable(p *Profile, _ ReportOptions) table {
	t := table{title: "plans", note: "cold is the first run; ms is of one run; tok/s and us/token are of all that were in flight at once",
		cols: []col{left("plan"), left("phase"), left("device"), right("lanes"), right("at once"), right("runs"), right("tokens"),
			right("tok/s"), right("cold ms"), right("ms/run"), right("p50"), right("p95"), right("p99"), right("us/token")}}
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
		t.add(plain, cmp.Or(s.Name, s.ID), s.Phase, s.deviceName(), strconv.Itoa(len(s.Lanes)), fmt.Sprintf("%.1f", s.AtOnce()), integer(s.Ledger.Runs), integer(s.Tokens),
			fmt.Sprintf("%.0f", s.TokensPerSecond()), ms(s.First), ms(s.Run.Mean), ms(s.Run.P50), ms(s.Run.P95), ms(s.Run.P99), perToken)
		tokens += s.Tokens
	}
	if len(t.rows) > 1 && tokens > 0 {
		t.add(strong, "total", "", "", "", "", integer(p.Ledger.Runs), integer(tokens), fmt.Sprintf("%.0f", perTime(tokens, p.Elapsed)*1e9),
			"", "", "", "", "", fmt.Sprintf("%.2f", perTime(p.Elapsed, tokens)/1e3))
	}
	return t
}

func ledgerTable(p *Profile, _ ReportOptions) table {
	t := table{title: "ledger", note: "wall x lanes = compute + barrier + dispatch + idle + residual; gc lies within them",
		cols: []col{left(""), right("runs"), right("wall ms"), right("lane ms"), right("compute %")}}
	offCPU := p.Ledger.OffCPU > 0 // an engine may not know it
	if offCPU {
		t.note = strings.Replace(t.note, "= compute +", "= compute + no cpu +", 1) + "; no cpu: in steps whose thread had no processor"
		t.cols = append(t.cols, right("no cpu %"))
	}
	t.cols = append(t.cols, right("barrier %"), right("dispatch %"), right("idle %"), right("residual %"), right("gc %"))
	if p.Elapsed < p.Ledger.Wall {
		t.note += fmt.Sprintf("; wall adds up runs side by side, %s ms on the clock", ms(p.Elapsed))
	}
	if len(p.Rounds) > 0 {
		t.note += "; no run: workers before and between their runs (dispatch), and after their last (idle)"
	}
	row := func(m mark, name string, l Ledger) {
		if r := l.ResidualPercent(); r > 1 || r < 0 {
			m = warn
		}
		cells := []string{name, integer(l.Runs), ms(l.Wall), ms(l.LaneTime)}
		if l.Runs == 0 {
			cells[1], cells[2] = "", ""
		}
		parts := []int64{l.Compute - l.OffCompute}
		if offCPU {
			parts = append(parts, l.OffCompute)
		}
		for _, part := range append(parts, l.Barrier, l.Dispatch, l.Idle, l.Residual, l.GC) {
			cells = append(cells, fmt.Sprintf("%.2f", percent(part, l.LaneTime)))
		}
		t.add(m, cells...)
	}
	for i := range p.Plans {
		s := &p.Plans[i]
		if s.Ledger.Runs == 0 {
			continue
		}
		row(plain, strings.TrimSpace(cmp.Or(s.Name, s.ID)+" "+s.Phase), s.Ledger)
		if len(s.ByLane) == 1 {
			continue // the same again, of whichever worker ran
		}
		for _, l := range s.ByLane {
			row(plain, "  "+l.Lane, l.Ledger)
		}
	}
	for i := range p.Rounds {
		r := &p.Rounds[i]
		row(plain, r.Name+", no run", r.Outside())
		for k := range r.ByWorker {
			row(plain, "  "+r.ByWorker[k].Worker, r.ByWorker[k].Outside())
		}
	}
	if len(p.Plans) > 0 {
		row(strong, "total", p.Ledger)
	}
	return t
}

// fusedNote is for what tells the parts of fused steps, which run as one, apart.
const fusedNote = "a fused step is divided by FLOPs"

// aboveNote explains what looks like a mistake and is none.
const aboveNote = "above 100 %, and lost below 0: from caches, which are faster than the memory that the ceiling is of"

func groupTable(p *Profile, title, note, first string, groups []Group) table {
	if slices.ContainsFunc(groups, func(g Group) bool { return g.Lost < 0 }) {
		note = strings.TrimPrefix(note+"; "+aboveNote, "; ")
	}
	t := table{title: title, note: note, cols: []col{left(first), right("steps"), right("ms"), right("%"), right("GFLOP/s"), right("GB/s"), right("roofline %"), right("lost ms")}}
	for _, g := range groups {
		// Steps without a ceiling have neither floor nor loss and stay out of
		// the group's place on the roofline.
		t.add(plain, g.Name, strconv.Itoa(g.Steps), ms(g.Self), fmt.Sprintf("%.2f", percent(g.LaneTime, p.Ledger.LaneTime)),
			rate(perTime(g.FLOPs, g.Clock)), rate(perTime(g.Bytes, g.Clock)), roof(g.Floor, g.Floor+g.Lost), lost(g.Floor, g.Lost))
	}
	return t
}

func layersTable(p *Profile, _ ReportOptions) table {
	return groupTable(p, "by layer", "", "layer", p.ByLayer())
}

// stagesTable is a training step from data to optimizer.
func stagesTable(p *Profile, _ ReportOptions) table {
	groups := p.ByStage()
	t := groupTable(p, "by stage", "of training; data is the time in which the step waits for a batch, and steps counts calls from there on; step is all of its runs, and epoch all of its steps, evaluations and samples", "stage", groups)
	if len(groups) == 0 {
		return t
	}
	for _, stage := range []struct {
		name   string
		scopes []string
		m      mark
	}{{"data", []string{DataScope, oldDataScope}, plain}, {"checkpoint", []string{"checkpoint"}, plain}, {"step", []string{"step"}, strong}, {"epoch", []string{"epoch"}, strong}} {
		var total, calls int64
		for _, name := range stage.scopes {
			for _, s := range p.ScopesByName(name) {
				total, calls = total+s.Total, calls+s.Calls
			}
		}
		if calls > 0 {
			t.add(stage.m, stage.name, integer(calls), ms(total), fmt.Sprintf("%.2f", percent(total, p.Ledger.Wall)), "", "", "", "")
		}
	}
	return t
}

// DataScope is the scope in which training puts a batch together, and oldDataScope
// what it was called.
const (
	DataScope    = "data"
	oldDataScope = "batch"
)

func opsTable(p *Profile, _ ReportOptions) table {
	return groupTable(p, "by op", fusedNote, "op", p.ByOp())
}

func kernelsTable(p *Profile, _ ReportOptions) table {
	return groupTable(p, "by kernel", "", "kernel", p.ByKernel())
}

func scopesTable(p *Profile, _ ReportOptions) table {
	t := table{title: "scopes", note: "self is the time in which no inner scope was open",
		cols: []col{left("scope"), right("calls"), right("total ms"), right("self ms"), right("min"), right("mean"), right("p50"), right("p95"), right("p99"), right("max"), right("open")}}
	p.eachScope(func(s *ScopeStats, depth int) {
		open := ""
		if s.Open > 0 {
			open = integer(s.Open)
		}
		c := &s.Call
		t.add(plain, strings.Repeat("  ", depth)+s.Name, integer(s.Calls), ms(s.Total), ms(s.Self), ms(c.Min), ms(c.Mean), ms(c.P50), ms(c.P95), ms(c.P99), ms(c.Max), open)
	})
	return t
}

// eachScope visits the scopes as a tree, the longest first; depth is cut off at
// 20.
func (p *Profile) eachScope(visit func(s *ScopeStats, depth int)) {
	children := make(map[int][]int, len(p.Scopes))
	for i, s := range p.Scopes {
		children[s.Parent] = append(children[s.Parent], i)
	}
	type place struct{ id, depth int }
	var todo []place
	push := func(parent, depth int) {
		ids := children[parent]
		slices.SortStableFunc(ids, func(a, b int) int { return cmp.Compare(p.Scopes[a].Total, p.Scopes[b].Total) })
		for _, id := range ids {
			todo = append(todo, place{id, depth})
		}
	}
	for push(-1, 0); len(todo) > 0; {
		v := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		visit(&p.Scopes[v.id], min(v.depth, 20))
		push(v.id, v.depth+1)
	}
}

func requestsTable(p *Profile, _ ReportOptions) table {
	t := table{title: "requests", cols: []col{left(""), right("count"), right("mean ms"), right("p50"), right("p95"), right("p99"), right("max")}}
	q := p.Requests
	if q == nil {
		return t
	}
	t.note = fmt.Sprintf("%d prompt and %d output tokens", q.PromptTokens, q.OutputTokens)
	for _, r := range requestRows(q) {
		t.add(plain, r.name, integer(r.d.Count), ms(r.d.Mean), ms(r.d.P50), ms(r.d.P95), ms(r.d.P99), ms(r.d.Max))
	}
	return t
}

// partsTable is what each request took of the runs that several shared.
func partsTable(p *Profile, o ReportOptions) table {
	t := table{title: "by request", note: "shares of batched runs: by tokens, and in attention by what each attends to; ms on the clock, waits included",
		cols: []col{left("request"), right("runs"), right("tokens"), right("ms"), right("%"), right("GFLOP"), right("MB moved")}}
	parts := p.ByRequest()
	var all float64
	for _, r := range parts {
		all += r.Time
	}
	if len(parts) > o.Top && o.Top > 0 {
		parts = parts[:o.Top]
	}
	for _, r := range parts {
		t.add(plain, r.Request, integer(r.Runs), integer(r.Tokens), fms(r.Time), percentCell(percentOf(r.Time, all)), fmt.Sprintf("%.3f", r.FLOPs/1e9), fmt.Sprintf("%.1f", r.Bytes/1e6))
	}
	return t
}

type requestRow struct {
	name string
	d    Dist
}

// requestRows is what is known of requests.
func requestRows(q *RequestStats) []requestRow {
	rows := []requestRow{{"duration", q.Duration}, {"time to first token", q.FirstToken},
		{"  tokenize", q.Tokenize}, {"  compile", q.Compile}, {"  queue", q.Queue}, {"  prefill and sample", q.Prefill}, {"  hand over", q.Hand},
		{"time per output token", q.PerToken}}
	return slices.DeleteFunc(rows, func(r requestRow) bool { return r.d.Count == 0 })
}

func countersTable(p *Profile, _ ReportOptions) table {
	t := table{title: "counters", cols: []col{left("counter"), left("unit"), right("samples"), right("last"), right("peak")}}
	for _, c := range p.Counters {
		unit, show := c.Unit, func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
		if unit == "bytes" { // as in the tables of memory
			unit, show = "MiB", func(v float64) string { return mib(int64(v)) }
		}
		t.add(plain, c.Name, unit, integer(c.Samples), show(c.Last), show(c.Peak))
	}
	return t
}

func memoryTable(p *Profile, _ ReportOptions) table {
	t := table{title: "memory", note: "weights that were packed lie on the Go heap too", cols: []col{left("owner"), left("class"), right("MiB"), right("bytes"), right("moved a token")}}
	rows := func(owner string, memory map[string]int64, moved string) {
		for _, class := range slices.Sorted(maps.Keys(memory)) {
			t.add(plain, owner, class, mib(memory[class]), integer(memory[class]), moved)
			moved = ""
		}
	}
	rows("process", p.Memory, "")
	for i := range p.Plans {
		if p.Plans[i].Ledger.Runs == 0 {
			continue
		}
		moved := ""
		if n := p.Plans[i].BytesPerToken(); n > 0 {
			moved = si(n) + "B"
		}
		rows(cmp.Or(p.Plans[i].Name, p.Plans[i].ID), p.Plans[i].MemoryBytes, moved)
	}
	return t
}

// peakTable tells the owner of every byte at each plan's peak.
func peakTable(p *Profile, _ ReportOptions) table {
	t := table{title: "memory at the peak", note: "of each plan, at its largest batch, by class and layer",
		cols: []col{left("plan"), left("at step"), left("class"), left("layer"), right("buffers"), right("MiB"), right("%")}}
	for i := range p.Plans {
		s := &p.Plans[i]
		step, total, _ := s.Peak()
		if s.Ledger.Runs == 0 || step < 0 {
			continue
		}
		name, at := cmp.Or(s.Name, s.ID), s.Steps[step].Name
		owners := s.PeakOwners()
		for i := 0; i < len(owners); {
			// Layers that hold the same are one line.
			o, last := owners[i], owners[i]
			for i++; i < len(owners) && owners[i] == (Owner{o.Class, last.Layer + 1, o.Bytes, o.Count}) && o.Layer >= 0; i++ {
				last = owners[i]
			}
			layers, n := layerName(o.Layer), int64(last.Layer-o.Layer+1)
			if n > 1 {
				layers += " to " + layerName(last.Layer)
			}
			t.add(plain, name, at, o.Class, layers, integer(n*int64(o.Count)), mib(n*o.Bytes), fmt.Sprintf("%.1f", percent(n*o.Bytes, total)))
			name, at = "", ""
		}
		t.add(strong, "", "", "all", "", "", mib(total), "")
	}
	return t
}

// heapTable is the Go heap and its collector.
func heapTable(p *Profile, o ReportOptions) table {
	t := table{title: "go heap", note: "allocations of the whole process during the recording, packed weights among them; arenas and mapped files lie outside of it", cols: []col{left(""), right("objects"), right("kB"), left("")}}
	if p.Go == nil {
		return t
	}
	row := func(name string, h HeapCount, note string) {
		t.add(plain, name, integer(h.Objects), fmt.Sprintf("%.1f", float64(h.Bytes)/1e3), note)
	}
	row("recording", p.Go.HeapCount, fmt.Sprintf("%s, paused for %s ms in all, at most %s, %s ms of processor time; %s",
		cmp.Or(count(int(p.Go.Cycles), "collection"), "no collection"), ms(p.Go.Pause), ms(p.Go.LongPause), ms(p.Go.GCTime), count(int(p.Go.Goroutines), "goroutine")))
	for i := range p.Plans {
		if s := &p.Plans[i]; s.Heap != nil {
			row("plan "+cmp.Or(s.Name, s.ID), *s.Heap, "in "+count(int(s.Ledger.Runs), "run")+", all that the process did meanwhile")
			s.heapRows(o.Top, row)
		}
	}
	for i := range p.Scopes {
		if s := &p.Scopes[i]; s.Heap != nil {
			row("scope "+s.Name, *s.Heap, "in "+count(int(s.Calls), "call"))
		}
	}
	return t
}

// heapRows lists the steps that allocated, the most first, and those that did
// not as one.
func (s *PlanStats) heapRows(top int, row func(name string, h HeapCount, note string)) {
	var steps []StepResult
	none := 0
	for k := range s.Stats {
		switch h := s.Stats[k].Heap; {
		case h == nil:
		case h.Objects == 0:
			none++
		default:
			steps = append(steps, StepResult{s, &s.Steps[k], &s.Stats[k]})
		}
	}
	slices.SortStableFunc(steps, func(a, b StepResult) int { return cmp.Compare(b.Heap.Bytes, a.Heap.Bytes) })
	var rest HeapCount
	listed := steps
	if top > 0 && len(steps) > top {
		listed = steps[:top]
	}
	for _, r := range listed {
		row("  step "+r.Step.Name, *r.Heap, "in "+count(int(r.Calls), "call"))
	}
	for _, r := range steps[len(listed):] {
		rest.add(*r.Heap)
	}
	if n := len(steps) - len(listed); n > 0 {
		row("  "+count(n, "step")+" more", rest, "")
	}
	if none > 0 {
		row("  "+count(none, "step"), HeapCount{}, "allocated nothing")
	}
}

func mib(bytes int64) string { return fmt.Sprintf("%.2f", float64(bytes)/(1<<20)) }

func warningsTable(p *Profile, _ ReportOptions) table {
	t := table{title: "warnings", cols: []col{left("")}}
	for _, w := range p.Warnings {
		t.add(warn, w)
	}
	for i, c := range p.Contradictions() {
		if i == 5 {
			t.add(warn, "contradiction: further steps that were faster than the roofline allows, see the column roofline %")
			break
		}
		t.add(warn, "contradiction: "+c)
	}
	if p.Abandoned > 0 {
		t.add(warn, count(int(p.Abandoned), "run")+" did not complete and left no times")
	}
	return t
}
