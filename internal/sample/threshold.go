package sample

import (
	"math"
	"slices"

	"hotpath/internal/kernel/vec"
)

// Tokens are counted in bins by the distance of their logits to the best one. The
// last bin has all that lie further away.
const (
	bins       = 2048
	binsPerOne = 64 // per unit of logits
)

// few is the number of candidates up to which they are listed and sorted.
const few = 128

// countBins counts all tokens. Neighbours count in different tables, because an
// increment would wait for that of the token before if both had the same bin.
func (w *Scratch) countBins(logits []float32, top float64) {
	w.top = float32(top)
	even, odd := &w.count[0], &w.count[1]
	clear(even[:])
	clear(odd[:])
	for i := 0; i < len(logits); i += scanned {
		part := logits[i:min(i+scanned, len(logits))]
		at := w.bin[:len(part)]
		vec.Bins(at, part, w.top, binsPerOne, bins-1)
		for len(at) >= 4 {
			even[at[0]%bins]++
			odd[at[1]%bins]++
			even[at[2]%bins]++
			odd[at[3]%bins]++
			at = at[4:]
		}
		for _, b := range at {
			even[b%bins]++
		}
	}
	for b, n := range odd {
		even[b] += n
	}
}

// lowest is the smallest finite logit in the bins up to b; none for b below 0.
func (w *Scratch) lowest(b int) float32 {
	switch {
	case b < 0:
		return float32(math.Inf(1))
	case b >= bins-1:
		return -math.MaxFloat32
	}
	var one [1]float32
	var at [1]uint16
	out, in := bitsOf(-math.MaxFloat32), bitsOf(w.top)
	for in-out > 1 {
		middle := out + (in-out)/2
		one[0] = logitOf(uint64(middle) << 32)
		vec.Bins(at[:], one[:], w.top, binsPerOne, bins-1)
		if int(at[0]) <= b {
			in = middle
		} else {
			out = middle
		}
	}
	return logitOf(uint64(in) << 32)
}

// estimate adds up the weights e^((logit-top)*scale) from the best token on, by bins,
// as if all tokens of a bin lay in its middle. It stops at bin end, or at the bin in
// which the sum reaches target: sum and tokens are of the bins before that one.
func (w *Scratch) estimate(scale, target float64, end int) (bin, tokens int, sum float64) {
	weight, ratio := math.Exp(-scale/(2*binsPerOne)), math.Exp(-scale/binsPerOne)
	sum = 1 - weight // the best token is at the edge of its bin
	for bin < end {
		n := w.count[0][bin]
		more := sum + float64(n)*weight
		if more >= target {
			break
		}
		sum, weight = more, weight*ratio
		tokens += int(n)
		bin++
	}
	return bin, tokens, sum
}

// reach finds the token at which the weights e^((logit-top)*scale), added up from
// the best token on, reach target. It orders only the tokens of one bin. If that
// was the wrong one, the error of the estimate is known and the next one is better.
// It reports false if a sum is within near of target. countBins has counted before;
// values are those of all tokens that may be better, and can be lost.
func (w *Scratch) reach(logits, values []float32, top, scale, target, near float64) (key uint64, ok bool) {
	wrong := 0.0 // error of the estimate
	for range 8 {
		b, better, sum := w.estimate(scale, target-wrong, bins-1)
		high := w.lowest(b - 1)
		switch {
		case better <= few: // the better tokens are ordered too
			high, sum = float32(math.Inf(1)), 0
			b = min(b+binsPerOne/8, bins-1)
		case scale > 0:
			sum = vec.ExpSum(w.valuesFrom(values, high), top, scale)
		}
		if sum < target-near {
			best := descending{keys: w.within(logits, w.lowest(b), high)}
			for n := range best.keys {
				key := best.at(n)
				sum += math.Exp((float64(logitOf(key)) - top) * scale)
				if sum > target+near {
					return key, true
				}
				if sum >= target-near {
					return 0, false
				}
			}
			if b++; b == bins {
				return 0, false
			}
		} else if sum <= target+near {
			return 0, false
		}
		_, _, estimated := w.estimate(scale, math.Inf(1), b)
		wrong, values = sum-estimated, logits
	}
	return 0, false
}

// valuesFrom gathers the logits of at least low, by id.
func (w *Scratch) valuesFrom(logits []float32, low float32) []float32 {
	return w.values[:vec.ValuesWithin(w.values[:len(logits)], logits, low, float32(math.Inf(1)))]
}

// from lists the tokens with a key of at least cut, the best last.
func (w *Scratch) from(logits []float32, cut uint64) []uint64 {
	keys := slices.DeleteFunc(w.above(logits, logitOf(cut)), func(key uint64) bool { return key < cut })
	slices.Sort(keys)
	return keys
}

// massFrom is the sum of the weights of the tokens with a key of at least cut, whose
// logits and those of their equals are values. Its error is fine.
func (w *Scratch) massFrom(logits, values []float32, cut uint64, top, scale float64) float64 {
	sum, v := vec.ExpSum(values, top, scale), logitOf(cut)
	if above := math.Nextafter32(v, float32(math.Inf(1))); len(w.within(values, v, above)) > 1 {
		for _, key := range w.within(logits, v, above) {
			if key < cut {
				sum -= math.Exp((float64(v) - top) * scale)
			}
		}
	}
	return sum
}

// lowestKey is below the keys of all tokens with a logit of at least v, and above
// those of all others.
func lowestKey(v float32) uint64 { return newKey(v, math.MaxInt32) }

// cut is the smallest key that top-k, top-p and min-p leave. countBins has counted
// before. total is the mass of all tokens, if it is known.
func (w *Scratch) cut(logits []float32, top float64, p Params, total mass) uint64 {
	cut := lowestKey(-math.MaxFloat32) // -Inf is never drawn
	if p.TopK > 0 && p.TopK < len(logits) {
		if key, ok := w.reach(logits, logits, top, 0, float64(p.TopK)-0.5, 0.25); ok {
			cut = key
		} else if keys := w.from(logits, cut); len(keys) > p.TopK {
			cut = keys[len(keys)-p.TopK]
		}
	}
	if p.byTopP() {
		cut = w.topP(logits, top, float64(p.TopP), cut, total)
	}
	return max(cut, lowestKey(p.floor(top)))
}

// topP is the smallest key of the nucleus of the tokens from cut on.
func (w *Scratch) topP(logits []float32, top, share float64, cut uint64, total mass) uint64 {
	all, m := cut == lowestKey(-math.MaxFloat32), mass{err: rough}
	_, _, m.sum = w.estimate(1, math.Inf(1), bins)
	if b, _, _ := w.estimate(1, share*m.sum, bins-1); !all || math.Exp(-float64(b)/binsPerOne) < 16*rough*m.sum {
		m.err = fine // the rough one would decide rarely
	}
	for ; m.err > 0; m.err = finer(m.err) {
		switch {
		case all && total.err == m.err:
			m = total
		case all:
			m = massOf(logits, top, m.err)
		default:
			m.sum = w.massFrom(logits, w.valuesFrom(logits, logitOf(cut)), cut, top, 1)
		}
		if key, ok := w.reach(logits, logits, top, 1, share*m.sum, m.err*m.sum); ok {
			return key
		}
	}
	keys := w.from(logits, cut)
	if all {
		m = massOf(logits, top, 0)
	} else {
		m.sum = massOfKeys(keys, top)
	}
	return nucleus(keys, top, share, m.sum)[0]
}
