package profile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"hotpath/internal/atomicfile"
)

// Text writes the comparison for people: o.Top rows of each list, those that
// changed first.
func (c *Comparison) Text(w io.Writer, o ReportOptions) error {
	for _, t := range c.tables(o) {
		if err := t.text(w, o.Color); err != nil {
			return err
		}
	}
	return nil
}

// Markdown writes the same as Markdown.
func (c *Comparison) Markdown(w io.Writer, o ReportOptions) error {
	for _, t := range c.tables(o) {
		if err := t.markdown(w); err != nil {
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

// HTML writes the comparison as one page that needs nothing but itself, with a
// difference flame graph of each plan.
func (c *Comparison) HTML(w io.Writer) error {
	return page(w, c.A+" against "+c.B, c.view(), compareJS)
}

// Summary is the comparison in a sentence or two.
func (c *Comparison) Summary() string {
	all := percentOf(c.Total.Delta(), c.Total.Before)
	var out []string
	different := c.Different()
	tested := slices.ContainsFunc(c.Plans, func(p PlanDiff) bool { return p.Total.Verdict != Untested })
	switch mid, low, high := c.Real(); {
	case len(different) == 0 && !tested:
		out = append(out, fmt.Sprintf("Too few runs to compare times: B took %s, and whether that is a difference is not known.", longer(all)))
	case len(different) == 0:
		out = append(out, fmt.Sprintf("No difference of time was found: B took %s, which two recordings of one build may.", longer(all)))
	case math.Abs(mid) < 0.05:
		out = append(out, fmt.Sprintf("B differs from A, but not in its time: %s.", different[0].says()))
	default:
		if mid < 0 {
			low, high = -high, -low
		}
		out = append(out, fmt.Sprintf("B is %s by %.1f %% of A's time (%.1f to %.1f): %s.", faster(mid), math.Abs(mid), low, high, different[0].says()))
	}
	if n := len(different); n > 1 {
		out = append(out, fmt.Sprintf("Rows that differ: %d.", n))
	}
	for i := range c.Memory {
		if d := &c.Memory[i]; d.Changed() {
			out = append(out, fmt.Sprintf("%s of %s: %s MiB became %s.", d.Class, d.Owner, mib(int64(d.Before)), mib(int64(d.After))))
		}
	}
	return strings.Join(out, " ")
}

func longer(percent float64) string {
	if percent < 0 {
		return fmt.Sprintf("%.1f %% less time than A", -percent)
	}
	return fmt.Sprintf("%.1f %% longer than A", percent)
}

func faster(change float64) string {
	if change < 0 {
		return "faster"
	}
	return "slower"
}

// says is what was found out about a row.
func (d *Diff) says() string {
	if !d.Verdict.timed() {
		return d.Name + " has " + string(d.Verdict)
	}
	m := d.Main()
	c := d.Of(m)
	low, high := c.bounds()
	if c.Percent < 0 {
		low, high = -high, -low
	}
	unit := "%"
	if d.Name == waitingRow {
		unit = "points"
	}
	text := fmt.Sprintf("the %s of %s is %.1f %s %s (%.1f to %.1f)", m, d.Name, math.Abs(c.Percent), unit, faster(c.Percent), low, high)
	if m == Tail {
		text += ", the median is not"
	}
	return text
}

func percentOf(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * part / whole
}

func (c *Comparison) tables(o ReportOptions) []table {
	if o.Top == 0 {
		o.Top = 15
	}
	head := table{title: "comparison", note: "ms per run; after - before = work + efficiency + wait; median, mean and p95: change for the same work with its 95 % interval, * where it is real", cols: []col{left(""), left("")}}
	head.add(plain, "A", fmt.Sprintf("%s (%s)", c.A, count(c.Recordings[0], "recording")))
	head.add(plain, "B", fmt.Sprintf("%s (%s)", c.B, count(c.Recordings[1], "recording")))
	m := plain
	if len(c.Different()) > 0 {
		m = strong
	}
	head.add(m, "result", c.Summary())
	for _, id := range c.OnlyA {
		head.add(warn, "only in A", "plan "+id)
	}
	for _, id := range c.OnlyB {
		head.add(warn, "only in B", "plan "+id)
	}
	for _, w := range c.Warnings {
		head.add(warn, "warning", w)
	}
	out := []table{head}
	for i := range c.Plans {
		p := &c.Plans[i]
		out = append(out, p.table("plan "+p.Name+" "+p.Phase, fmt.Sprintf("%d and %d runs", p.Runs[0], p.Runs[1]), []Diff{p.Total, p.Common, p.Wait}, -1),
			p.table("by op", join("a fused step counts as what most of it is", shifted(p.Shift, "steps")), p.Kinds, o.Top))
		if len(p.Layers) > 1 {
			out = append(out, p.table("by layer", shifted(p.LayerShift, "layers"), p.Layers, o.Top))
		}
		out = append(out, p.table("steps", "", p.Steps, o.Top))
	}
	if t := c.memoryTable(); len(t.rows) > 0 {
		out = append(out, t)
	}
	return out
}

// shifted says what was taken off rows because all of them have it in common.
func shifted(by [measures]float64, rows string) string {
	var parts []string
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

// memoryTable lists classes of memory, those that changed first.
func (c *Comparison) memoryTable() table {
	t := table{title: "memory", note: "MiB; sizes of plans are exact, those of the Go runtime depend on when it collected last",
		cols: []col{left("owner"), left("class"), right("before"), right("after"), right("diff"), right("noise"), left("verdict")}}
	for _, changed := range []bool{true, false} {
		for i := range c.Memory {
			d := &c.Memory[i]
			if d.Changed() != changed {
				continue
			}
			m := plain
			if d.Changed() {
				m = strong
			}
			if d.Verdict.worse() {
				m = warn
			}
			t.add(m, d.Owner, d.Class, mib(int64(d.Before)), mib(int64(d.After)), fmt.Sprintf("%+.2f", d.Delta()/(1<<20)), "±"+mib(int64(d.Noise)), string(d.Verdict))
		}
	}
	return t
}

// table lists rows. Of more than top, those that changed come first, then those
// with the largest differences.
func (p *PlanDiff) table(title, note string, rows []Diff, top int) table {
	if top > 0 {
		rows = slices.Clone(rows)
		slices.SortStableFunc(rows, func(a, b Diff) int {
			if a.Changed() != b.Changed() {
				if a.Changed() {
					return -1
				}
				return 1
			}
			return cmp.Compare(math.Abs(b.Delta()), math.Abs(a.Delta()))
		})
		if len(rows) > top {
			note = join(note, fmt.Sprintf("%d of %d", top, len(rows)))
			rows = rows[:top]
		}
	}
	t := table{title: title, note: note, cols: []col{left(""), right("before"), right("after"), right("diff"), right("work"), right("efficiency"), right("wait"),
		right("median %"), right("mean %"), right("p95 %"), right("noise"), left("verdict")}}
	for i := range rows {
		d := &rows[i]
		m := plain
		if d.Changed() {
			m = strong
		}
		if d.Verdict.worse() {
			m = warn
		}
		cells := []string{d.Name, fms(d.Before), fms(d.After), signed(d.Delta()), signed(d.Work), signed(d.Efficiency), signed(d.Wait), "", "", "", "", string(d.Verdict)}
		if d.tested {
			for k := range measures {
				cells[7+int(k)] = d.Of(k).cell()
			}
			cells[10] = fmt.Sprintf("±%.1f", d.Of(d.Main()).Noise)
		}
		t.add(m, cells...)
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
	return fmt.Sprintf("%s%+.1f (%+.1f to %+.1f)", star, c.Percent, *c.Low, *c.High)
}

func fms(ns float64) string { return fmt.Sprintf("%.3f", ns/1e6) }

func signed(ns float64) string {
	if math.Abs(ns) < 500 {
		return "0"
	}
	return fmt.Sprintf("%+.3f", ns/1e6)
}

// comparers is the table of formats of comparisons, by the ending of a file.
var comparers = []struct {
	ending string
	write  func(io.Writer, *Comparison) error
}{
	{".json", func(w io.Writer, c *Comparison) error { return c.JSON(w) }},
	{".md", func(w io.Writer, c *Comparison) error { return c.Markdown(w, ReportOptions{}) }},
	{".txt", func(w io.Writer, c *Comparison) error { return c.Text(w, ReportOptions{}) }},
	{".html", func(w io.Writer, c *Comparison) error { return c.HTML(w) }},
}

// ComparisonEndings lists the endings that ExportComparison knows.
func ComparisonEndings() []string {
	out := make([]string, len(comparers))
	for i, c := range comparers {
		out[i] = c.ending
	}
	return out
}

// Comparable reports whether ExportComparison knows the ending of path.
func Comparable(path string) bool {
	return slices.ContainsFunc(ComparisonEndings(), func(e string) bool { return strings.HasSuffix(path, e) })
}

// ExportComparison writes the comparison in the format of path's ending. The
// file appears whole or not at all.
func ExportComparison(path string, c *Comparison) error {
	for _, f := range comparers {
		if strings.HasSuffix(path, f.ending) {
			return atomicfile.Write(path, func(w io.Writer) error { return f.write(w, c) })
		}
	}
	return fmt.Errorf("%s: unknown ending of a comparison, expected one of %s", path, strings.Join(ComparisonEndings(), " "))
}
