package study

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"hotpath/internal/term"
)

// Text is the report for a terminal, without its pictures.
func (r *Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n\n", strings.ToUpper(r.Title), r.Question)
	for _, a := range r.Advice {
		fmt.Fprintf(&b, "- %s\n", a)
	}
	b.WriteString("\n")
	facts := &Table{Left: 2, Head: []string{"", ""}}
	for _, f := range r.Facts {
		facts.addRow(f.Name, f.Value)
	}
	facts.text(&b)
	for _, s := range r.Sections {
		fmt.Fprintf(&b, "\n%s\n", strings.ToUpper(s.Title))
		for _, t := range s.Text {
			fmt.Fprintf(&b, "%s\n", t)
		}
		if s.Table != nil {
			s.Table.text(&b)
		}
	}
	return term.Lines(b.String())
}

// text aligns the columns, two spaces between them.
func (t *Table) text(b *strings.Builder) {
	rows := t.Rows
	if strings.Join(t.Head, "") != "" {
		rows = append([][]string{t.Head}, rows...)
	}
	wide := make([]int, len(t.Head))
	for _, row := range rows {
		for i, c := range row {
			wide[i] = max(wide[i], utf8.RuneCountInString(c))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, c := range row {
			pad := strings.Repeat(" ", wide[i]-utf8.RuneCountInString(c))
			if i >= t.Left {
				c = pad + c
			} else {
				c += pad
			}
			line.WriteString("  " + c)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}
