package bench

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// Print writes a table for people. What is the same in every sample, and what
// is nothing before and after, is counted and not listed.
func (c *Comparison) Print(w io.Writer) error {
	rows := [][]string{{"name", "unit", "old", "", "new", "", "change", "p", "verdict"}}
	for i := range c.Changes {
		ch := &c.Changes[i]
		if ch.Verdict == Same || (ch.Verdict == NoDifference || ch.Verdict == TooFew) && ch.Old.Median == 0 && ch.New.Median == 0 {
			continue
		}
		p := fmt.Sprintf("%.3f", ch.Holm)
		if ch.exact {
			p = ""
		}
		rows = append(rows, []string{ch.Name, ch.Unit, short(ch.Old.Median), "±" + ch.Old.Spread, short(ch.New.Median), "±" + ch.New.Spread, ch.percent(), p, string(ch.Verdict)})
	}
	var b strings.Builder
	if len(rows) > 1 {
		columns(&b, rows)
	}
	for _, only := range []struct {
		where string
		names []string
	}{{"old", c.OnlyOld}, {"new", c.OnlyNew}} {
		for _, name := range only.names {
			fmt.Fprintf(&b, "only in %s: %s\n", only.where, name)
		}
	}
	counts := map[Verdict]int{}
	for i := range c.Changes {
		counts[c.Changes[i].Verdict]++
	}
	var said []string
	for _, v := range []Verdict{Faster, Slower, Better, Worse, Changed, Same, NoDifference, TooFew, NotJudged} {
		if n := counts[v]; n > 0 {
			said = append(said, fmt.Sprintf("%d %s", n, v))
		}
	}
	fmt.Fprintf(&b, "%s\n", strings.Join(said, ", "))
	_, err := io.WriteString(w, b.String())
	return err
}

func (c *Change) percent() string {
	if c.Percent == nil {
		return "from 0"
	}
	return fmt.Sprintf("%+.1f%%", *c.Percent)
}

// String is a change in one line.
func (c *Change) String() string {
	sure := fmt.Sprintf("p=%.3f", c.Holm)
	if c.exact {
		sure = "exact"
	}
	return fmt.Sprintf("%s %s %s -> %s (%s, %s)", c.Name, c.Unit, short(c.Old.Median), short(c.New.Median), c.percent(), sure)
}

// short has four significant digits, and never an exponent for what is measured.
func short(v float64) string {
	if a := math.Abs(v); a >= 1000 && a < 1e15 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.4g", v)
}

// columns aligns cells: names and verdicts to the left, numbers to the right.
func columns(b *strings.Builder, rows [][]string) {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], len([]rune(cell)))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-len([]rune(cell)))
			if i < 2 || i == len(row)-1 {
				line.WriteString(cell + pad + "  ")
			} else {
				line.WriteString(pad + cell + "  ")
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}
