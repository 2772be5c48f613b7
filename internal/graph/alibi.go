package graph

import (
	"math"

	"hotpath/internal/tensor"
)

// ALiBi in place of a rope: the later a key stands, the higher its score, at a
// slope of each head. Slopes and what follows from them are rounded to bf16
// before they are scaled, as in the models that were made with it, so that a
// bias depends on where a key stands and not on its distance alone.

// AlibiSlope is the slope of head h: 2^-(8/n), 2^-(16/n), ... for the largest
// power of two n of heads, and for the heads beyond them every second slope of
// twice as many.
func (a *AttentionAttr) AlibiSlope(h int) float32 {
	n := 1
	for 2*n <= a.Heads {
		n *= 2
	}
	power := float64(h + 1)
	if h >= n {
		n, power = 2*n, float64(2*(h-n)+1)
	}
	base := float32(math.Exp2(-8 / float64(n)))
	return roundBF16(float32(math.Pow(float64(base), power)))
}

// AlibiBias is what the key at position j adds to the scores of a slope.
func (a *AttentionAttr) AlibiBias(slope float32, j int) float32 {
	return roundBF16(slope*roundBF16(float32(j))) * a.Scale
}

func roundBF16(x float32) float32 { return tensor.BF16ToF32(tensor.F32ToBF16(x)) }
