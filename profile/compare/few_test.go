package compare

import (
	"bytes"
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
