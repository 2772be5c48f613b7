package experiment

import (
	"math"
	"math/rand/v2"
	"slices"

	"hotpath/internal/stats"
	"hotpath/internal/student"
)

// Estimate is a quantity with its 95 per cent confidence interval.
type Estimate struct {
	Mid  float64 `json:"mid"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	N    int     `json:"n"` // blocks it rests on
}

// ExcludesZero reports whether the interval lies on one side of 0.
func (e Estimate) ExcludesZero() bool { return e.N > 1 && (e.Low > 0 || e.High < 0) }

// Map applies a monotonic function to the estimate and its bounds.
func (e Estimate) Map(f func(float64) float64) Estimate {
	m, l, h := f(e.Mid), f(e.Low), f(e.High)
	return Estimate{m, min(l, h), max(l, h), e.N}
}

// Percent reads a log-ratio as a change in per cent.
func (e Estimate) Percent() Estimate {
	return e.Map(func(v float64) float64 { return 100 * math.Expm1(v) })
}

// trim is the share of values left out on each side of a mean: another program may
// have used the processor during some blocks.
const trim = 0.2

// center is the trimmed mean of values, which it sorts.
func center(v []float64) float64 {
	slices.Sort(v)
	cut := int(trim * float64(len(v)))
	v = v[cut : len(v)-cut]
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// Mean is the trimmed mean of independent values with a bootstrap interval. The
// percentiles are widened for small samples as by Student's distribution: a plain
// percentile interval of eight values covers far less than 95 per cent.
func Mean(values []float64) Estimate {
	const resamples = 4000
	n := len(values)
	if n == 0 {
		return Estimate{}
	}
	e := Estimate{Mid: center(slices.Clone(values)), N: n}
	if n == 1 {
		e.Low, e.High = math.Inf(-1), math.Inf(1)
		return e
	}
	sample := make([]float64, n)
	means := draws(rand.New(rand.NewPCG(uint64(n), 7)), resamples, n, func(picked []int) float64 {
		for i, k := range picked {
			sample[i] = values[k]
		}
		return center(sample)
	})
	tail := normalTail(math.Sqrt(float64(n)/float64(n-1)) * student95(n-1))
	at := tail * float64(resamples-1)
	e.Low, e.High = stats.Rank(means, at), stats.Rank(means, float64(resamples-1)-at)
	// With few values the extremes of the resamples are the values themselves. The
	// interval is never narrower than Student's.
	if half := student95(n-1) * trimmedError(values); n < 10 {
		e.Low, e.High = min(e.Low, e.Mid-half), max(e.High, e.Mid+half)
	}
	return e
}

// normalTail is the probability beyond x standard deviations on one side.
func normalTail(x float64) float64 { return 0.5 * math.Erfc(x/math.Sqrt2) }

// student95 is the quantile of Student's distribution that holds 95 per cent.
func student95(freedom int) float64 { return student.Quantile(0.05, float64(freedom)) }

// trimmedError is the standard error of a trimmed mean, from the winsorized
// variance.
func trimmedError(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	cut := int(trim * float64(n))
	for i := range cut {
		v[i], v[n-1-i] = v[cut], v[n-1-cut]
	}
	var sum, sq float64
	for _, x := range v {
		sum += x
	}
	mean := sum / float64(n)
	for _, x := range v {
		sq += (x - mean) * (x - mean)
	}
	return math.Sqrt(sq/float64(n-1)) / ((1 - 2*float64(cut)/float64(n)) * math.Sqrt(float64(n)))
}

// Rounds is a statistic over n rounds with its 95 per cent interval: the
// percentiles of 10,000 draws of whole rounds. A slow minute of the machine affects
// all samples of a round, so rounds are independent and samples are not. Equal
// samples give equal intervals.
func Rounds(n int, statistic func(rounds []int) float64) Estimate {
	const resamples = 10000
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	drawn := draws(rand.New(rand.NewPCG(3, 4)), resamples, n, statistic)
	return Estimate{Mid: statistic(all), Low: stats.Quantile(drawn, 0.025), High: stats.Quantile(drawn, 0.975), N: n}
}

// draws is a statistic of samples of n indices drawn with replacement, in order.
func draws(rng *rand.Rand, times, n int, statistic func(picked []int) float64) []float64 {
	out, picked := make([]float64, times), make([]int, n)
	for k := range out {
		for i := range picked {
			picked[i] = rng.IntN(n)
		}
		out[k] = statistic(picked)
	}
	slices.Sort(out)
	return out
}
