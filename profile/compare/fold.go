package compare

import (
	"fmt"

	"hotpath/profile/internal/table"
)

// Most rows of a comparison are the same. Unless somebody asks for a number of rows,
// tables list the rows that changed or are near to it, and fold the others: one row for
// each verdict.

// foldedTop is how many rows that stand out are listed at most.
const foldedTop = 15

// foldDiffs lists rows in their order and adds up those that are folded. The changes are
// those of single rows, so a sum has none.
func foldDiffs(rows []Diff) (out []Diff, note string) {
	var order []Verdict
	quiet, stand := map[Verdict][]Diff{}, 0
	for _, d := range rows {
		if d.Changed() || d.corrected() < nearlyFalse {
			if stand++; stand <= foldedTop {
				out = append(out, d)
			}
			continue
		}
		if quiet[d.Verdict] == nil {
			order = append(order, d.Verdict)
		}
		quiet[d.Verdict] = append(quiet[d.Verdict], d)
	}
	if stand > foldedTop {
		note = fmt.Sprintf("%d of %d that stand out", foldedTop, stand)
	}
	for _, v := range order {
		if len(quiet[v]) == 1 {
			out = append(out, quiet[v][0])
			continue
		}
		sum := Diff{Name: foldedName(len(quiet[v]), len(rows)), Layer: -1, Verdict: v}
		for _, d := range quiet[v] {
			sum.Before, sum.After = sum.Before+d.Before, sum.After+d.After
			sum.Work, sum.Efficiency, sum.Wait = sum.Work+d.Work, sum.Efficiency+d.Efficiency, sum.Wait+d.Wait
		}
		out = append(out, sum)
	}
	return out, note
}

// foldedName is the name of a row that stands for n of all.
func foldedName(n, all int) string {
	if n == all {
		return fmt.Sprintf("all %d", n)
	}
	return fmt.Sprintf("%d others", n)
}

// folding adds rows to a table: top of them, or all with -1. With 0 it folds those that
// are quiet.
type folding struct {
	top   int
	order []Verdict
	quiet map[Verdict][][]string
}

// add adds a row, or keeps it for close.
func (f *folding) add(t *table.Table, v Verdict, quiet bool, m table.Mark, cells ...string) {
	if f.top != 0 || !quiet {
		t.Add(m, cells...)
		return
	}
	if f.quiet == nil {
		f.quiet = map[Verdict][][]string{}
	}
	if f.quiet[v] == nil {
		f.order = append(f.order, v)
	}
	f.quiet[v] = append(f.quiet[v], cells)
}

// close drops rows beyond top, or adds a row for each verdict of the rows that were
// kept, with their number in the first column and the verdict in the one that has it.
func (f *folding) close(t *table.Table) {
	all := len(t.Rows)
	if f.top > 0 && all > f.top {
		t.Note = table.Join(t.Note, fmt.Sprintf("%d of %d", f.top, all))
		t.Rows = t.Rows[:f.top]
	}
	for _, rows := range f.quiet {
		all += len(rows)
	}
	for _, v := range f.order {
		if len(f.quiet[v]) == 1 {
			t.Add(table.Plain, f.quiet[v][0]...)
			continue
		}
		cells := make([]string, len(t.Cols))
		cells[0] = foldedName(len(f.quiet[v]), all)
		for i, c := range t.Cols {
			if c.Head == "verdict" {
				cells[i] = string(v)
			}
		}
		t.Add(table.Plain, cells...)
	}
}
