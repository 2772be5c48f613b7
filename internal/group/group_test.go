package group

import (
	"sync/atomic"
	"testing"
)

// Wait waits for all functions, and panics on the caller's goroutine if one did.
func TestWait(t *testing.T) {
	for _, value := range []any{nil, "no more"} {
		var g Group
		var ended atomic.Int32
		for i := range 8 {
			g.Go(func() {
				defer ended.Add(1)
				if i == 3 && value != nil {
					panic(value)
				}
			})
		}
		func() {
			defer func() {
				if p := recover(); p != value {
					t.Errorf("Wait panicked with %v, expected %v", p, value)
				}
			}()
			g.Wait()
		}()
		if n := ended.Load(); n != 8 {
			t.Errorf("%d functions had ended after Wait, expected 8", n)
		}
	}
}
