package sample

import (
	"math"

	"hotpath/internal/kernel/vec"
)

// slack bounds the error of sums over a vocabulary, as a share of the total:
// those of vec.ExpSum (1e-11) and those of adding up a million float64 in order
// (1e-10).
const slack = 1e-9

// draw picks one of the candidates by its probability at the temperature; r is
// a random number in [0, 1).
func (w *Scratch) draw(logits []float32, keys []uint64, top, temperature, r float64) int32 {
	weight := w.weight[:len(keys)]
	for i, key := range keys {
		weight[i] = math.Exp((float64(logits[idOf(key)]) - top) / temperature)
	}
	return idOf(keys[pick(weight, r)])
}

// drawAny draws from all tokens, in the order of their ids. It finds the token
// by sums of pieces, then of parts of a piece, then by single weights. Where
// the random number is closer to the next token than the sums are exact, the
// weights themselves decide.
func (w *Scratch) drawAny(logits []float32, top, temperature, r float64) int32 {
	scale, total, sums := 1/temperature, 0.0, w.sums[:0]
	for i := 0; i < len(logits); i += scanned {
		sums = append(sums, vec.ExpSum(logits[i:min(i+scanned, len(logits))], top, scale))
		total += sums[len(sums)-1]
	}
	u, near, i := r*total, slack*total, 0
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
			if u > near && x-u > near {
				return int32(i)
			}
			break
		}
		u -= x
	}
	weight := w.weight[:len(logits)]
	for i, v := range logits {
		weight[i] = math.Exp((float64(v) - top) / temperature)
	}
	return int32(pick(weight, r))
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
