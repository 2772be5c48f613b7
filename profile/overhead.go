package profile

import (
	"fmt"

	"hotpath/profile/internal/table"
)

// Overhead is the cost of recording: the time of the same work with and without it,
// measured alternately. If it was not measured, a snapshot has an estimate.
type Overhead struct {
	With    int64 `json:"with_ns"`
	Without int64 `json:"without_ns"`
	Runs    int   `json:"runs"` // pairs measured
	// Median is the median extra time of the recorded member of a pair, in per
	// cent; nil if only the sums are known.
	Median *float64 `json:"median_percent,omitempty"`
	// Interval is the 95 per cent interval of the median, by the ranks of the
	// pairs; nil if there are too few pairs.
	Interval *[2]float64 `json:"interval95_percent,omitempty"`
	// Estimated marks an overhead that was not measured with pairs. With is the
	// time of the recorded runs and of folding them. Without is the time of the
	// runs minus the estimated time of their stamps, each as long as one stamp
	// takes now. Cache pollution by recording is not included.
	Estimated bool `json:"estimated,omitempty"`
}

// OverheadPairs is the smallest number of pairs with an interval: with five pairs the
// probability that the true median is outside of their range is above 5 per cent.
const OverheadPairs = 6

// Percent is how much longer the work took because it was recorded.
func (o Overhead) Percent() float64 {
	if o.Median != nil {
		return *o.Median
	}
	return table.Percent(o.With-o.Without, o.Without)
}

// String formats the cost of recording and how it was determined.
func (o Overhead) String() string {
	if o.Estimated {
		return fmt.Sprintf("costs about %.2f %% (estimated from the stamps and the time of folding; hotpath profile run measures it)", o.Percent())
	}
	times := fmt.Sprintf("%s ms against %s ms", table.Ms(o.With), table.Ms(o.Without))
	if o.Median == nil {
		return fmt.Sprintf("costs %.2f %% (%s, %s)", o.Percent(), times, table.Count(o.Runs, "pair"))
	}
	return fmt.Sprintf("costs %.2f %% (%s; %s)", o.Percent(), o.Sure(), times)
}

// Sure says how sure a measured overhead is.
func (o Overhead) Sure() string {
	switch {
	case o.Estimated:
		return "estimated"
	case o.Interval != nil:
		return fmt.Sprintf("95 %% interval %.2f to %.2f, median of %s", o.Interval[0], o.Interval[1], table.Count(o.Runs, "pair"))
	case o.Median != nil:
		return fmt.Sprintf("median of %s: too few to tell, %d give an interval", table.Count(o.Runs, "pair"), OverheadPairs)
	}
	return table.Count(o.Runs, "pair")
}

func (o *Overhead) Check() error {
	if min(o.With, o.Without) < 0 || o.Runs < 0 {
		return fmt.Errorf("%d ns with and %d without, %d runs, expected 0 or more", o.With, o.Without, o.Runs)
	}
	if o.Estimated && o.With < o.Without {
		return fmt.Errorf("with_ns is %d, expected at least %d, the estimated without_ns", o.With, o.Without)
	}
	if !o.Estimated && o.Runs > 0 && min(o.With, o.Without) == 0 {
		return fmt.Errorf("with_ns is %d and without_ns %d, expected more than 0 with %d runs", o.With, o.Without, o.Runs)
	}
	if i := o.Interval; i != nil && (o.Median == nil || i[0] > *o.Median || i[1] < *o.Median) {
		return fmt.Errorf("interval from %v to %v, expected one that contains the median", i[0], i[1])
	}
	return nil
}
