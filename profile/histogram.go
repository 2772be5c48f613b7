package profile

import "math/bits"

// A histogram has eight buckets an octave up to 2^40 ns (18 minutes; longer
// values fall into the last bucket), so a quantile is within 1/16 of the truth
// and the memory is fixed.
const (
	histSub     = 3
	histOctaves = 40
	histBuckets = (histOctaves - histSub + 1) << histSub
)

type histogram struct {
	count, sum, min, max int64
	bucket               [histBuckets]uint32
}

func histIndex(v int64) int {
	if v < 1<<histSub {
		return int(max(v, 0))
	}
	e := bits.Len64(uint64(v)) - 1 - histSub
	return min((e+1)<<histSub+int(v>>e)&(1<<histSub-1), histBuckets-1)
}

// histMid is the middle of a bucket's range.
func histMid(i int) int64 {
	if i < 1<<histSub {
		return int64(i)
	}
	e := i>>histSub - 1
	lo := int64(1<<histSub+i&(1<<histSub-1)) << e
	return lo + (int64(1)<<e)/2
}

func (h *histogram) addValue(v int64) {
	h.addValues(1, v, v, v)
	h.bucket[histIndex(v)]++
}

// addValues adds a number of values but for their buckets.
func (h *histogram) addValues(n, sum, least, most int64) {
	if h.count == 0 || least < h.min {
		h.min = least
	}
	if h.count == 0 || most > h.max {
		h.max = most
	}
	h.count += n
	h.sum += sum
}

func (h *histogram) quantile(q float64) int64 {
	rank, seen := int64(q*float64(h.count)), int64(0)
	for i, n := range h.bucket {
		if seen += int64(n); seen > rank {
			return min(max(histMid(i), h.min), h.max)
		}
	}
	return h.max
}

// Dist summarises durations in nanoseconds. The quantiles come from a fixed
// logarithmic histogram and are within 1/16 of the true value.
type Dist struct {
	Count int64 `json:"count"`
	Sum   int64 `json:"sum_ns"`
	Min   int64 `json:"min_ns"`
	Max   int64 `json:"max_ns"`
	Mean  int64 `json:"mean_ns"`
	P50   int64 `json:"p50_ns"`
	P95   int64 `json:"p95_ns"`
	P99   int64 `json:"p99_ns"`
}

func (h *histogram) dist() Dist {
	if h.count == 0 {
		return Dist{}
	}
	return Dist{Count: h.count, Sum: h.sum, Min: h.min, Max: h.max, Mean: h.sum / h.count,
		P50: h.quantile(0.50), P95: h.quantile(0.95), P99: h.quantile(0.99)}
}
