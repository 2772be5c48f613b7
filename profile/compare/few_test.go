package compare

import (
	"bytes"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"hotpath/profile/report"
)

// A difference of one run and one run has no interval, and none is printed: not
// one of no width either.
func TestOneRunEachHasNoInterval(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	m := &machines[0]
	c := compare(t, m.records(rng, 1, 1, asIs), m.records(rng, 1, 1, asIs))
	var text, doc bytes.Buffer
	if err := c.Text(&text, report.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := c.JSON(&doc); err != nil {
		t.Fatal(err)
	}
	if s := text.String(); strings.Count(s, "too few") < len(c.Plans[0].Kinds) {
		t.Errorf("not every row says that it has no interval:\n%s", s)
	}
	if strings.Contains(doc.String(), "percent_low") {
		t.Error("the JSON has intervals of one run each")
	}
	c = slowerComparison(t)
	for _, d := range c.Plans[0].Kinds {
		for m := range measures {
			if c := d.Of(m); c.Low == nil || c.High == nil || !(*c.Low <= c.Percent && c.Percent <= *c.High) {
				t.Errorf("%s of %s: %v %% from %v to %v", m, d.Name, c.Percent, c.Low, c.High)
			}
		}
	}
}

// One recording against one of a machine that interrupts steps: noise and intervals
// stay readable, and rows that nothing is known of claim none.
func TestNoiseOfOneRecordingEachIsReadable(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	wild := machine{"wild", 0.3, 0.3, 0.3, 0.5, 0.3, 3, 1.5, 1, 0.3, false}
	for _, runs := range []int{1, 4, 8, 12, 20} {
		for range 10 {
			c := compare(t, wild.records(rng, 1, runs, asIs), wild.records(rng, 1, runs, asIs))
			p := &c.Plans[0]
			for _, rows := range [][]Diff{p.Kinds, p.Layers, p.Steps, {p.Total, p.Common, p.Wait}} {
				for k := range rows {
					for m := range measures {
						ch := rows[k].Of(m)
						if ch.Noise > mostNoise || ch.High != nil && *ch.High > max(mostNoise, ch.Percent) {
							t.Errorf("%s of %s: noise %v, up to %v", m, rows[k].Name, ch.Noise, *ch.High)
						}
						if noise := ch.noise(); (noise == "") != (ch.Low == nil) || len(noise) > len("±100.0") {
							t.Errorf("%s of %s: noise is printed as %q", m, rows[k].Name, noise)
						}
					}
				}
			}
			if runs < leastBlocks && (p.Shift != [measures]float64{} || p.LayerShift != [measures]float64{}) {
				t.Errorf("%d runs: %v and %v were found to be common", runs, p.Shift, p.LayerShift)
			}
			holdsEstimates(t, c)
			if err := c.JSON(io.Discard); err != nil {
				t.Error(err)
			}
		}
	}
}
