package vec

import "math"

// IndexesWithin writes the indexes of the values from low up to, but not including,
// high to dst, in order, and returns how many there are. NaN is not among them;
// denormals count as what they are. dst is at least as long as a; what lies behind
// the indexes is undefined.
func IndexesWithin(dst []int32, a []float32, low, high float32) int {
	dst = dst[:len(a)]
	n, done := indexesWithinFast(dst, a, low, high)
	for i, x := range a[done:] {
		if x >= low && x < high {
			dst[n] = int32(done + i)
			n++
		}
	}
	return n
}

// ValuesWithin is IndexesWithin for the values themselves. dst may be a.
func ValuesWithin(dst, a []float32, low, high float32) int {
	dst = dst[:len(a)]
	n, done := valuesWithinFast(dst, a, low, high)
	for _, x := range a[done:] {
		if x >= low && x < high {
			dst[n] = x
			n++
		}
	}
	return n
}

// Bins makes dst = (top-a)*scale as an integer, rounded down and at most last,
// which is at most 32767. No value may be above top or NaN.
func Bins(dst []uint16, a []float32, top, scale, last float32) {
	dst = dst[:len(a)]
	done := binsFast(dst, a, top, scale, last)
	for i, x := range a[done:] {
		y := (top - x) * scale
		if !(y < last) {
			y = last
		}
		dst[done+i] = uint16(y)
	}
}

// ExpSum is the sum of e^((a-shift)*scale) in float64. No exponent may be
// above 0; each power is right to 2e-12 of itself, or to 1e-300.
func ExpSum(a []float32, shift, scale float64) float64 {
	scale *= math.Log2E
	sum, done := expSumFast(a, shift, scale)
	for _, x := range a[done:] {
		sum += exp2((float64(x) - shift) * scale)
	}
	return sum
}

// RoughExpSum is ExpSum in float32, for up to 1024 values and a scale of up to
// 1e30. The sum is right to 2e-5 of itself, or to 1e-30.
func RoughExpSum(a []float32, shift, scale float32) float64 {
	fast, done := roughExpSumFast(a, shift, scale)
	sum := float64(fast)
	for _, x := range a[done:] {
		sum += float64(exp((x - shift) * scale))
	}
	return sum
}

const (
	exp2Low   = -1000
	exp2Round = 3 << 51 // adding it rounds to an integer
)

// exp2 is 2^x for x up to 0, at least 2^exp2Low: the same polynomial as the assembly's
// (kernelgen/logits.go).
func exp2(x float64) float64 {
	if x < exp2Low {
		x = exp2Low
	}
	t := float64(x + exp2Round)
	f := x - float64(t-exp2Round)
	p := 1.3255224878668817e-06
	p = p*f + 1.5310079402249296e-05
	p = p*f + 0.00015403455852453838
	p = p*f + 0.0013333450568000645
	p = p*f + 0.009618129159402558
	p = p*f + 0.05550410941205933
	p = p*f + 0.2402265069581299
	p = p*f + 0.6931471805459335
	p = p*f + 1
	return math.Float64frombits(math.Float64bits(p) + math.Float64bits(t)<<52)
}
