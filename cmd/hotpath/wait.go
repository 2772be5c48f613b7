package main

import (
	"context"
	"os"

	"hotpath/internal/engine"
)

// waitFor calls f, which may wait for ever for the other end of a pipe or for
// somebody at a terminal. If ctx ends first, waitFor returns its cause and leaves
// f to the end of the process.
func waitFor[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		var r result
		defer func() { done <- r }()
		defer engine.Guard(&r.err)
		r.value, r.err = f()
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// openFile opens a file to read. Opening a FIFO waits for a writer.
func openFile(ctx context.Context, path string) (*os.File, error) {
	return waitFor(ctx, func() (*os.File, error) { return os.Open(path) })
}
