package study

import (
	"errors"
	"fmt"
	"testing"

	"hotpath/internal/engine"
)

// What a run reads stays open where its engine could not be closed.
func TestCloseKeepsWhatARunReads(t *testing.T) {
	store := errors.New("the store was closed")
	o := opened{closers: []func() error{
		func() error { return store },
		func() error { return fmt.Errorf("%w: generate (1)", engine.ErrBusy) },
		func() error { return nil },
	}}
	if err := o.close(); !errors.Is(err, engine.ErrBusy) || errors.Is(err, store) {
		t.Errorf("close: %v", err)
	}
}
