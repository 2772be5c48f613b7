package plan

import (
	"errors"
	"sync/atomic"
	"testing"
)

// TestParallel: every number has one call, the error is that of the lowest number,
// no calls follow an error, and a panic reaches the caller.
func TestParallel(t *testing.T) {
	for _, workers := range []int{0, 1, 3, 20} {
		var calls [10]atomic.Int32
		if err := parallel(workers, len(calls), func(i int) error { calls[i].Add(1); return nil }); err != nil {
			t.Errorf("%d workers: %v", workers, err)
		}
		for i := range calls {
			if n := calls[i].Load(); n != 1 {
				t.Errorf("%d workers: %d calls of %d, expected 1", workers, n, i)
			}
		}
	}
	first, second := errors.New("first"), errors.New("second")
	both := make(chan struct{})
	err := parallel(2, 10, func(i int) error {
		switch i {
		case 0:
			<-both // until the second has failed too
			return first
		case 1:
			defer close(both)
			return second
		}
		return nil
	})
	if err != first {
		t.Errorf("error %v, expected that of the lowest number", err)
	}
	n := 0
	if err := parallel(1, 10, func(int) error { n++; return second }); err != second || n != 1 {
		t.Errorf("%d calls and error %v, expected one call", n, err)
	}
	defer func() {
		if p := recover(); p != "oh" {
			t.Errorf("the caller saw panic %v, expected oh", p)
		}
	}()
	_ = parallel(2, 10, func(i int) error {
		if i == 4 {
			panic("oh")
		}
		return nil
	})
}
