package compare

import (
	"testing"
)

// The ranks of the sign test's tables, and of numbers that tables do not have.
func TestMedianRank(t *testing.T) {
	for n, want := range map[int]int{0: -1, 1: -1, 5: -1, 6: 0, 8: 0, 9: 1, 12: 2, 20: 5, 30: 9, 100: 39, 5000: 2430} {
		if got := medianRank(n); got != want {
			t.Errorf("%d values: rank %d, expected %d", n, got, want)
		}
	}
}
