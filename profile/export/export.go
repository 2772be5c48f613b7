// Package export writes profiles and comparisons in the formats of other
// programs: pprof, traces for Perfetto, flame graphs, HTML. The ending of the
// file name selects the format.
//
// It imports packages profile, report and compare. Only commands and studies
// import it.
package export

import (
	"compress/gzip"
	"fmt"
	"io"
	"strings"

	"hotpath/internal/atomicfile"
	"hotpath/profile"
	"hotpath/profile/report"
)

// Exporter writes a profile in the format of one file ending. A residual may be
// negative (see [Ledger]); a format without negative values omits it.
type Exporter struct {
	Ending string // ".trace.json"
	What   string // one line for help texts
	Write  func(w io.Writer, p *profile.Profile) error
}

// exporters is the table of formats: a new one is a file of its own and a row
// here. [profile.EachStack] is the walk for formats that are made of stacks; stacks may
// repeat, and names may contain any character.
var exporters = []Exporter{
	{".json", "hotpath's own format, which show and export read", func(w io.Writer, p *profile.Profile) error { return p.Write(w) }},
	{".pprof", "go tool pprof", writePprof},
	{".trace.json", "Chrome trace, for Perfetto", writeTrace},
	{".trace.json.gz", "the same, compressed", zipped(writeTrace)},
	{".html", "one page: flame graph, tree, timeline, roofline, memory; needs no network", writeHTML},
	{".svg", "flame graph of time, bytes or lost time", func(w io.Writer, p *profile.Profile) error { return FlameSVG(w, p, FlameTime, profile.FlameLayers) }},
	{".csv", "one row a step", report.CSV},
	{".md", "the report in Markdown", func(w io.Writer, p *profile.Profile) error { return report.Markdown(w, p, report.Options{}) }},
	{".txt", "the report as text", func(w io.Writer, p *profile.Profile) error { return report.Text(w, p, report.Options{}) }},
}

// Exporters lists the formats that Export knows.
func Exporters() []Exporter { return append([]Exporter(nil), exporters...) }

// Export writes the profile to path in the format of its ending, the longest
// that matches. The file appears whole or not at all.
func Export(path string, p *profile.Profile) error {
	var best *Exporter
	endings := make([]string, len(exporters))
	for i := range exporters {
		e := &exporters[i]
		endings[i] = e.Ending
		if strings.HasSuffix(path, e.Ending) && (best == nil || len(e.Ending) > len(best.Ending)) {
			best = e
		}
	}
	if best == nil {
		return fmt.Errorf("%s: unknown ending of a profile export, expected one of %s", path, strings.Join(endings, " "))
	}
	return atomicfile.Write(path, func(w io.Writer) error { return best.Write(w, p) })
}

func zipped(write func(io.Writer, *profile.Profile) error) func(io.Writer, *profile.Profile) error {
	return func(w io.Writer, p *profile.Profile) error {
		z := gzip.NewWriter(w)
		if err := write(z, p); err != nil {
			return err
		}
		return z.Close()
	}
}
