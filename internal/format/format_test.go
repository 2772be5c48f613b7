package format

import (
	"errors"
	"math"
	"testing"
)

func TestByteSize(t *testing.T) {
	for _, c := range []struct {
		dims                   []int
		blockLen, bytes, wants int
	}{
		{nil, 1, 4, 4}, {[]int{3}, 1, 2, 6}, {[]int{2, 64}, 32, 34, 136}, {[]int{0, 5}, 1, 4, 0},
		{[]int{math.MaxInt}, 1, 1, math.MaxInt},
	} {
		if n, err := ByteSize(c.dims, c.blockLen, c.bytes); n != c.wants || err != nil {
			t.Errorf("%v: %d, %v, expected %d", c.dims, n, err, c.wants)
		}
	}
	for _, dims := range [][]int{{-1}, {0, -1}, {math.MaxInt, 0, 32}, {math.MaxInt, 32}, {math.MaxInt/2 + 1}, {2, 16}} {
		if n, err := ByteSize(dims, 32, 34*8); !errors.Is(err, ErrInvalid) {
			t.Errorf("%v: %d, %v, expected ErrInvalid", dims, n, err)
		}
	}
}

func TestDisjoint(t *testing.T) {
	for _, c := range []struct {
		spans []Span
		ok    bool
	}{
		{nil, true},
		{[]Span{{"b", 4, 8}, {"a", 0, 4}}, true},
		{[]Span{{"b", 3, 8}, {"a", 0, 4}}, false},
		{[]Span{{"a", 0, 100}, {"b", 10, 20}, {"c", 100, 101}}, false},
		{[]Span{{"a", 0, 4}, {"b", 0, 4}}, false},
	} {
		if err := Disjoint(c.spans); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%v: %v", c.spans, err)
		}
	}
}
