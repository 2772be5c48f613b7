package profile

import (
	"math"
	"slices"
)

// The interval of lost time holds what another recording of the same build loses, on
// the same machine, with about 95 per cent. It is a prediction interval, which is
// wider than the interval of a mean: the machine moves between two recordings as it
// moves within one. Two sources are added: how far the samples of the ceilings lie
// apart, and how far runs lie apart, in time on a processor for the same work.

// predicted is half the width of the interval that holds one more value of a normal
// distribution with 95 per cent.
func predicted(deviation, n, freedom float64) float64 {
	if freedom <= 0 {
		return 0
	}
	return student95(freedom) * deviation * math.Sqrt(1+1/n)
}

// student95 is the quantile of Student's distribution that holds 95 per cent on both
// sides, by the first terms of its expansion about the normal one: from 2 degrees of
// freedom on it is good to 3 per cent.
func student95(freedom float64) float64 {
	const z = 1.959964
	const z3, z5, z7 = z * z * z, z * z * z * z * z, z * z * z * z * z * z * z
	f := 1 / freedom
	return z + f*((z3+z)/4+f*((5*z5+16*z3+3*z)/96+f*(3*z7+19*z5+17*z3-15*z)/384))
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
		return 0
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
	n := float64(len(y))
	return predicted(spread(residuals(x, y)), n, n-2)
}

// spread is a standard deviation from the median distance to 0: the first runs, which
// touch their memory, do not move it.
func spread(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	for i := range v {
		v[i] = math.Abs(v[i])
	}
	slices.Sort(v)
	return 1.4826 * v[len(v)/2]
}

// residuals are the distances of y from its line of least squares over x.
func residuals(x, y []float64) []float64 {
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
	if xx > 1e-9 {
		slope = xy / xx
	}
	out := make([]float64, len(x))
	for i := range x {
		out[i] = y[i] - my - slope*(x[i]-mx)
	}
	return out
}

// valueAt is the value of sample i in what may be collapsed.
func valueAt(v []int64, i int) int64 {
	if len(v) == 1 {
		return v[0]
	}
	return v[i]
}

// predict fills the interval of the step's lost time. moved is how far runs move.
func (r *roofline) predict(st *StepStats, w *work, moved float64) {
	bound := func(sign float64) int64 {
		floor := r.floor(w, func(s *ProbeStats) float64 { return s.Median * math.Exp(-sign*r.moves[s]) }, false)
		apart := 0.0 // of logarithms
		if st.Floor > 0 && floor > 0 {
			apart = math.Log(floor / float64(st.Floor))
		}
		return st.Clock - st.OffClock - int64(float64(st.Floor)*math.Exp(sign*math.Hypot(apart, moved)))
	}
	st.LostLow, st.LostHigh = min(st.Lost, max(0, bound(1))), max(st.Lost, bound(-1))
}
