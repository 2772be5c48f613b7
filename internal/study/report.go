package study

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"hotpath/internal/atomicfile"
)

// Report is a finished study. Every field is filled: Check refuses a report
// with a blank in it.
type Report struct {
	Name     string    `json:"name"`
	Title    string    `json:"title"`
	Question string    `json:"question"`
	Created  time.Time `json:"created"`
	// Advice is what follows, the most useful first. It rests on intervals that
	// exclude zero, or says that none does.
	Advice   []string  `json:"advice"`
	Facts    []Fact    `json:"facts"`
	Sections []Section `json:"sections"`
	// Trials are the measurements that the figures come from.
	Trials []NamedTrial `json:"trials"`
}

// Fact is one line about the machine, the model or the method.
type Fact struct{ Name, Value string }

// NamedTrial is a trial and the condition that it was made under.
type NamedTrial struct {
	Name string `json:"name"`
	*Trial
}

// Section is a part of a report, shown in the order of its fields.
type Section struct {
	Title   string   `json:"title"`
	Text    []string `json:"text,omitempty"`
	Table   *Table   `json:"table,omitempty"`
	Figures []Figure `json:"figures,omitempty"`
}

// Table has as many cells a row as heads.
type Table struct {
	Head []string   `json:"head"`
	Left int        `json:"-"` // columns of words; the others are numbers
	Rows [][]string `json:"rows"`
}

// Figure is a picture: an SVG document of its own, NAME.svg in the folder.
type Figure struct {
	Name    string `json:"name"`
	Caption string `json:"caption"`
	SVG     string `json:"-"`
}

func (t *Table) addRow(cells ...string) { t.Rows = append(t.Rows, cells) }

var blank = regexp.MustCompile(`(?i)\b(nan|[+-]?inf|todo|tbd)\b|^\s*$`)

// Check finds what is missing.
func (r *Report) Check() error {
	var wrong []string
	see := func(where string, texts ...string) {
		for _, s := range texts {
			if blank.MatchString(s) {
				wrong = append(wrong, fmt.Sprintf("%s: %q", where, s))
			}
		}
	}
	see("head", r.Name, r.Title, r.Question)
	see("advice", r.Advice...)
	if len(r.Advice) == 0 || len(r.Facts) == 0 || len(r.Sections) == 0 {
		wrong = append(wrong, "no advice, facts or sections")
	}
	for _, f := range r.Facts {
		see("fact "+f.Name, f.Name, f.Value)
	}
	for _, s := range r.Sections {
		see("section", s.Title)
		see(s.Title, s.Text...)
		if s.Table == nil && len(s.Figures) == 0 && len(s.Text) == 0 {
			wrong = append(wrong, s.Title+": empty")
		}
		if s.Table != nil {
			if len(s.Table.Rows) == 0 {
				wrong = append(wrong, s.Title+": a table without rows")
			}
			see(s.Title, s.Table.Head...)
			for i, row := range s.Table.Rows {
				if len(row) != len(s.Table.Head) {
					wrong = append(wrong, fmt.Sprintf("%s: row %d has %d cells under %d heads", s.Title, i, len(row), len(s.Table.Head)))
				}
				see(fmt.Sprintf("%s, row %d", s.Title, i), row...)
			}
		}
		for _, f := range s.Figures {
			see(s.Title+", figure", f.Name, f.Caption, f.SVG)
			if strings.Contains(f.SVG, "NaN") || strings.Contains(f.SVG, "Inf\"") {
				wrong = append(wrong, f.Name+": a picture with what is no number")
			}
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("study %s: the report has blanks: %s", r.Name, strings.Join(wrong, "; "))
	}
	return nil
}

// Prepare makes the folder of a report and finds out whether it can be written,
// which is better known before the work than after it.
func Prepare(folder string) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	return atomicfile.Check(filepath.Join(folder, "report.md"))
}

// Write puts report.md, report.html, data.json and the pictures into a folder,
// and returns the paths of the first two.
func (r *Report) Write(folder string) (markdown, page string, err error) {
	if err := r.Check(); err != nil {
		return "", "", err
	}
	if err := Prepare(folder); err != nil {
		return "", "", err
	}
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return "", "", err
	}
	files := map[string][]byte{"data.json": append(data, '\n'), "report.md": []byte(r.Markdown()), "report.html": []byte(r.HTML())}
	for _, s := range r.Sections {
		for _, f := range s.Figures {
			files[f.Name+".svg"] = []byte(f.SVG)
		}
	}
	for name, content := range files {
		if err := atomicfile.WriteFile(filepath.Join(folder, name), content); err != nil {
			return "", "", err
		}
	}
	return filepath.Join(folder, "report.md"), filepath.Join(folder, "report.html"), nil
}

var mdEscape = strings.NewReplacer("|", `\|`, "<", "&lt;", "\n", " ")

// Markdown is the report with its pictures as links.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n\n## Advice\n\n", mdEscape.Replace(r.Title), mdEscape.Replace(r.Question))
	for _, a := range r.Advice {
		fmt.Fprintf(&b, "- %s\n", mdEscape.Replace(a))
	}
	b.WriteString("\n## Facts\n\n| | |\n|---|---|\n")
	fmt.Fprintf(&b, "| measured | %s |\n", r.Created.UTC().Format("2006-01-02 15:04 UTC"))
	for _, f := range r.Facts {
		fmt.Fprintf(&b, "| %s | %s |\n", mdEscape.Replace(f.Name), mdEscape.Replace(f.Value))
	}
	for _, s := range r.Sections {
		fmt.Fprintf(&b, "\n## %s\n", mdEscape.Replace(s.Title))
		for _, t := range s.Text {
			fmt.Fprintf(&b, "\n%s\n", mdEscape.Replace(t))
		}
		if t := s.Table; t != nil {
			b.WriteByte('\n')
			row := func(cells []string) {
				for _, c := range cells {
					b.WriteString("| " + mdEscape.Replace(c) + " ")
				}
				b.WriteString("|\n")
			}
			row(t.Head)
			for i := range t.Head {
				b.WriteString(map[bool]string{true: "|---", false: "|---:"}[i < t.Left])
			}
			b.WriteString("|\n")
			for _, cells := range t.Rows {
				row(cells)
			}
		}
		for _, f := range s.Figures {
			fmt.Fprintf(&b, "\n![%s](%s.svg)\n", mdEscape.Replace(f.Caption), f.Name)
		}
	}
	return b.String()
}
