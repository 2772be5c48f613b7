package profile

import (
	"math"
	"slices"

	"hotpath/internal/student"
)

// The interval of lost time holds what another recording of the same build loses, on
// the same machine, with about 95 per cent. It is a prediction interval, which is
// wider than the interval of a mean: the machine moves between two recordings as it
// moves within one. Two sources are added: how far the samples of the ceilings lie
// apart, and how far runs lie apart, in time on a processor for the same work.

// predicted is half the width of the interval that holds one more value of a normal
// distribution with 95 per cent. n values gave the deviation, with so many degrees of
// freedom. It is infinite without a degree of freedom: nothing is known.
func predicted(deviation, n, freedom float64) float64 {
	if freedom <= 0 {
		return math.Inf(1)
	}
	return student.Quantile(0.05, freedom) * deviation * math.Sqrt(1+1/n)
}

// moves is predicted for the logarithm of the ceiling.
func (s *ProbeStats) moves() float64 {
	n := float64(len(s.Kept))
	var sum, squares float64
	for _, v := range s.Kept {
		sum += math.Log(v.Value)
	}
	for _, v := range s.Kept {
		d := math.Log(v.Value) - sum/n
		squares += d * d
	}
	return predicted(math.Sqrt(squares/max(1, n-1)), n, n-1)
}

// moves is predicted for the logarithm of the time of a run for the same work, which
// c measures. Small runs take longer for it, so that is taken off first.
func (s *RunSamples) moves(p *Plan, c Ceilings) float64 {
	if s == nil {
		return math.Inf(1)
	}
	var x, y []float64
	for j := range s.Wall {
		var time, work float64
		for k := range s.Steps {
			st := &s.Steps[k]
			time += float64(st.OnCPU(j))
			work += c.Floor(p.Steps[k].Class, valueAt(st.FLOPs, j), valueAt(st.Bytes, j))
		}
		if time > 0 && work > 0 {
			x, y = append(x, math.Log(float64(max(1, s.Tokens[j])))), append(y, math.Log(time/work))
		}
	}
	off, freedom := residuals(x, y)
	return predicted(deviation(off, freedom), float64(len(y)), freedom)
}

// fewRuns is up to how many values deviation uses all of them.
const fewRuns = 12

// deviation is the standard deviation of residuals. Of many values it is their median
// distance to 0: the first runs, which touch their memory, do not move it. Of few
// values the median varies so much that intervals would be too narrow.
func deviation(v []float64, freedom float64) float64 {
	if freedom <= 0 {
		return 0
	}
	n := float64(len(v))
	if len(v) <= fewRuns {
		var squares float64
		for _, x := range v {
			squares += x * x
		}
		return math.Sqrt(squares / freedom)
	}
	for i := range v {
		v[i] = math.Abs(v[i])
	}
	slices.Sort(v)
	return 1.4826 * v[len(v)/2] * math.Sqrt(n/freedom)
}

// residuals are the distances of y from its line of least squares over x, or from its
// mean if x does not vary, with their degrees of freedom.
func residuals(x, y []float64) (off []float64, freedom float64) {
	var mx, my, xx, xy float64
	n := float64(len(x))
	for i := range x {
		mx += x[i] / n
		my += y[i] / n
	}
	for i := range x {
		xx += (x[i] - mx) * (x[i] - mx)
		xy += (x[i] - mx) * (y[i] - my)
	}
	slope := 0.0
	freedom = n - 1
	if xx > 1e-9 {
		slope = xy / xx
		freedom = n - 2
	}
	off = make([]float64, len(x))
	for i := range x {
		off[i] = y[i] - my - slope*(x[i]-mx)
	}
	return off, freedom
}

// valueAt is the value of sample i in what may be collapsed.
func valueAt(v []int64, i int) int64 {
	if len(v) == 1 {
		return v[0]
	}
	return v[i]
}

// predict fills the interval of the step's lost time. moved is how far runs move. If
// that is infinite, the interval is from 0 to all of the step's time.
func (r *roofline) predict(st *StepStats, w *work, moved float64) {
	bound := func(sign float64) int64 {
		if st.Floor == 0 {
			return st.Clock - st.OffClock
		}
		apart := 0.0 // of logarithms
		if floor := r.floor(w, func(s *ProbeStats) float64 { return s.Median * math.Exp(-sign*r.moves[s]) }, false); floor > 0 {
			apart = math.Log(floor / float64(st.Floor))
		}
		floor := float64(st.Floor) * math.Exp(sign*math.Hypot(apart, moved))
		return st.Clock - st.OffClock - int64(min(floor, math.MaxInt64/2))
	}
	st.LostLow, st.LostHigh = min(st.Lost, max(0, bound(1))), max(st.Lost, bound(-1))
}
