package profile

import "math"

// luck is by how much kinds, and steps of one kind, may differ from their like
// without a cause. Several recordings of each side show it directly; of one, it
// is how far the kinds, and like steps, have moved apart.
func (e *evidence) luck() (kinds, steps float64) {
	if e.repeated() {
		kinds, steps = e.luckOfRecordings()
	}
	if !e.repeated() || e.apartInTime {
		k, s := e.luckOfRows()
		kinds, steps = max(kinds, k), max(steps, s)
	}
	return kinds, steps
}

func (e *evidence) luckOfRecordings() (kinds, steps float64) {
	var between, within []strayed
	for i := range e.rows {
		switch r := &e.rows[i]; {
		case !r.kind:
			within = append(within, e.strays(r.x)...)
		case r.votes:
			between = append(between, e.strays(r.x)...)
		}
	}
	free := float64(e.free()) / float64(e.recs[0]+e.recs[1])
	limit := func(v []strayed) float64 {
		return e.averaged() * sigmas(int(math.Round(free*float64(len(v))))) * excess(v)
	}
	return limit(between), limit(within)
}

func (e *evidence) luckOfRows() (kinds, steps float64) {
	var between, within []strayed
	groups := map[string][]float64{}
	for i := range e.rows {
		r := &e.rows[i]
		mid, _, _ := shift(r.x[0], r.x[1])
		switch {
		case r.kind && !r.votes:
		case r.kind:
			between = append(between, strayed{by: mid})
		default:
			groups[r.diff.kind+"\x00"+r.diff.Op] = append(groups[r.diff.kind+"\x00"+r.diff.Op], mid)
		}
	}
	for _, mids := range groups {
		if len(mids) < 3 {
			continue
		}
		m := median(mids)
		for _, v := range mids {
			within = append(within, strayed{by: v - m})
		}
	}
	return sigmas(len(between)) * excess(between), sigmas(len(within)) * excess(within)
}

// strayed is a distance, and the standard deviation that it would have from
// the noise of blocks alone.
type strayed struct{ by, noise float64 }

// strays is how far a row lies in each recording from its side's mean.
func (e *evidence) strays(x [2][]float64) []strayed {
	var out []strayed
	by := e.apart(x)
	for side, v := range x {
		n := e.recs[side]
		// Of all recordings of the side, each about its own median: one alone
		// has too few blocks to know.
		rest := make([]float64, 0, len(v))
		for r := range n {
			part := v[len(v)*r/n : len(v)*(r+1)/n]
			m := median(part)
			for _, y := range part {
				rest = append(rest, y-m)
			}
		}
		noise := spread(rest) / math.Sqrt(float64(len(v)/n))
		for range n {
			out = append(out, strayed{by[len(out)], noise})
		}
	}
	return out
}

// excess is the standard deviation that distances have beyond their noise, from
// the median of their squares: outliers, which may be what is looked for, do
// not move it.
func excess(v []strayed) float64 {
	if len(v) == 0 {
		return 0
	}
	const usual = 0.4549 // the median of a squared standard normal
	tooFar := func(s float64) bool {
		ratios := make([]float64, len(v))
		for i, d := range v {
			if d.by != 0 {
				ratios[i] = d.by * d.by / (s*s + d.noise*d.noise)
			}
		}
		return median(ratios) > usual
	}
	low, high := 0.0, 0.0
	for _, d := range v {
		high = max(high, 2*math.Abs(d.by))
	}
	if !tooFar(0) {
		return 0
	}
	for range 40 {
		if mid := (low + high) / 2; tooFar(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}

// sigmas is how many standard deviations luck reaches among n values, from
// which the deviation itself was estimated: the fewer, the less it is known.
func sigmas(n int) float64 {
	if n < 3 {
		return 0
	}
	return 2.5 * (1 + 8/float64(n))
}
