package sample

import (
	"math"
	"slices"

	"hotpath/internal/kernel/vec"
)

// A key is a candidate. Keys compare as their tokens do: the larger logit is
// the larger key, and among equal logits the lower id is.
func newKey(logit float32, id int32) uint64 {
	b := math.Float32bits(logit + 0) // the sum makes -0 equal to 0
	b ^= uint32(int32(b)>>31) | 1<<31
	return uint64(b)<<32 | uint64(^uint32(id))
}

func idOf(key uint64) int32 { return int32(^uint32(key)) }

// candidates are the tokens that top-k, top-p and min-p leave: the best last,
// or by id where min-p alone decides.
func (w *Scratch) candidates(logits []float32, top float64, p Params) []uint64 {
	low := float32(-math.MaxFloat32) // -Inf is never drawn
	floor := low                     // of min-p, as a logit
	if p.MinP > 0 {
		floor = atLeast(top + math.Log(float64(p.MinP)))
	}
	topK := p.TopK > 0 && p.TopK < len(logits)
	switch {
	case topK && !p.byTopP():
		return w.best(logits, floor, p.TopK)
	case topK: // top-p looks at what top-k leaves, whatever min-p does to it later
		keys := w.best(logits, low, p.TopK)
		m := mass{exact: true}
		for _, key := range slices.Backward(keys) {
			m.sum += math.Exp(float64(logits[idOf(key)]) - top)
		}
		return nucleus(logits, keys, top, float64(p.TopP), m, floor)
	case p.byTopP():
		m, share := mass{}, float64(p.TopP)
		for i := 0; i < len(logits); i += scanned {
			m.sum += vec.ExpSum(logits[i:min(i+scanned, len(logits))], top, 1)
		}
		// If every token below a threshold had the probability of the threshold,
		// they would have 0.9 of what top-p may drop. So it lies above.
		reach := atLeast(top + math.Log(0.9*(1-share)*m.sum/float64(len(logits))))
		return nucleus(logits, w.above(logits, max(reach, floor)), top, share, m, floor)
	}
	keys := w.above(logits, floor)
	if p.TopK > 0 {
		slices.Sort(keys)
	}
	return keys
}

// atLeast is the smallest finite float32 that is not below x.
func atLeast(x float64) float32 {
	v := float32(x)
	if float64(v) < x {
		v = math.Nextafter32(v, float32(math.Inf(1)))
	}
	return max(v, -math.MaxFloat32)
}

// above gathers all tokens with a logit of at least low, by id.
func (w *Scratch) above(logits []float32, low float32) []uint64 {
	keys := w.keys[:0]
	for i := 0; i < len(logits); i += scanned {
		keys = w.add(keys, logits, i, low)
	}
	return keys
}

// add appends the tokens of the piece of logits that begins at i.
func (w *Scratch) add(keys []uint64, logits []float32, i int, low float32) []uint64 {
	part := logits[i:min(i+scanned, len(logits))]
	for _, j := range w.ids[:vec.Above(w.ids[:], part, low)] {
		keys = append(keys, newKey(part[j], int32(i)+j))
	}
	return keys
}

// best gathers the k best tokens with a logit of at least low, the best last.
// Once it has k of them, the worst of these is the threshold.
func (w *Scratch) best(logits []float32, low float32, k int) []uint64 {
	keys := w.keys[:0]
	for i := 0; i < len(logits); i += scanned {
		keys = w.add(keys, logits, i, low)
		if len(keys) >= 2*k {
			split(keys, len(keys)-k)
			keys = keys[:copy(keys, keys[len(keys)-k:])]
			low = logits[idOf(keys[0])]
		}
	}
	if extra := len(keys) - k; extra > 0 {
		split(keys, extra)
		keys = keys[extra:]
	}
	slices.Sort(keys)
	return keys
}

// split puts the n smallest keys first and the smallest of the others at n:
// quickselect, which turns to sorting where its pivots are bad.
func split(keys []uint64, n int) {
	for rounds := 40; len(keys) > 16 && rounds > 0; rounds-- {
		a, b, c := keys[0], keys[len(keys)/2], keys[len(keys)-1]
		pivot := max(min(a, b), min(max(a, b), c))
		i, j := 0, len(keys)-1
		for i <= j {
			for keys[i] < pivot {
				i++
			}
			for keys[j] > pivot {
				j--
			}
			if i <= j {
				keys[i], keys[j] = keys[j], keys[i]
				i++
				j--
			}
		}
		switch {
		case n <= j:
			keys = keys[:j+1]
		case n >= i:
			keys, n = keys[i:], n-i
		default:
			return
		}
	}
	slices.Sort(keys)
}

// mass is the probability of all tokens that top-p looks at, in units of the
// best one's.
type mass struct {
	sum   float64
	exact bool // otherwise sum is right to slack
}

// nucleus is the fewest of the best keys that have share of the mass, without
// those below floor: the best last. It orders no more keys than it needs.
func nucleus(logits []float32, keys []uint64, top, share float64, m mass, floor float32) []uint64 {
	sum, ordered := 0.0, 0
	for n := 0; ; n++ {
		if !m.exact && math.Abs(sum-share*m.sum) <= slack*m.sum {
			m = mass{exact: true}
			for _, v := range logits {
				m.sum += math.Exp(float64(v) - top)
			}
		}
		if n == len(keys) || sum >= share*m.sum {
			return keys[len(keys)-n:]
		}
		if n == ordered {
			rest := keys[:len(keys)-n]
			more := min(len(rest), max(64, n))
			split(rest, len(rest)-more)
			slices.Sort(rest[len(rest)-more:])
			ordered += more
		}
		v := logits[idOf(keys[len(keys)-1-n])]
		if v < floor {
			return keys[len(keys)-n:]
		}
		sum += math.Exp(float64(v) - top)
	}
}
