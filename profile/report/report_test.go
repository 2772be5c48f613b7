package report

import (
	"bytes"
	"encoding/csv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotpath/profile"
	"hotpath/profile/internal/table"
)

// Names come from files: they may not steer the terminal, break a Markdown
// table or shift a CSV column.
func TestReportsKeepHostileNamesInTheirCells(t *testing.T) {
	p := fixture(t)
	const evil = "a\x1b[2J|b,\"c\"\n`x`"
	p.Plans[0].Steps[1].Name, p.Facts.Model = evil, evil
	var text, md, table bytes.Buffer
	for _, err := range []error{Text(&text, p, Options{}), Markdown(&md, p, Options{}), CSV(&table, p)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if strings.ContainsRune(text.String(), 0x1b) || strings.ContainsRune(md.String(), 0x1b) {
		t.Error("an escape sequence got through")
	}
	columns := 0
	for line := range strings.Lines(md.String()) {
		if strings.HasPrefix(line, "|") {
			n := strings.Count(line, "|") - strings.Count(line, `\|`)
			if columns != 0 && n != columns {
				t.Errorf("%d columns, then %d in %q", columns, n, line)
			}
			columns = n
		} else {
			columns = 0
		}
	}
	rows, err := csv.NewReader(&table).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows[1:] {
		for i, field := range rows[0] {
			if field == "name" && row[i] == evil {
				return
			}
		}
	}
	t.Error("the CSV lost the name")
}

func TestParseBy(t *testing.T) {
	if by, err := profile.ParseBy(""); err != nil || by != profile.ByTime {
		t.Errorf("%q, %v", by, err)
	}
	if by, err := profile.ParseBy("alloc"); err != nil || by != profile.ByAlloc {
		t.Errorf("%q, %v", by, err)
	}
	if _, err := profile.ParseBy("size"); err == nil || !strings.Contains(err.Error(), "time, lost, alloc, flops") {
		t.Errorf("error %v, want the known rankings", err)
	}
}

// A column of zeros would say that lanes were never taken off the CPU, where
// nobody looked.
func TestOffCPUIsShownWhereKnown(t *testing.T) {
	p := fixture(t)
	show := func() string {
		var b bytes.Buffer
		if err := Text(&b, p, Options{}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if s := show(); strings.Contains(s, "no cpu %") {
		t.Errorf("a column of time without a processor, which no lane stamped, in\n%s", s)
	}
	p.Ledger.OffCPU, p.Ledger.OffCompute = 10_000, 8_000
	if s := show(); !strings.Contains(s, "no cpu %") || !strings.Contains(s, "= compute + no cpu + barrier") {
		t.Errorf("no time without a processor in\n%s", s)
	}
}

// The samples in the guide have the heads that reports have.
func TestGuideHasTheHeads(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "profiling.md"))
	if err != nil {
		t.Fatal(err)
	}
	p := fixture(t)
	for _, table := range []table.Table{plansTable(p, Options{}), ledgerTable(p, Options{}), heapTable(p, Options{})} {
		if head := strings.ToUpper(table.Title) + "  " + table.Note; !strings.Contains(string(guide), head) {
			t.Errorf("docs/profiling.md has no %q", head)
		}
	}
}
