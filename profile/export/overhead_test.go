package export

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"hotpath/profile"
	"hotpath/profile/compare"
	"hotpath/profile/report"
)

// pairsOf has recorded runs that take longer than 100 ms by per cents.
func pairsOf(percents ...float64) profile.Overhead {
	var with, without []time.Duration
	for _, p := range percents {
		without = append(without, 100*time.Millisecond)
		with = append(with, time.Duration((100+p)*float64(time.Millisecond)))
	}
	return compare.MeasureOverhead(with, without)
}

func TestOverheadOfPairs(t *testing.T) {
	for _, c := range []struct {
		pairs          []float64
		mid, low, high float64 // none where low is above high
		say            string
	}{
		{[]float64{2}, 2, 1, 0, "costs 2.00 % (median of 1 pair: too few to tell, 6 give an interval; "},
		{[]float64{1, 50, 3, 2, -4}, 2, 1, 0, "median of 5 pairs: too few to tell"},
		// One that was disturbed moves a mean, not the median.
		{[]float64{1, 50, 3, 2, -4, 1}, 1.5, -4, 50, "costs 1.50 % (95 % interval -4.00 to 50.00, median of 6 pairs; "},
		{[]float64{1, 2, 3, 4, 5, 6, 7, 8, 9}, 5, 2, 8, "95 % interval 2.00 to 8.00, median of 9 pairs"},
	} {
		o := pairsOf(c.pairs...)
		if o.Runs != len(c.pairs) || math.Abs(o.Percent()-c.mid) > 1e-9 {
			t.Errorf("%v: %v %% of %d pairs, expected %v", c.pairs, o.Percent(), o.Runs, c.mid)
		}
		if (o.Interval != nil) != (c.low <= c.high) || o.Interval != nil && (math.Abs(o.Interval[0]-c.low) > 1e-9 || math.Abs(o.Interval[1]-c.high) > 1e-9) {
			t.Errorf("%v: interval %v, expected %v to %v", c.pairs, o.Interval, c.low, c.high)
		}
		if !strings.Contains(o.String(), c.say) {
			t.Errorf("%v: %q, expected %q in it", c.pairs, o.String(), c.say)
		}
	}
	if o := compare.MeasureOverhead([]time.Duration{0, 5}, []time.Duration{1}); o.Runs != 0 || o.Median != nil || o.Check() != nil {
		t.Errorf("no pair: %+v", o)
	}
}

// Every form of the report has the interval, and a file keeps it.
func TestReportsHaveTheInterval(t *testing.T) {
	recorded := fixture(t)
	o := pairsOf(1, 2, 3, 4, 5, 6, 7, 8, 9)
	recorded.Overhead = &o
	var file, text, md, html bytes.Buffer
	if err := recorded.Write(&file); err != nil {
		t.Fatal(err)
	}
	p, err := profile.Read("run.json", file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []error{report.Text(&text, p, report.Options{}), report.Markdown(&md, p, report.Options{}), writeHTML(&html, p)} {
		if w != nil {
			t.Fatal(w)
		}
	}
	for name, b := range map[string]string{"text": text.String(), "md": md.String(), "html": html.String()} {
		if !strings.Contains(b, "95 % interval 2.00 to 8.00") {
			t.Errorf("%s: no interval", name)
		}
	}
	p.Overhead.Interval[1] = 4
	var bad bytes.Buffer
	if err := p.Write(&bad); err != nil {
		t.Fatal(err)
	}
	if _, err := profile.Read("bad.json", bad.Bytes()); err == nil || !strings.Contains(err.Error(), "overhead") {
		t.Errorf("an interval beside its median: %v", err)
	}
}
