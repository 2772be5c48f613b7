package profile

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"hotpath/internal/term"
)

// table is one section of a report. The renderers know tables only, and the
// report knows no renderer.
type table struct {
	title string
	note  string
	cols  []col
	rows  [][]string // [row][col]
	marks []mark     // [row]; shorter than rows where the rest is plain
}

type col struct {
	head  string
	right bool
}

// mark is how a row stands out where colours are on.
type mark int

const (
	plain mark = iota
	strong
	warn
)

func left(head string) col  { return col{head, false} }
func right(head string) col { return col{head, true} }

func (t *table) add(m mark, cells ...string) {
	for len(t.marks) < len(t.rows) {
		t.marks = append(t.marks, plain)
	}
	t.rows = append(t.rows, cells)
	t.marks = append(t.marks, m)
}

const (
	ansiReset = "\x1b[0m"
	ansiTitle = "\x1b[1;36m"
	ansiHead  = "\x1b[2m"
)

var ansiMark = map[mark]string{strong: "\x1b[1m", warn: "\x1b[33m"}

func paint(color bool, code, s string) string {
	if !color || code == "" {
		return s
	}
	return code + s + ansiReset
}

// text renders the table with aligned columns, two spaces between them.
func (t *table) text(w io.Writer, color bool) error {
	width := make([]int, len(t.cols))
	hasHead := false
	for i, c := range t.cols {
		width[i] = utf8.RuneCountInString(c.head)
		hasHead = hasHead || c.head != ""
	}
	for _, row := range t.rows {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(term.Printable(cell)))
		}
	}
	line := func(cell func(int) string) string {
		var b strings.Builder
		for i, c := range t.cols {
			s := term.Printable(cell(i))
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(s))
			if c.right {
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
	if t.title != "" {
		b.WriteString(paint(color, ansiTitle, term.Printable(strings.ToUpper(t.title))))
		if t.note != "" {
			b.WriteString("  " + paint(color, ansiHead, term.Printable(t.note)))
		}
		b.WriteString("\n")
	}
	if hasHead {
		b.WriteString("  " + paint(color, ansiHead, line(func(i int) string { return t.cols[i].head })) + "\n")
	}
	for r, row := range t.rows {
		code := ""
		if r < len(t.marks) {
			code = ansiMark[t.marks[r]]
		}
		b.WriteString("  " + paint(color, code, line(func(i int) string { return row[i] })) + "\n")
	}
	_, err := io.WriteString(w, b.String()+"\n")
	return err
}

var markdownEscape = strings.NewReplacer("|", `\|`, "`", "\\`", "*", `\*`, "_", `\_`, "<", "&lt;", "&", "&amp;", "[", `\[`)

// markdown renders the table as a pipe table under a heading.
func (t *table) markdown(w io.Writer) error {
	var b strings.Builder
	if t.title != "" {
		title := term.Printable(t.title)
		fmt.Fprintf(&b, "## %s\n\n", strings.ToUpper(title[:1])+markdownEscape.Replace(title[1:]))
	}
	if t.note != "" {
		fmt.Fprintf(&b, "%s\n\n", markdownEscape.Replace(term.Printable(t.note)))
	}
	line := func(cell func(int) string) {
		for i := range t.cols {
			b.WriteString("| " + cell(i) + " ")
		}
		b.WriteString("|\n")
	}
	line(func(i int) string { return t.cols[i].head })
	line(func(i int) string {
		if t.cols[i].right {
			return "---:"
		}
		return "---"
	})
	for _, row := range t.rows {
		line(func(i int) string {
			// Leading spaces are depth, which a pipe table would swallow.
			cell := term.Printable(row[i])
			body := strings.TrimLeft(cell, " ")
			return strings.Repeat("&nbsp;", len(cell)-len(body)) + markdownEscape.Replace(body)
		})
	}
	_, err := io.WriteString(w, b.String()+"\n")
	return err
}
