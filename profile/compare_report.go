package profile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
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

// Summary is the comparison in one line.
func (c *Comparison) Summary() string {
	all := percentOf(c.Total.Delta(), c.Total.Before)
	different := c.Different()
	if len(different) == 0 {
		return fmt.Sprintf("no difference: B took %s, which two recordings of one build may", longer(all))
	}
	d := different[0]
	if worse := c.Worse(); math.Abs(worse) >= 0.05 {
		return fmt.Sprintf("B took %s; for sure %s; most of that: %s, %s", longer(all), longer(worse), d.Name, d.verdict())
	}
	return fmt.Sprintf("B took %s, none of it for sure; the first difference: %s, %s", longer(all), d.Name, d.verdict())
}

func longer(percent float64) string {
	if percent < 0 {
		return fmt.Sprintf("%.1f %% less time than A", -percent)
	}
	return fmt.Sprintf("%.1f %% longer than A", percent)
}

func (d *Diff) verdict() string {
	switch d.Verdict {
	case Slower, Faster:
		return fmt.Sprintf("%.1f %% %s", math.Abs(d.Percent), d.Verdict)
	}
	return string(d.Verdict)
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
	head := table{title: "comparison", note: "ms a run; after - before = work + efficiency + wait", cols: []col{left(""), left("")}}
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
			p.table("by op", "a fused step counts as what most of it is", p.Kinds, o.Top), p.table("steps", "", p.Steps, o.Top))
		if len(p.Layers) > 1 {
			out = append(out, p.table("by layer", "", p.Layers, -1))
		}
	}
	return out
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
	t := table{title: title, note: note, cols: []col{left(""), right("before"), right("after"), right("diff"), right("diff %"),
		right("work"), right("efficiency"), right("wait"), right("for the same work"), right("95 %"), right("noise"), right("p (Holm)"), left("verdict")}}
	for i := range rows {
		d := &rows[i]
		m := plain
		if d.Changed() {
			m = strong
		}
		if d.Verdict == Slower || d.Verdict == MoreWork {
			m = warn
		}
		cells := []string{d.Name, fms(d.Before), fms(d.After), signed(d.Delta()), fmt.Sprintf("%+.1f", percentOf(d.Delta(), d.Before)),
			signed(d.Work), signed(d.Efficiency), signed(d.Wait), "", "", "", "", string(d.Verdict)}
		if d.Noise > 0 {
			cells[8] = fmt.Sprintf("%+.1f %%", d.Percent)
			cells[9] = "too few"
			if d.Low != nil && d.High != nil {
				cells[9] = fmt.Sprintf("%+.1f to %+.1f", *d.Low, *d.High)
			}
			cells[10] = fmt.Sprintf("±%.1f", d.Noise)
			cells[11] = strconv.FormatFloat(d.Holm, 'g', 2, 64)
		}
		if d.Noise == 0 && d.Verdict == Untested { // a sum
			cells[12] = ""
		}
		t.add(m, cells...)
	}
	return t
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
