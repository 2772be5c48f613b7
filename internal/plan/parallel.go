package plan

import (
	"sync"
	"sync/atomic"
)

// parallel calls f for 0 to n-1 on up to workers goroutines, including the
// caller's. After an error it starts no further calls. It returns the error of
// the lowest number. If a call panics, parallel panics on the caller's goroutine
// after all calls have ended.
func parallel(workers, n int, f func(i int) error) error {
	errs := make([]error, n)
	var next atomic.Int64
	var failed atomic.Bool
	var panicked atomic.Pointer[any]
	work := func() {
		defer func() {
			if p := recover(); p != nil {
				panicked.CompareAndSwap(nil, &p)
				failed.Store(true)
			}
		}()
		for i := int(next.Add(1)) - 1; i < n && !failed.Load(); i = int(next.Add(1)) - 1 {
			if errs[i] = f(i); errs[i] != nil {
				failed.Store(true)
			}
		}
	}
	var others sync.WaitGroup
	for range min(workers, n) - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
	if p := panicked.Load(); p != nil {
		panic(*p)
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
