package study

import (
	"math"
	"math/rand/v2"
	"slices"

	"hotpath/internal/stats"
)

// resamples of a bootstrap.
const resamples = 4000

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

// trim is the share of values left out on each side of a mean: a program that
// took the processor for a moment makes some blocks worthless.
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

// estimate is the trimmed mean of independent values with a bootstrap interval.
// The percentiles are widened for small samples, as Student's distribution
// would: a plain percentile interval of eight values covers far less than it
// promises.
func estimate(values []float64) Estimate {
	n := len(values)
	if n == 0 {
		return Estimate{}
	}
	e := Estimate{Mid: center(slices.Clone(values)), N: n}
	if n == 1 {
		e.Low, e.High = math.Inf(-1), math.Inf(1)
		return e
	}
	rng := rand.New(rand.NewPCG(uint64(n), 7))
	means, sample := make([]float64, resamples), make([]float64, n)
	for i := range means {
		for j := range sample {
			sample[j] = values[rng.IntN(n)]
		}
		means[i] = center(sample)
	}
	slices.Sort(means)
	tail := normalTail(math.Sqrt(float64(n)/float64(n-1)) * student(n-1))
	at := tail * float64(resamples-1)
	e.Low, e.High = stats.Rank(means, at), stats.Rank(means, float64(resamples-1)-at)
	// With few values the extremes of the resamples are the values' own; the
	// interval never claims more than Student's.
	if half := student(n-1) * trimmedError(values); n < 10 {
		e.Low, e.High = min(e.Low, e.Mid-half), max(e.High, e.Mid+half)
	}
	return e
}

// normalTail is the probability beyond x standard deviations on one side.
func normalTail(x float64) float64 { return 0.5 * math.Erfc(x/math.Sqrt2) }

// students are the 97.5 per cent quantiles of Student's distribution by degrees
// of freedom from 1 on.
var students = []float64{
	12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
	2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
	2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
}

func student(freedom int) float64 {
	if freedom <= len(students) {
		return students[freedom-1]
	}
	return 1.96 + 2.46/float64(freedom) // within 0.003 from 30 on
}

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

// Verdict is what an experiment says about an arm.
type Verdict string

// The verdicts.
const (
	Faster       Verdict = "faster"
	Slower       Verdict = "slower"
	NoDifference Verdict = "no difference shown"
	Void         Verdict = "void: the control differs"
)

// judge says what a log-ratio of times shows. A control that excludes zero voids
// it, whatever its size: what makes the same differ from itself may have made
// the arms differ.
func judge(ratio, control Estimate) Verdict {
	switch {
	case control.ExcludesZero():
		return Void
	case !ratio.ExcludesZero():
		return NoDifference
	case ratio.Mid < 0:
		return Faster
	}
	return Slower
}
