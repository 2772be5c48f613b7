package profile

import "testing"

func TestHistogramQuantiles(t *testing.T) {
	var h histogram
	for v := int64(1); v <= 100_000; v++ {
		h.addValue(v)
	}
	for q, want := range map[float64]float64{0.5: 50_000, 0.95: 95_000, 0.99: 99_000} {
		if got := float64(h.quantile(q)); got < want*15/16 || got > want*17/16 {
			t.Errorf("quantile %v is %v, want %v within 1/16", q, got, want)
		}
	}
	last := -1
	for v := int64(0); v < 1<<20; v++ {
		i := histIndex(v)
		if i != last && i != last+1 {
			t.Fatalf("bucket of %d is %d after %d", v, i, last)
		}
		last = i
	}
	h = histogram{}
	h.addValue(1 << 62)
	if got := h.dist(); got.P99 != 1<<62 {
		t.Errorf("a value beyond the buckets has p99 %d", got.P99)
	}
}
