package sample

import (
	"fmt"
	"math"
	"slices"

	"hotpath/internal/kernel/vec"
)

// scanned is how many logits are looked at together: they stay in L1.
const scanned = 1024

// ScanGrain is a multiple of the logits that are looked at together: where workers
// share a scan, each scans a range that begins at a multiple of it.
const ScanGrain = 8 * scanned

// Peak says where the largest of some logits is.
type Peak struct {
	at  int     // the first of the scanned logits with the largest; -1: none is above -Inf
	top float32 // the largest
	nan int     // the first that is no number; -1: all are
}

// Scan checks logits [from,to) and finds the largest. It is on every token's way, over
// the whole vocabulary.
func Scan(logits []float32, from, to int) Peak {
	p := Peak{at: -1, top: float32(math.Inf(-1)), nan: -1}
	for i := from; i < to; i += scanned {
		end := min(i+scanned, to)
		part := logits[i:end]
		vec.Fetch(logits[end:min(end+scanned, to)])
		if v := vec.Dot(part, part); v != v { // a sum of squares is NaN for a NaN alone
			if j := slices.IndexFunc(part, func(v float32) bool { return v != v }); j >= 0 {
				p.nan = i + j
				return p
			}
		}
		if v := vec.Max(part); v > p.top {
			p.at, p.top = i, v
		}
	}
	return p
}

// Then is the peak of the logits of p and of those behind them, whose peak is q.
func (p Peak) Then(q Peak) Peak {
	if q.top > p.top {
		p.at, p.top = q.at, q.top
	}
	if p.nan < 0 {
		p.nan = q.nan
	}
	return p
}

// first is the first of the largest logits, all of which were scanned.
func (p Peak) first(logits []float32) (int32, error) {
	if p.nan >= 0 {
		return -1, fmt.Errorf("%w: NaN for token %d", ErrLogits, p.nan)
	}
	if p.at < 0 {
		return -1, fmt.Errorf("%w: none of %d is above -Inf", ErrLogits, len(logits))
	}
	if p.top == 0 { // what the kernels take denormals for, so that none may be 0
		p.at, p.top = 0, slices.Max(logits)
	}
	best := int32(p.at + slices.Index(logits[p.at:], p.top))
	if math.IsInf(float64(p.top), 1) {
		return -1, fmt.Errorf("%w: +Inf for token %d", ErrLogits, best)
	}
	return best, nil
}
