package profile_test

import (
	"fmt"
	"io"

	"hotpath/profile"
	"hotpath/profile/export"
	"hotpath/profile/report"
)

func init() {
	profile.Readers.Text = func(w io.Writer, p *profile.Profile) error { return report.Text(w, p, report.Options{}) }
	profile.Readers.Export = export.Export
	profile.Readers.EachFormat = func(p *profile.Profile) error {
		for _, e := range export.Exporters() {
			if err := e.Write(io.Discard, p); err != nil {
				return fmt.Errorf("%s: %w", e.Ending, err)
			}
		}
		return nil
	}
	profile.Readers.FlameOfLost = func(w io.Writer, p *profile.Profile) error {
		return export.FlameSVG(w, p, export.FlameLost, profile.FlameLayers)
	}
}
