package sample

import (
	"math"
	"slices"

	"hotpath/internal/kernel/vec"
)

// A key is a candidate. Keys compare as their tokens do: the larger logit is
// the larger key, and among equal logits the lower id is.
func newKey(logit float32, id int32) uint64 {
	return uint64(bitsOf(logit+0))<<32 | uint64(^uint32(id)) // the sum makes -0 equal to 0
}

// bitsOf are larger for a larger logit.
func bitsOf(logit float32) uint32 {
	b := math.Float32bits(logit)
	return b ^ (uint32(int32(b)>>31) | 1<<31)
}

func idOf(key uint64) int32 { return int32(^uint32(key)) }

func logitOf(key uint64) float32 {
	b := uint32(key >> 32)
	return math.Float32frombits(b ^ (^uint32(int32(b)>>31) | 1<<31))
}

// byTopK reports whether top-k drops any of n tokens.
func (p Params) byTopK(n int) bool { return p.TopK > 0 && p.TopK < n }

// ordered reports whether a token is drawn from the worst candidate on. It is drawn
// by id otherwise.
func (p Params) ordered() bool { return p.TopK > 0 || p.byTopP() }

// floor is the smallest logit that min-p leaves; -Inf is never drawn.
func (p Params) floor(top float64) float32 {
	if p.MinP == 0 {
		return -math.MaxFloat32
	}
	return atLeast(top + math.Log(float64(p.MinP)))
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
	return w.within(logits, low, float32(math.Inf(1)))
}

// within gathers all tokens with a logit from low up to, but not including, high,
// by id.
func (w *Scratch) within(logits []float32, low, high float32) []uint64 {
	keys := w.keys[:0]
	for i := 0; i < len(logits); i += scanned {
		keys = w.addCandidates(keys, logits, i, low, high)
	}
	return keys
}

// addCandidates appends the tokens of the piece of logits that begins at i.
func (w *Scratch) addCandidates(keys []uint64, logits []float32, i int, low, high float32) []uint64 {
	part := logits[i:min(i+scanned, len(logits))]
	for _, j := range w.ids[:vec.IndexesWithin(w.ids[:], part, low, high)] {
		keys = append(keys, newKey(part[j], int32(i)+j))
	}
	return keys
}

// fewBest lists the candidates of a top-k of at most few, the best last.
func (w *Scratch) fewBest(logits []float32, top float64, p Params) []uint64 {
	if !p.byTopP() {
		return w.best(logits, top, p.floor(top), p.TopK)
	}
	// Top-p looks at what top-k leaves, whatever min-p does to it later.
	keys := w.best(logits, top, -math.MaxFloat32, p.TopK)
	return p.aboveFloor(nucleus(keys, top, float64(p.TopP), massOfKeys(keys, top)), top)
}

// smallNucleus lists the candidates of top-p, the best last, if they are few and close
// to the best token. It reports false if they may not be; then the histogram decides.
// total is the mass of all tokens, or nothing if it did not come to that.
func (w *Scratch) smallNucleus(logits []float32, top float64, p Params) (nucleus []uint64, total mass, ok bool) {
	keys, low := w.keys[:0], atLeast(top-nearby)
	for i := 0; i < len(logits); i += scanned {
		if keys = w.addCandidates(keys, logits, i, low, float32(math.Inf(1))); len(keys) > 2*few {
			return nil, mass{}, false
		}
	}
	slices.Sort(keys)
	total = massOf(logits, top, rough)
	target, err, sum := float64(p.TopP)*total.sum, total.err*total.sum, 0.0
	for n, key := range slices.Backward(keys) {
		if sum += math.Exp(float64(logitOf(key)) - top); sum > target+err {
			return p.aboveFloor(keys[n:], top), total, true
		}
		if sum >= target-err {
			break
		}
	}
	return nil, total, false
}

// nearby is how far below the best logit a small nucleus may reach.
const nearby = 5

// aboveFloor are the sorted keys that min-p leaves.
func (p Params) aboveFloor(keys []uint64, top float64) []uint64 {
	below, _ := slices.BinarySearch(keys, lowestKey(p.floor(top)))
	return keys[below:]
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
		keys = w.addCandidates(keys, logits, i, low, float32(math.Inf(1)))
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

// descending gives keys from the best on. It orders no more than are asked for.
type descending struct {
	keys    []uint64
	ordered int
}

// at is key number n from the best on; n grows by one from call to call.
func (d *descending) at(n int) uint64 {
	if n == d.ordered {
		rest := d.keys[:len(d.keys)-n]
		more := min(len(rest), max(64, 3*n))
		split(rest, len(rest)-more)
		slices.Sort(rest[len(rest)-more:])
		d.ordered += more
	}
	return d.keys[len(d.keys)-1-n]
}

// mass is the probability of all tokens, in units of the best one's.
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

// massOfKeys is the mass of sorted keys, added up from the best on.
func massOfKeys(keys []uint64, top float64) (sum float64) {
	for _, key := range slices.Backward(keys) {
		sum += math.Exp(float64(logitOf(key)) - top)
	}
	return sum
}

// nucleus is the fewest of the best of sorted keys that have share of the mass.
func nucleus(keys []uint64, top, share, mass float64) []uint64 {
	sum, n := 0.0, 0
	for ; n < len(keys) && sum < share*mass; n++ {
		sum += math.Exp(float64(logitOf(keys[len(keys)-1-n])) - top)
	}
	return keys[len(keys)-n:]
}
