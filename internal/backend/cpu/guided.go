package cpu

import "hotpath/internal/tensor"

// guided is a kernel whose smallest shares lie side by side, so that a worker computes
// several of them in one go: guided self-scheduling. Of many workers each claims a half of
// what its queue has left. So it first reads long streams of weights, and at the end of the
// step nobody waits long for the share of another.
type guided interface {
	// grains is the number of smallest shares, and how many of them a worker claims at
	// most; 0 if the step is not shared out that way.
	grains(b tensor.Bind) (shares, most int)
	// runShares computes shares [i,j) of n.
	runShares(w *worker, b tensor.Bind, i, j, n int)
}

// grainWeights is the least number of weights of the smallest shares: some two
// microseconds of what memory delivers to one of many workers.
const grainWeights = 1 << 15

// grains is the number of smallest shares of some products of n columns and depth k with
// codes, and how many of them have up to maxWeights.
func (s split) grains(n, k, products int) (shares, most int) {
	if !s.codes {
		return 0, 0
	}
	weights := n * products * k
	if shares = min((n+s.nr-1)/s.nr, weights/grainWeights); shares == 0 {
		return 0, 0
	}
	return shares, max(1, maxWeights*shares/weights)
}

// span is what parts i to j-1 of a product are together, if they have the same rows.
func (s split) span(rows, n, i, j, shares int) (m0, m1, c0, c1 int) {
	m0, m1, c0, c1 = s.part(rows, n, i, shares)
	if j > i+1 {
		_, _, _, c1 = s.part(rows, n, j-1, shares)
	}
	return m0, m1, c0, c1
}

// guide is how many shares a worker claims of those that a queue has left: whole fours,
// because kernels read four streams at once.
func guide(left, most int) int {
	n := min(left/2, most)
	if n > 4 {
		n &^= 3
	}
	return max(1, n)
}

// cutStep cuts a step of the run for a number of workers; upTo is the shares before it.
func (f *flight) cutStep(i, workers int, upTo int64) cut {
	if workers > fewWorkers && f.exec.guides[i] != nil {
		if shares, most := f.exec.guides[i].grains(f.bind); shares >= 2*workers {
			return cut{int32(shares), int32(workers), int32(most), upTo + int64(shares)}
		}
	}
	shares, n := cutStep(f.kernels[i], f.bind, workers)
	return cut{int32(shares), int32(n), 1, upTo + int64(shares)}
}

// runClaim computes shares [i,j) of a step.
func runClaim(k kernel, w *worker, b tensor.Bind, i, j, n int) {
	if g, ok := k.(guided); ok {
		g.runShares(w, b, i, j, n)
		return
	}
	for ; i < j; i++ { // a kernel that is measured or slowed share by share
		k.runShare(w, b, i, n)
	}
}
