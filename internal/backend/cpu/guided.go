package cpu

import (
	"hotpath/internal/kernel/codes"
	"hotpath/internal/tensor"
)

// guided is a kernel whose smallest shares lie side by side, so that a worker computes
// several of them in one go: guided self-scheduling. Of many workers each claims a half of
// what its queue has left, but not less than claims says. So it first reads long streams of weights, and at the end of the
// step nobody waits long for the share of another.
type guided interface {
	// grains is the number of smallest shares, and how many of them a worker claims; 0 if
	// the step is not shared out that way.
	grains(b tensor.Bind) (shares int, c claims)
	// runShares computes shares [i,j) of n.
	runShares(w *worker, b tensor.Bind, i, j, n int)
}

// grainWeights is the least number of weights of the smallest shares: some two
// microseconds of what memory delivers to one of many workers.
const grainWeights = 1 << 15

// claims is how many shares of a queue a worker claims at once: at least least, unless the
// queue has fewer left, and at most most.
type claims struct{ least, most int32 }

// grains is the number of smallest shares of some products of n columns and depth k with
// codes. A claim has at least four panels, which kernels read as four streams, and at most
// maxWeights. So two workers that shared the queues of 16 decoded Llama 1B 6 per cent faster
// than with ends of two panels and of one. With 16 workers, ends of two panels are as fast:
// workers that wait longer prefetch more of the next step.
func (s split) grains(n, k, products int) (shares int, c claims) {
	panels, weights := (n+codes.Rows-1)/codes.Rows, n*products*k
	if shares = min((n+s.nr-1)/s.nr, weights/grainWeights); shares == 0 || !s.codes {
		return 0, claims{}
	}
	most, least := max(1, maxWeights*shares/weights), (4*shares+panels-1)/panels
	return shares, claims{int32(min(most, least)), int32(most)}
}

// span is what parts i to j-1 of a product are together, if they have the same rows.
func (s split) span(rows, n, i, j, shares int) (m0, m1, c0, c1 int) {
	m0, m1, c0, c1 = s.part(rows, n, i, shares)
	if j > i+1 {
		_, _, _, c1 = s.part(rows, n, j-1, shares)
	}
	return m0, m1, c0, c1
}

// guide is how many of the shares that a queue has left a worker claims. If no more than
// half of the least claim would be left, it is part of this one.
func (c claims) guide(left int) int {
	n := min(left/2, int(c.most))
	n -= n % int(c.least)
	n = min(left, max(n, int(c.least)))
	if left-n <= int(c.least)/2 && left <= int(c.most) {
		return left
	}
	return n
}

// cutStep cuts a step of the run for a number of workers; upTo is the shares before it.
func (f *flight) cutStep(i, workers int, upTo int64) cut {
	if workers > fewWorkers && f.exec.guides[i] != nil {
		if shares, c := f.exec.guides[i].grains(f.bind); shares >= 2*workers {
			return cut{int32(shares), int32(workers), c, upTo + int64(shares)}
		}
	}
	shares, n := cutStep(f.kernels[i], f.bind, workers)
	return cut{int32(shares), int32(n), claims{1, 1}, upTo + int64(shares)}
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
