package export

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"

	"hotpath/profile"
	"hotpath/profile/report"
)

var update = flag.Bool("update", false, "rewrite the goldens under testdata")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is\n%s\nwant\n%s", path, got, want)
	}
}

func TestReportGoldens(t *testing.T) {
	p := fixture(t)
	for _, c := range []struct {
		golden string
		write  func(io.Writer) error
	}{
		{"report.txt", func(w io.Writer) error { return report.Text(w, p, report.Options{}) }},
		{"report_top2_lost_color.txt", func(w io.Writer) error {
			return report.Text(w, p, report.Options{Top: 2, By: profile.ByLost, Color: true})
		}},
		{"report.md", func(w io.Writer) error { return report.Markdown(w, p, report.Options{}) }},
		{"steps.csv", func(w io.Writer) error { return report.CSV(w, p) }},
		{"profile.trace.json", func(w io.Writer) error { return writeTrace(w, p) }},
	} {
		var b bytes.Buffer
		if err := c.write(&b); err != nil {
			t.Fatal(err)
		}
		golden(t, c.golden, b.Bytes())
	}
}
