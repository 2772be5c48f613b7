// Package vec holds the kernels that walk f32 slices: sums and products,
// reductions, exponentials, activations and norms of one row with their
// derivatives, rotary position embedding, and steps of AdamW.
//
// backend/cpu and attention import it; it imports only kernel/isa. Every
// function has a generic Go twin in this package and AVX2, AVX-512 and NEON
// versions in generated assembly, chosen by the active tier; those for logits
// have none for NEON. Slices of
// different length are a programming mistake and panic. Results depend on
// the values, the length and the tier, never on the address. dst may be one
// of the inputs; partial overlap is not allowed. Denormal results are 0 on
// amd64, where they are slow.
package vec

import "math"

// Add makes dst = a + b.
func Add(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	if !addFast(dst, a, b) {
		for i := range dst {
			dst[i] = a[i] + b[i]
		}
	}
}

// Mul makes dst = a·b, element by element.
func Mul(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	if !mulFast(dst, a, b) {
		for i := range dst {
			dst[i] = a[i] * b[i]
		}
	}
}

// Scale makes dst = s·a.
func Scale(dst, a []float32, s float32) {
	a = a[:len(dst)]
	if !scaleFast(dst, a, s) {
		for i := range dst {
			dst[i] = a[i] * s
		}
	}
}

// Axpy makes dst += s·a.
func Axpy(dst, a []float32, s float32) {
	a = a[:len(dst)]
	if !axpyFast(dst, a, s) {
		for i := range dst {
			dst[i] += float32(s * a[i])
		}
	}
}

// Sum adds up a.
func Sum(a []float32) float32 {
	if s, ok := sumFast(a); ok {
		return s
	}
	return fold4(a, func(s, x float32) float32 { return s + x })
}

// SumSquares adds up the squares of a.
func SumSquares(a []float32) float32 {
	if s, ok := sumSquaresFast(a); ok {
		return s
	}
	return fold4(a, func(s, x float32) float32 { return s + float32(x*x) })
}

// SumSquaresFrom adds up the squares of a - mean.
func SumSquaresFrom(a []float32, mean float32) float32 {
	if s, ok := sumSquaresFromFast(a, mean); ok {
		return s
	}
	return fold4(a, func(s, x float32) float32 { return s + float32((x-mean)*(x-mean)) })
}

// fold4 reduces in four chains, which keeps long sums accurate.
func fold4(a []float32, f func(s, x float32) float32) float32 {
	var s [4]float32
	for i, x := range a {
		s[i&3] = f(s[i&3], x)
	}
	return (s[0] + s[1]) + (s[2] + s[3])
}

// Dot is the inner product of a and b.
func Dot(a, b []float32) float32 {
	b = b[:len(a)]
	if s, ok := dotFast(a, b); ok {
		return s
	}
	var s [4]float32
	for i, x := range a {
		s[i&3] += float32(x * b[i])
	}
	return (s[0] + s[1]) + (s[2] + s[3])
}

// DotFrom is the inner product of a and b - mean.
func DotFrom(a, b []float32, mean float32) float32 {
	b = b[:len(a)]
	if s, ok := dotFromFast(a, b, mean); ok {
		return s
	}
	var s [4]float32
	for i, x := range a {
		s[i&3] += float32(x * (b[i] - mean))
	}
	return (s[0] + s[1]) + (s[2] + s[3])
}

// Max is the greatest value of a, -Inf for none; NaN does not count.
func Max(a []float32) float32 {
	if m, ok := maxFast(a); ok {
		return m
	}
	m := float32(math.Inf(-1))
	for _, x := range a {
		if x > m {
			m = x
		}
	}
	return m
}

// Exp makes dst = e^(x-shift) and returns the sum of dst: the core of a
// softmax. Exponents below -87 give 0.
func Exp(dst, x []float32, shift float32) (sum float32) {
	x = x[:len(dst)]
	if s, ok := expFast(dst, x, shift); ok {
		return s
	}
	var s [4]float32
	for i := range dst {
		dst[i] = exp(x[i] - shift)
		s[i&3] += dst[i]
	}
	return (s[0] + s[1]) + (s[2] + s[3])
}

// Softmax makes x a distribution in place.
func Softmax(x []float32) {
	Scale(x, x, 1/Exp(x, x, Max(x)))
}
