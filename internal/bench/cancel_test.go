package bench

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A call that waits for its context returns at once, and one that fails
// otherwise ends the measurement.
func TestCancelTimes(t *testing.T) {
	calls := 0
	got, err := cancelTimes(t.Context(), time.Millisecond, func(ctx context.Context) error {
		if calls++; calls <= 2 { // the warm and the whole one
			return nil
		}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	if err != nil || len(got) != 5 || got[4] != (Value{leastCancels, "calls"}) && got[4].Value < leastCancels {
		t.Errorf("%v, %v", got, err)
	}
	// Short calls on a busy machine are often complete before their time comes.
	calls = 0
	got, err = cancelTimes(t.Context(), time.Nanosecond, func(ctx context.Context) error {
		if calls++; calls <= 5*leastCancels || calls%2 == 0 {
			return nil
		}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	if err != nil || len(got) != 5 || got[4] != (Value{leastCancels, "calls"}) {
		t.Errorf("%v, %v, expected %d calls that were cancelled", got, err, leastCancels)
	}
	broken := errors.New("broken")
	if _, err := cancelTimes(t.Context(), time.Millisecond, func(context.Context) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("%v, expected %v", err, broken)
	}
	if _, err := cancelTimes(t.Context(), time.Millisecond, func(context.Context) error { return nil }); err == nil {
		t.Error("calls that were never cancelled have no times")
	}
}
