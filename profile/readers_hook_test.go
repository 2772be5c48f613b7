package profile_test

import (
	"errors"
	"fmt"
	"io"

	"hotpath/profile"
	"hotpath/profile/compare"
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
	profile.Readers.Compare = func(w io.Writer, a, b *profile.Profile) error {
		c, err := compare.Compare([]*profile.Profile{a}, []*profile.Profile{b}, "a", "b")
		if err != nil {
			return nil // nothing ran
		}
		c.Worst()
		return errors.Join(c.Text(w, report.Options{Top: -1}), c.JSON(w), export.ComparisonHTML(io.Discard, c))
	}
	profile.Readers.FlameOfLost = func(w io.Writer, p *profile.Profile) error {
		return export.FlameSVG(w, p, export.FlameLost, profile.FlameLayers)
	}
}
