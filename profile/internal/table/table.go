// Package table renders the tables of reports, as text and as Markdown, and formats
// the numbers in their cells. It imports nothing of profiles.
package table

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"hotpath/internal/term"
)

// Table is one section of a report. The renderers know tables only, and the
// report knows no renderer.
type Table struct {
	Title string
	Note  string
	Cols  []Col
	Rows  [][]string // [row][col]
	marks []Mark     // [row]; shorter than rows where the rest is plain
}

type Col struct {
	Head  string
	Right bool
}

// Mark is how a row stands out where colours are on.
type Mark int

const (
	Plain Mark = iota
	Strong
	Warn
)

func Left(head string) Col  { return Col{head, false} }
func Right(head string) Col { return Col{head, true} }

func (t *Table) Add(m Mark, cells ...string) {
	for len(t.marks) < len(t.Rows) {
		t.marks = append(t.marks, Plain)
	}
	t.Rows = append(t.Rows, cells)
	t.marks = append(t.marks, m)
}

const (
	ansiReset = "\x1b[0m"
	ansiTitle = "\x1b[1;36m"
	ansiHead  = "\x1b[2m"
)

var ansiMark = map[Mark]string{Strong: "\x1b[1m", Warn: "\x1b[33m"}

func paint(color bool, code, s string) string {
	if !color || code == "" {
		return s
	}
	return code + s + ansiReset
}

// Text renders the table with aligned columns, two spaces between them.
func (t *Table) Text(w io.Writer, color bool) error {
	width := make([]int, len(t.Cols))
	hasHead := false
	for i, c := range t.Cols {
		width[i] = utf8.RuneCountInString(c.Head)
		hasHead = hasHead || c.Head != ""
	}
	for _, row := range t.Rows {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(term.Printable(cell)))
		}
	}
	line := func(cell func(int) string) string {
		var b strings.Builder
		for i, c := range t.Cols {
			s := term.Printable(cell(i))
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(s))
			if c.Right {
				s = pad + s
			} else {
				s += pad
			}
			if i > 0 {
				b.WriteString("  ")
			}
			b.WriteString(s)
		}
		return strings.TrimRight(b.String(), " ")
	}
	var b strings.Builder
	if t.Title != "" {
		b.WriteString(paint(color, ansiTitle, term.Printable(strings.ToUpper(t.Title))))
		if t.Note != "" {
			b.WriteString("  " + paint(color, ansiHead, term.Printable(t.Note)))
		}
		b.WriteString("\n")
	}
	if hasHead {
		b.WriteString("  " + paint(color, ansiHead, line(func(i int) string { return t.Cols[i].Head })) + "\n")
	}
	for r, row := range t.Rows {
		code := ""
		if r < len(t.marks) {
			code = ansiMark[t.marks[r]]
		}
		b.WriteString("  " + paint(color, code, line(func(i int) string { return row[i] })) + "\n")
	}
	_, err := io.WriteString(w, b.String()+"\n")
	return err
}

var MarkdownEscape = strings.NewReplacer("|", `\|`, "`", "\\`", "*", `\*`, "_", `\_`, "<", "&lt;", "&", "&amp;", "[", `\[`)

// Markdown renders the table as a pipe table under a heading.
func (t *Table) Markdown(w io.Writer) error {
	var b strings.Builder
	if t.Title != "" {
		title := term.Printable(t.Title)
		fmt.Fprintf(&b, "## %s\n\n", strings.ToUpper(title[:1])+MarkdownEscape.Replace(title[1:]))
	}
	if t.Note != "" {
		fmt.Fprintf(&b, "%s\n\n", MarkdownEscape.Replace(term.Printable(t.Note)))
	}
	line := func(cell func(int) string) {
		for i := range t.Cols {
			b.WriteString("| " + cell(i) + " ")
		}
		b.WriteString("|\n")
	}
	line(func(i int) string { return t.Cols[i].Head })
	line(func(i int) string {
		if t.Cols[i].Right {
			return "---:"
		}
		return "---"
	})
	for _, row := range t.Rows {
		line(func(i int) string {
			// Leading spaces are depth, which a pipe table would swallow.
			cell := term.Printable(row[i])
			body := strings.TrimLeft(cell, " ")
			return strings.Repeat("&nbsp;", len(cell)-len(body)) + MarkdownEscape.Replace(body)
		})
	}
	_, err := io.WriteString(w, b.String()+"\n")
	return err
}
