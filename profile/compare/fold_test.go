package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"hotpath/profile"
	"hotpath/profile/internal/table"
	"hotpath/profile/report"
)

// Rows that are the same are one row with their sum, unless there is only one. Rows that
// changed or are near to it stay, up to a number.
func TestFoldDiffs(t *testing.T) {
	row := func(name string, v Verdict, holm float64) Diff {
		c := change(1, 0, 2, holm, Same)
		return Diff{Name: name, Before: 2, After: 3, Work: 0.5, Efficiency: 0.25, Wait: 0.25, tested: v != Untested, Verdict: v, Median: c, Mean: c, P95: c}
	}
	names := func(rows []Diff) string {
		var out []string
		for _, d := range rows {
			out = append(out, fmt.Sprintf("%s %g %g %g %s", d.Name, d.Before, d.After, d.Delta()-d.Work-d.Efficiency-d.Wait, d.Verdict))
		}
		return strings.Join(out, "; ")
	}
	for _, c := range []struct {
		rows []Diff
		want string
	}{
		{[]Diff{row("a", Slower, 0), row("b", Same, 0.1), row("c", Same, 1), row("d", Same, 1), row("e", Untested, 0)}, "a 2 3 0 slower; b 2 3 0 same; 2 others 4 6 0 same; e 2 3 0 untested"},
		{[]Diff{row("a", Slower, 0), row("b", Same, 1)}, "a 2 3 0 slower; b 2 3 0 same"},
		{[]Diff{row("a", Same, 1), row("b", Same, 1), row("c", Same, 1)}, "all 3 6 9 0 same"},
		{nil, ""},
	} {
		if out, note := foldDiffs(c.rows); names(out) != c.want || note != "" {
			t.Errorf("%q with the note %q, expected %q", names(out), note, c.want)
		}
	}
	many := make([]Diff, foldedTop+3)
	for i := range many {
		many[i] = row(fmt.Sprint(i), Slower, 0)
	}
	if out, note := foldDiffs(many); len(out) != foldedTop || note != "15 of 18 that stand out" {
		t.Errorf("%d rows with the note %q", len(out), note)
	}
}

// Without a number of rows the text has what changed and little else; -1 lists all rows.
func TestTextIsShort(t *testing.T) {
	rng := rand.New(rand.NewPCG(101, 1))
	m := &machines[0]
	sides := func(slow float64) *Comparison {
		return compare(t, madeInTurn(0, m.records(rng, 6, 24, asIs)), madeInTurn(1, m.records(rng, 6, 24, func(s *profile.Step) float64 { return timesIf(s.Op == "attention", slow) })))
	}
	text := func(c *Comparison, top int) string {
		var b strings.Builder
		if err := c.Text(&b, report.Options{Top: top}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	c := sides(1)
	short, long := text(c, 0), text(c, -1)
	if n := strings.Count(short, "\n"); n > 60 || strings.Count(long, " same\n") < len(c.Plans[0].Steps) || !strings.Contains(short, fmt.Sprintf("  all %d ", len(c.Plans[0].Steps))) || strings.Contains(long, "folded") {
		t.Errorf("%d lines of one build, and %d rows that are the same of all:\n%s", n, strings.Count(long, " same\n"), short)
	}
	c = sides(1.5)
	var sum, after float64
	for _, d := range c.Plans[0].Kinds {
		sum, after = sum+d.Before, after+d.After
	}
	rows, _ := foldDiffs(c.Plans[0].Kinds)
	for _, d := range rows {
		sum, after = sum-d.Before, after-d.After
	}
	if math.Abs(sum)+math.Abs(after) > 1e-3 || !strings.Contains(text(c, 0), "\n  attention ") || !strings.Contains(text(c, 0), " others ") {
		t.Errorf("%g and %g ns are not in the rows of ops:\n%s", sum, after, text(c, 0))
	}
}

// A number of rows bounds every table, those with a star first.
func TestTopBoundsEveryTable(t *testing.T) {
	c := &Comparison{}
	for i, v := range []Verdict{Same, Same, Slower, Same} {
		name, ch := fmt.Sprint("row ", i), change(1, 0, 2, 1, Same)
		uneven, ledger, memory := v, v, v
		if v == Slower {
			ch.Holm, uneven, ledger, memory = 0.001, MoreTime, MoreTime, MoreMemory
		}
		c.Scopes = append(c.Scopes, ScopeDiff{Name: name, Change: ch, Verdict: v})
		c.Uneven = append(c.Uneven, UnevenDiff{Plan: name, Change: ch, Verdict: uneven})
		c.Ledger = append(c.Ledger, LedgerDiff{Of: name, Change: ch, Verdict: ledger})
		c.Memory = append(c.Memory, MemoryDiff{Owner: name, Verdict: memory})
	}
	for top, want := range map[int]string{-1: "row 2, row 0, row 1, row 3", 1: "row 2", 3: "row 2, row 0, row 1", 4: "row 2, row 0, row 1, row 3", 0: "row 2, 3 others"} {
		for _, tab := range []table.Table{c.scopesTable(top), c.unevenTable(top), c.ledgerTable(top), c.memoryTable(top)} {
			var names []string
			for _, r := range tab.Rows {
				names = append(names, r[0])
			}
			cut := top > 0 && top < 4
			if got := strings.Join(names, ", "); got != want || strings.Contains(tab.Note, fmt.Sprintf("%d of 4", top)) != cut {
				t.Errorf("--top %d: %s has %q, expected %q; note %q", top, tab.Title, got, want, tab.Note)
			}
		}
	}
}
