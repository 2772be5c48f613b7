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
		var all error
		// Several recordings per side are tested in other ways than one.
		for _, sides := range [][2][]*profile.Profile{{{a}, {b}}, {{a, a}, {b, b}}} {
			c, err := compare.Compare(sides[0], sides[1], "a", "b")
			if err != nil {
				continue // nothing ran
			}
			c.Worst()
			all = errors.Join(all, c.Text(w, report.Options{}), c.Text(w, report.Options{Top: -1}), c.JSON(w), export.ComparisonHTML(io.Discard, c))
		}
		return all
	}
	profile.Readers.FlameOfLost = func(w io.Writer, p *profile.Profile) error {
		return export.FlameSVG(w, p, export.FlameLost, profile.FlameLayers)
	}
}
