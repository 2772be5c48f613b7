package dataset

import (
	"context"
	"errors"
	"sync"
)

// job is a block on its way through a worker.
type job[R any] struct {
	block *Block
	done  chan struct{}
	out   R
	err   error
	panic any
}

// Each cuts files into blocks, lets workers make something of each, and hands
// the results to take, in the order of the data. cut says where blocks of text
// may end. work may be called by several workers at a time, take is not; a
// block's text is valid in work only. The first error, in the order of the data,
// ends it. Each returns when no goroutine of its own is left.
func Each[R any](ctx context.Context, files []File, workers int, cut Cut, work func(worker int, b *Block) (R, error), take func(b *Block, r R) error) error {
	r := &reader{cut: cut, spare: make(chan []byte, 2*workers+2)}
	if workers <= 1 {
		return r.all(ctx, files, func(b *Block) error {
			out, err := work(0, b)
			if err == nil {
				err = take(b, out)
			}
			r.free(b)
			return err
		})
	}
	inner, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	jobs, order := make(chan *job[R], workers), make(chan *job[R], 2*workers)
	var readErr error
	group.Go(func() {
		defer close(order)
		defer close(jobs)
		readErr = r.all(inner, files, func(b *Block) error {
			j := &job[R]{block: b, done: make(chan struct{})}
			for _, to := range []chan *job[R]{order, jobs} {
				select {
				case to <- j:
				case <-inner.Done():
					return context.Cause(inner)
				}
			}
			return nil
		})
	})
	for worker := range workers {
		group.Go(func() {
			for j := range jobs {
				j.readBlocks(inner, worker, work)
			}
		})
	}
	for j := range order {
		select {
		case <-j.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if j.panic != nil {
			panic(j.panic) // where the caller can recover from it
		}
		if j.err != nil {
			return j.err
		}
		if err := take(j.block, j.out); err != nil {
			return err
		}
		r.free(j.block)
	}
	return readErr
}

func (j *job[R]) readBlocks(ctx context.Context, worker int, work func(int, *Block) (R, error)) {
	defer close(j.done)
	defer func() { j.panic = recover() }()
	if ctx.Err() != nil {
		j.err = context.Cause(ctx)
		return
	}
	j.out, j.err = work(worker, j.block)
}

// all reads one file after the other.
func (r *reader) all(ctx context.Context, files []File, yield func(*Block) error) error {
	for i := range files {
		if err := r.file(ctx, &files[i], yield); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return errors.Join(context.Cause(ctx))
	}
	return nil
}
