package compare

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"hotpath/profile/internal/table"
	"hotpath/profile/report"
)

// Text writes the comparison for people: o.Top rows of each list, those that
// changed first. 0 lists what changed or is near to it, and folds the rest.
func (c *Comparison) Text(w io.Writer, o report.Options) error {
	for _, t := range c.tables(o) {
		if err := t.Text(w, o.Color); err != nil {
			return err
		}
	}
	return nil
}

// Markdown writes the same as Markdown.
func (c *Comparison) Markdown(w io.Writer, o report.Options) error {
	for _, t := range c.tables(o) {
		if err := t.Markdown(w); err != nil {
			return err
		}
	}
	return nil
}

// JSON writes the whole comparison as one document.
func (c *Comparison) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(c)
}

func (c *Comparison) tables(o report.Options) []table.Table {
	head := table.Table{Title: "comparison", Note: "ms per run; after - before = work + efficiency + wait; median, mean and p95: change for the same work with its 95 % interval, * where it is real", Cols: []table.Col{table.Left(""), table.Left("")}}
	head.Add(table.Plain, "A", fmt.Sprintf("%s (%s)", c.A, table.Count(c.Recordings[0], "recording")))
	head.Add(table.Plain, "B", fmt.Sprintf("%s (%s)", c.B, table.Count(c.Recordings[1], "recording")))
	m := table.Plain
	if len(c.Different()) > 0 {
		m = table.Strong
	}
	head.Add(m, "result", c.Summary())
	for _, text := range c.NotCompared() {
		head.Add(table.Warn, "not compared", text)
	}
	for _, w := range c.Warnings {
		head.Add(table.Warn, "warning", w)
	}
	if o.Top == 0 {
		head.Add(table.Plain, "tables", "rows that changed or are near to it; the others are folded, --top -1 lists them")
	}
	out := []table.Table{head}
	for i := range c.Plans {
		p := &c.Plans[i]
		out = append(out, p.table("plan "+p.Name+" "+p.Phase, fmt.Sprintf("%d and %d runs", p.Runs[0], p.Runs[1]), []Diff{p.Total, p.Common, p.Wait}, -1),
			p.table("by op", table.Join("a fused step counts as what most of it is", shifted(p.Shift, p.Whole, "steps")), p.Kinds, o.Top))
		if len(p.Places) > 0 {
			out = append(out, p.table("by step, all layers", "of ops with several steps per layer", p.Places, o.Top))
		}
		if len(p.Layers) > 1 {
			out = append(out, p.table("by layer", shifted(p.LayerShift, p.WholeLayers, "layers"), p.Layers, o.Top))
		}
		out = append(out, p.table("steps", "", p.Steps, o.Top))
		if len(p.Waits) > 0 {
			out = append(out, p.table("waits", "at barriers, all layers together; changes are in per cent of a run", p.Waits, o.Top))
		}
	}
	if t := c.scopesTable(o.Top); len(t.Rows) > 0 {
		out = append(out, t)
	}
	if t := c.unevenTable(o.Top); len(t.Rows) > 0 {
		out = append(out, t)
	}
	if t := c.ledgerTable(o.Top); len(t.Rows) > 0 {
		out = append(out, t)
	}
	if t := c.faultsTable(); len(t.Rows) > 0 {
		out = append(out, t)
	}
	if t := c.goHeapTable(); len(t.Rows) > 0 {
		out = append(out, t)
	}
	if t := c.memoryTable(o.Top); len(t.Rows) > 0 {
		out = append(out, t)
	}
	return out
}

// shifted is the text about the common change that was subtracted from rows, or was not
// because they are whole.
func shifted(by [measures]float64, whole bool, rows string) string {
	var parts []string
	if whole {
		return rows + " did not move alike: changes are whole, what the machine did included"
	}
	for m, v := range by {
		if v != 0 {
			parts = append(parts, fmt.Sprintf("%s %+.1f %%", Measure(m), v))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "changes are beyond what all " + rows + " have in common: " + strings.Join(parts, ", ")
}

// markOf is how a row of a table is marked.
func markOf(changed bool, v Verdict) table.Mark {
	switch {
	case v.worse():
		return table.Warn
	case changed:
		return table.Strong
	}
	return table.Plain
}

// MemoryNote says what the sizes of memory are.
func (c *Comparison) MemoryNote() string {
	const others = "; those of the Go heap depend on when it was collected last; those of plans on devices are as laid out"
	switch {
	case slices.ContainsFunc(c.Memory, func(d MemoryDiff) bool { return d.Held }):
		return "MiB of the process when most was in use: what owners allocated, and beside it what they touched of it, which is not judged; or what was resident" + others
	case slices.ContainsFunc(c.Memory, func(d MemoryDiff) bool { return d.Resident }):
		return "MiB of the process that were resident when most was in use" + others
	}
	return "MiB as laid out, touched or not, because not all recordings say what was resident; those of the Go runtime depend on when it collected last"
}

// says is the change in a sentence.
func (d *MemoryDiff) says() string {
	what := d.Class + " of " + d.Owner
	switch {
	case d.Resident && d.Class == allResident:
		what = d.Class
	case d.Resident:
		what = "resident memory of " + d.Class
	case d.Held:
		what = "memory held by " + d.Class
	}
	return fmt.Sprintf("%s: %s MiB became %s.", what, table.Mib(int64(d.Before)), table.Mib(int64(d.After)))
}

// NotCompared says which plans ran on one side only.
func (c *Comparison) NotCompared() []string {
	var out []string
	for _, side := range []struct {
		ids               []string
		name, file, other string
	}{{c.OnlyA, "A", c.A, "B"}, {c.OnlyB, "B", c.B, "A"}} {
		for _, id := range side.ids {
			out = append(out, fmt.Sprintf("plan %s ran in %s (%s) and never in %s, so no table contains its time", id, side.name, side.file, side.other))
		}
	}
	return out
}

// memoryTable lists classes of memory, those that changed first.
func (c *Comparison) memoryTable(top int) table.Table {
	f := folding{top: top}
	t := table.Table{Title: "memory", Note: c.MemoryNote(),
		Cols: []table.Col{table.Left("owner"), table.Left("class"), table.Right("before"), table.Right("after"), table.Right("diff"), table.Right("noise"), table.Left("verdict"), table.Right("touched before"), table.Right("touched after")}}
	for _, changed := range []bool{true, false} {
		for i := range c.Memory {
			d := &c.Memory[i]
			if d.Changed() != changed {
				continue
			}
			var touched [2]string
			if d.Touched != nil {
				touched = [2]string{table.Mib(int64(d.Touched[0])), table.Mib(int64(d.Touched[1]))}
			}
			f.add(&t, d.Verdict, !d.Changed() && d.Class != allResident, markOf(d.Changed(), d.Verdict), d.Owner, d.Class, table.Mib(int64(d.Before)), table.Mib(int64(d.After)), fmt.Sprintf("%+.2f", d.Delta()/(1<<20)), "±"+table.Mib(int64(d.Noise)), string(d.Verdict), touched[0], touched[1])
		}
	}
	f.close(&t)
	return t
}

// corrected is the least corrected probability of the row's measures.
func (d *Diff) corrected() float64 {
	if !d.tested {
		return 1
	}
	return min(d.Median.Holm, d.Mean.Holm, d.P95.Holm)
}

// table lists rows: those that changed first, then those that are near to it, then
// those with the largest differences. top 0 folds the latter; -1 lists all in the plan's
// order.
func (p *PlanDiff) table(title, note string, rows []Diff, top int) table.Table {
	if top >= 0 {
		rows = slices.Clone(rows)
		slices.SortStableFunc(rows, func(a, b Diff) int {
			if a.Changed() != b.Changed() {
				if a.Changed() {
					return -1
				}
				return 1
			}
			if x, y := min(a.corrected(), nearlyFalse), min(b.corrected(), nearlyFalse); !a.Changed() && x != y {
				return cmp.Compare(x, y)
			}
			return cmp.Compare(math.Abs(b.Delta()), math.Abs(a.Delta()))
		})
		if top == 0 {
			var left string
			rows, left = foldDiffs(rows)
			note = table.Join(note, left)
		} else if len(rows) > top {
			note = table.Join(note, fmt.Sprintf("%d of %d", top, len(rows)))
			rows = rows[:top]
		}
	}
	t := table.Table{Title: title, Note: note, Cols: []table.Col{table.Left(""), table.Right("before"), table.Right("after"), table.Right("diff"), table.Right("work"), table.Right("efficiency"), table.Right("wait"),
		table.Right("median %"), table.Right("mean %"), table.Right("p95 %"), table.Right("noise"), table.Left("verdict")}}
	for i := range rows {
		d := &rows[i]
		m := markOf(d.Changed(), d.Verdict)
		cells := []string{d.Name, table.Fms(d.Before), table.Fms(d.After), table.Signed(d.Delta()), table.Signed(d.Work), table.Signed(d.Efficiency), table.Signed(d.Wait), "", "", "", "", string(d.Verdict)}
		if d.tested {
			for k := range measures {
				cells[7+int(k)] = d.Of(k).cell()
			}
			cells[10] = d.Of(d.Main()).noise()
		}
		t.Add(m, cells...)
	}
	return t
}

// cell is a change with its interval, and a star where it is more than noise.
func (c *Change) cell() string {
	star := ""
	if c.judged() {
		star = "*"
	}
	if c.Low == nil || c.High == nil {
		return fmt.Sprintf("%+.1f (too few)", c.Percent)
	}
	return fmt.Sprintf("%s%+.1f (%+.1f to %s)", star, c.Percent, *c.Low, c.upTo())
}

// upTo is the upper end of the interval, as far as it is told.
func (c *Change) upTo() string {
	if *c.High >= mostNoise {
		return "more"
	}
	return fmt.Sprintf("%+.1f", *c.High)
}

// noise is what two recordings of one build may differ by; empty where that is not
// known.
func (c *Change) noise() string {
	switch {
	case c.Low == nil || c.High == nil:
		return ""
	case c.Noise > 100:
		return "> 100"
	}
	return fmt.Sprintf("±%.1f", c.Noise)
}
