package hotpath

import (
	"context"
	"fmt"
)

// TooLongError is an [ErrTooLong] that says which text it is and how long.
//
//	var long *hotpath.TooLongError
//	if errors.As(err, &long) {
//		fmt.Println(long.Index, long.Tokens, long.Max)
//	}
type TooLongError struct {
	Index  int // of the text in the call or the stream, from 0; the message counts from 1
	Tokens int // that it has, special tokens and prompt included
	Max    int // that the model takes
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("%v: text %d has %d tokens, expected at most %d", ErrTooLong, e.Index+1, e.Tokens, e.Max)
}

// Unwrap makes errors.Is(err, ErrTooLong) true.
func (e *TooLongError) Unwrap() error { return ErrTooLong }

// ready says what keeps a call of the model from beginning.
func (m *Model) ready(ctx context.Context) error {
	if err := m.opened(); err != nil {
		return err
	}
	return needContext(ctx)
}

// opened refuses the zero Model.
func (m *Model) opened() error {
	if m.eng == nil {
		return fmt.Errorf("%w: this Model was not opened", ErrClosed)
	}
	return nil
}

// needContext refuses the nil context.
func needContext(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("%w: ctx is nil, expected a context", ErrInput)
	}
	return nil
}
