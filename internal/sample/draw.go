package sample

import (
	"math"

	"hotpath/internal/kernel/vec"
)

// Sums over a vocabulary have one of three errors, as shares of the total: that
// of vec.RoughExpSum, that of vec.ExpSum (1e-11) together with that of adding up
// a million float64 in order (1e-10), and none. "None" is the sum in float64 in
// the order of ids, which is what the others stand for.
const (
	rough = 5e-5
	fine  = 1e-9
)

// finer is the next smaller error.
func finer(err float64) float64 {
	if err == rough {
		return fine
	}
	return 0
}

// draw picks a token of those that top-k, top-p and min-p leave; r is a random
// number in [0, 1).
func (w *Scratch) draw(logits []float32, top float64, p Params, r float64) int32 {
	temperature := float64(p.Temperature)
	if p.byTopK(len(logits)) && p.TopK <= few {
		return w.drawListed(w.fewBest(logits, top, p), top, temperature, r)
	}
	if !p.ordered() {
		return w.drawByID(logits, p.floor(top), top, temperature, r)
	}
	var total mass
	if p.byTopP() && !p.byTopK(len(logits)) {
		keys, all, ok := w.smallNucleus(logits, top, p)
		if ok {
			return w.drawListed(keys, top, temperature, r)
		}
		total = all
	}
	w.countBins(logits, top)
	cut := w.cut(logits, top, p, total)
	if values := w.valuesFrom(logits, logitOf(cut)); len(values) > few {
		scale := 1 / temperature
		sum := w.massFrom(logits, values, cut, top, scale)
		if key, ok := w.reach(logits, values, top, scale, sum-r*sum, fine*sum); ok {
			return idOf(key)
		}
	}
	return w.drawListed(w.from(logits, cut), top, temperature, r)
}

// drawListed picks one of the keys, in their order.
func (w *Scratch) drawListed(keys []uint64, top, temperature, r float64) int32 {
	weight := w.weight[:len(keys)]
	for i, key := range keys {
		weight[i] = math.Exp((float64(logitOf(key)) - top) / temperature)
	}
	return idOf(keys[pick(weight, r)])
}

// drawByID draws from all tokens with a logit of at least low, in the order of
// their ids.
func (w *Scratch) drawByID(logits []float32, low float32, top, temperature, r float64) int32 {
	values := w.valuesFrom(logits, low)
	if len(values) <= few {
		return w.drawListed(w.above(logits, low), top, temperature, r)
	}
	n := int(w.drawAny(values, top, temperature, r))
	for i := 0; ; i += scanned {
		ids := w.ids[:vec.IndexesWithin(w.ids[:], logits[i:min(i+scanned, len(logits))], low, float32(math.Inf(1)))]
		if n < len(ids) {
			return int32(i) + ids[n]
		}
		n -= len(ids)
	}
}

// drawAny draws from all tokens, in the order of their ids. Where the random
// number is closer to the next token than the sums are exact, better sums decide.
func (w *Scratch) drawAny(logits []float32, top, temperature, r float64) int32 {
	err := rough
	if temperature < 1e-30 {
		err = fine
	}
	for ; err > 0; err = finer(err) {
		if id, ok := w.search(logits, top, temperature, r, err); ok {
			return id
		}
	}
	weight := w.weight[:len(logits)]
	for i, v := range logits {
		weight[i] = math.Exp((float64(v) - top) / temperature)
	}
	return int32(pick(weight, r))
}

// search finds where r falls by sums of pieces, then of parts of a piece, then
// by single weights. It reports false where that is within err of another token.
func (w *Scratch) search(logits []float32, top, temperature, r, err float64) (int32, bool) {
	scale, total, sums := 1/temperature, 0.0, w.sums[:0]
	for i := 0; i < len(logits); i += scanned {
		sum := expSum(logits[i:min(i+scanned, len(logits))], top, scale, err)
		sums = append(sums, sum)
		total += sum
	}
	u, near, i := r*total, err*total, 0
	for n := 0; n < len(sums) && u >= sums[n]; n++ {
		u -= sums[n]
		i += scanned
	}
	const part = 64
	for ; i+part <= len(logits); i += part {
		sum := vec.ExpSum(logits[i:i+part], top, scale)
		if u < sum {
			break
		}
		u -= sum
	}
	for ; i < len(logits); i++ {
		x := math.Exp((float64(logits[i]) - top) / temperature)
		if u < x {
			return int32(i), u > near && x-u > near
		}
		u -= x
	}
	return -1, false
}

// expSum adds up the weights of a piece of logits.
func expSum(part []float32, top, scale, err float64) float64 {
	if err == rough {
		return vec.RoughExpSum(part, float32(top), float32(scale))
	}
	return vec.ExpSum(part, top, scale)
}

// pick finds where r times the sum of the weights falls.
func pick(weight []float64, r float64) int {
	sum := 0.0
	for _, x := range weight {
		sum += x
	}
	u := r * sum
	for i, x := range weight {
		if u -= x; u < 0 {
			return i
		}
	}
	// Rounding left u at the very end: the last one that has any weight.
	for i := len(weight) - 1; i > 0; i-- {
		if weight[i] > 0 {
			return i
		}
	}
	return 0
}
