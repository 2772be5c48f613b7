package machine

import "testing"

// TestInPlace: a model is packed if memory holds it twice, or if nobody knows.
func TestInPlace(t *testing.T) {
	for _, c := range []struct {
		size, free int64
		want       bool
	}{{100, 0, false}, {100, 200, false}, {101, 200, true}, {100, 1, true}} {
		if got := inPlace(c.size, c.free); got != c.want {
			t.Errorf("a model of %d bytes with %d free: in place %v, expected %v", c.size, c.free, got, c.want)
		}
	}
}
