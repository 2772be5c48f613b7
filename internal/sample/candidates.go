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
		return w.best(logits, top, floor, p.TopK)
	case topK: // top-p looks at what top-k leaves, whatever min-p does to it later
		keys, m := w.best(logits, top, low, p.TopK), mass{}
		for _, key := range slices.Backward(keys) {
			m.sum += math.Exp(float64(logits[idOf(key)]) - top)
		}
		keys, _ = nucleus(logits, keys, top, float64(p.TopP), &m, floor)
		return keys
	case p.byTopP():
		return w.topP(logits, top, float64(p.TopP), floor)
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
		keys = w.addCandidate(keys, logits, i, low)
	}
	return keys
}

// addCandidate appends the tokens of the piece of logits that begins at i.
func (w *Scratch) addCandidate(keys []uint64, logits []float32, i int, low float32) []uint64 {
	part := logits[i:min(i+scanned, len(logits))]
	for _, j := range w.ids[:vec.Above(w.ids[:], part, low)] {
		keys = append(keys, newKey(part[j], int32(i)+j))
	}
	return keys
}

// usual is how far below the best logit top-k looks first: with fewer than k
// tokens there, which is rare, it looks again.
const usual = 12

// best gathers the k best tokens with a logit of at least low, the best last.
func (w *Scratch) best(logits []float32, top float64, low float32, k int) []uint64 {
	keys := w.bestAbove(logits, max(low, atLeast(top-usual)), k)
	if len(keys) < k {
		keys = w.bestAbove(logits, low, k)
	}
	slices.Sort(keys)
	return keys
}

// bestAbove is best in any order. Once it has k tokens, the worst of these is
// the threshold.
func (w *Scratch) bestAbove(logits []float32, low float32, k int) []uint64 {
	keys := w.keys[:0]
	for i := 0; i < len(logits); i += scanned {
		keys = w.addCandidate(keys, logits, i, low)
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
type mass struct{ sum, err float64 }

func massOf(logits []float32, top, err float64) mass {
	m := mass{err: err}
	for i := 0; i < len(logits) && err > 0; i += scanned {
		m.sum += expSum(logits[i:min(i+scanned, len(logits))], top, 1, err)
	}
	if err == 0 {
		for _, v := range logits {
			m.sum += math.Exp(float64(v) - top)
		}
	}
	return m
}

// topP gathers the nucleus of the whole vocabulary. Below a threshold at which
// so many tokens together have what top-p may drop, it expects no more. If the
// nucleus is larger, the next threshold is lower; the last one is the floor.
func (w *Scratch) topP(logits []float32, top, share float64, floor float32) []uint64 {
	m := massOf(logits, top, rough)
	for _, tokens := range [...]float64{128, 4096, 4 * float64(len(logits))} {
		low := max(floor, atLeast(top+math.Log((1-share)*m.sum/tokens)))
		keys, whole := nucleus(logits, w.above(logits, low), top, share, &m, floor)
		if whole || low == floor {
			return keys
		}
	}
	keys, _ := nucleus(logits, w.above(logits, floor), top, share, &m, floor)
	return keys
}

// nucleus is the fewest of the best keys that have share of the mass, without
// those below floor: the best last. It orders no more keys than it needs, and
// reports whether they were enough. A mass that is not exact enough is computed
// again.
func nucleus(logits []float32, keys []uint64, top, share float64, m *mass, floor float32) (_ []uint64, whole bool) {
	sum, ordered := 0.0, 0
	for n := 0; ; n++ {
		for m.err > 0 && math.Abs(sum-share*m.sum) <= m.err*m.sum {
			*m = massOf(logits, top, finer(m.err))
		}
		whole = sum >= share*m.sum
		if n == len(keys) || whole {
			return keys[len(keys)-n:], whole
		}
		if n == ordered {
			rest := keys[:len(keys)-n]
			more := min(len(rest), max(64, 3*n))
			split(rest, len(rest)-more)
			slices.Sort(rest[len(rest)-more:])
			ordered += more
		}
		v := logits[idOf(keys[len(keys)-1-n])]
		if v < floor {
			return keys[len(keys)-n:], true
		}
		sum += math.Exp(float64(v) - top)
	}
}
