package profile

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"
)

// pairsOf has recorded runs that take longer than 100 ms by per cents.
func pairsOf(percents ...float64) Overhead {
	var with, without []time.Duration
	for _, p := range percents {
		without = append(without, 100*time.Millisecond)
		with = append(with, time.Duration((100+p)*float64(time.Millisecond)))
	}
	return MeasureOverhead(with, without)
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
	if o := MeasureOverhead([]time.Duration{0, 5}, []time.Duration{1}); o.Runs != 0 || o.Median != nil || o.check() != nil {
		t.Errorf("no pair: %+v", o)
	}
}

// The ranks of the sign test's tables, and of numbers that tables do not have.
func TestMedianRank(t *testing.T) {
	for n, want := range map[int]int{0: -1, 1: -1, 5: -1, 6: 0, 8: 0, 9: 1, 12: 2, 20: 5, 30: 9, 100: 39, 5000: 2430} {
		if got := medianRank(n); got != want {
			t.Errorf("%d values: rank %d, expected %d", n, got, want)
		}
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
	p, err := Read("run.json", file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []error{Text(&text, p, ReportOptions{}), Markdown(&md, p, ReportOptions{}), writeHTML(&html, p)} {
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
	if _, err := Read("bad.json", bad.Bytes()); err == nil || !strings.Contains(err.Error(), "overhead") {
		t.Errorf("an interval beside its median: %v", err)
	}
}
