package vec

import "math"

// RMSNorm makes dst = x / sqrt(mean(x²)+eps) · w for one row and returns the
// factor 1/sqrt(...), which the gradient needs.
func RMSNorm(dst, x, w []float32, eps float32) (inv float32) {
	x, w = x[:len(dst)], w[:len(dst)]
	inv = rsqrt(SumSquares(x), len(x), eps)
	normalize(dst, x, w, nil, 0, inv)
	return inv
}

// LayerNorm makes dst = (x-mean) / sqrt(var+eps) · w + b for one row; b may
// be nil. It returns the mean and the factor for the gradient. The variance
// is taken from the mean in a second pass, because a row with a large mean
// would lose its digits in one.
func LayerNorm(dst, x, w, b []float32, eps float32) (mean, inv float32) {
	x, w = x[:len(dst)], w[:len(dst)]
	if b != nil {
		b = b[:len(dst)]
	}
	if len(x) == 0 {
		return 0, 0
	}
	mean = Sum(x) / float32(len(x))
	inv = rsqrt(SumSquaresFrom(x, mean), len(x), eps)
	normalize(dst, x, w, b, mean, inv)
	return mean, inv
}

func rsqrt(sum float32, n int, eps float32) float32 {
	if n == 0 {
		return 0
	}
	return float32(1 / math.Sqrt(float64(sum)/float64(n)+float64(eps)))
}

func normalize(dst, x, w, b []float32, mean, inv float32) {
	if b == nil {
		if !normFast(dst, x, w, mean, inv) {
			for i := range dst {
				dst[i] = (x[i] - mean) * inv * w[i]
			}
		}
		return
	}
	if !normBiasFast(dst, x, w, b, mean, inv) {
		for i := range dst {
			dst[i] = float32((x[i]-mean)*inv*w[i]) + b[i]
		}
	}
}

// NormGrad makes dst = inv·(g - sum - (x-mean)·dot): the gradient of a row that
// a norm read, from that of the normed row, g. sum is the mean of g (0 for
// RMSNorm) and dot is inv times the mean of g·(x-mean)·inv.
func NormGrad(dst, g, x []float32, mean, inv, sum, dot float32) {
	g, x = g[:len(dst)], x[:len(dst)]
	if !normGradFast(dst, g, x, mean, inv, sum, dot) {
		for i := range dst {
			dst[i] = inv * (g[i] - sum - float32((x[i]-mean)*dot))
		}
	}
}

// NormWeightGrad makes dst += dy·(x-mean)·inv: what a row adds to the gradient
// of a norm's weight.
func NormWeightGrad(dst, dy, x []float32, mean, inv float32) {
	dy, x = dy[:len(dst)], x[:len(dst)]
	if !normWeightGradFast(dst, dy, x, mean, inv) {
		for i := range dst {
			dst[i] += float32(dy[i] * float32((x[i]-mean)*inv))
		}
	}
}
