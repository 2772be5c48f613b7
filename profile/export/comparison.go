package export

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"hotpath/internal/atomicfile"
	"hotpath/profile/compare"
	"hotpath/profile/report"
)

// ComparisonHTML writes a comparison as one page that needs nothing but itself, with
// a difference flame graph of each plan.
func ComparisonHTML(w io.Writer, c *compare.Comparison) error {
	return page(w, c.A+" against "+c.B, comparisonOf(c), compareJS)
}

// comparers is the table of formats of comparisons, by the ending of a file.
var comparers = []struct {
	ending string
	write  func(io.Writer, *compare.Comparison) error
}{
	{".json", func(w io.Writer, c *compare.Comparison) error { return c.JSON(w) }},
	{".md", func(w io.Writer, c *compare.Comparison) error { return c.Markdown(w, report.Options{}) }},
	{".txt", func(w io.Writer, c *compare.Comparison) error { return c.Text(w, report.Options{}) }},
	{".html", ComparisonHTML},
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
func ExportComparison(path string, c *compare.Comparison) error {
	for _, f := range comparers {
		if strings.HasSuffix(path, f.ending) {
			return atomicfile.Write(path, func(w io.Writer) error { return f.write(w, c) })
		}
	}
	return fmt.Errorf("%s: unknown ending of a comparison, expected one of %s", path, strings.Join(ComparisonEndings(), " "))
}
