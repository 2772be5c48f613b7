package profile

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// Four and four values have an interval of 95 per cent, or eight and two: of
// fewer, one that is extreme by luck is not rare enough.
func TestIntervals(t *testing.T) {
	for _, c := range []struct {
		n, m int
		want bool
	}{{0, 9, false}, {1, 1, false}, {1, 38, false}, {1, 39, true}, {2, 7, false}, {2, 8, true}, {3, 4, false}, {5, 3, true}, {4, 4, true}, {5000, 5000, true}} {
		if got := intervals(c.n, c.m); got != c.want || got != intervals(c.m, c.n) {
			t.Errorf("%d and %d values: %v, expected %v", c.n, c.m, got, c.want)
		}
	}
}

// A difference of one run and one run has no interval, and none is printed: not
// one of no width either.
func TestOneRunEachHasNoInterval(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	m := &machines[0]
	c := compare(t, m.records(rng, 1, 1, asIs), m.records(rng, 1, 1, asIs))
	var text, doc bytes.Buffer
	if err := c.Text(&text, ReportOptions{}); err != nil {
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
		if d.Low == nil || d.High == nil || !(*d.Low <= d.Percent && d.Percent <= *d.High) {
			t.Errorf("%s: %v %% from %v to %v", d.Name, d.Percent, d.Low, d.High)
		}
	}
}
