package quant

import (
	"context"
	"fmt"
	"io"
	"runtime"

	"hotpath/internal/group"
	"hotpath/internal/tensor"
)

// share is how many values a worker encodes at a time: enough to be worth a
// goroutine, little enough to stay in cache.
const share = 1 << 16

// encoder encodes tensors one after the other, each on all threads. Its memory
// does not grow with the tensors.
type encoder struct {
	ctx      context.Context
	workers  int
	progress func(int64)
	done     int64
	out      []byte
	rows     [][]float32 // [worker]
}

func newEncoder(ctx context.Context, opts Options) *encoder {
	n := opts.Threads
	if n <= 0 {
		n = runtime.GOMAXPROCS(0)
	}
	return &encoder{ctx: ctx, workers: n, progress: opts.Progress, rows: make([][]float32, n)}
}

// stream makes the bytes of t in encoding d. weight is the importance of its
// columns, one set for each outermost slice of a stack, or nil.
func (e *encoder) stream(t *Tensor, d tensor.DType, weight []float32) func(io.Writer) error {
	if d == t.DType && t.Data != nil {
		return func(w io.Writer) error { return e.write(w, t.Data) }
	}
	return func(w io.Writer) error {
		cols, rows := t.Cols(), t.NumRows()
		size := d.RowBytes(cols)
		each := max(1, share/cols) // rows of a share
		batch := each * e.workers
		if need := batch * size; cap(e.out) < need {
			e.out = make([]byte, need)
		}
		for i := range e.rows {
			if cap(e.rows[i]) < each*cols {
				e.rows[i] = make([]float32, each*cols)
			}
		}
		for r := 0; r < rows; r += batch {
			n := min(batch, rows-r)
			out := e.out[:n*size]
			if err := e.batch(out, t, d, weight, r, n, each); err != nil {
				return fmt.Errorf("tensor %q: %w", t.Name, err)
			}
			if err := e.write(w, out); err != nil {
				return err
			}
		}
		return nil
	}
}

// batch encodes n rows from first on, each at a time.
func (e *encoder) batch(out []byte, t *Tensor, d tensor.DType, weight []float32, first, n, each int) error {
	if err := e.ctx.Err(); err != nil {
		return err
	}
	cols := t.Cols()
	size := d.RowBytes(cols)
	errs := make([]error, e.workers)
	var all group.Group
	for i := range e.workers {
		lo, hi := min(i*each, n), min((i+1)*each, n)
		if lo == hi {
			break
		}
		all.Go(func() {
			x := e.rows[i][:(hi-lo)*cols]
			if errs[i] = t.Rows(x, first+lo, hi-lo); errs[i] != nil {
				return
			}
			for r := lo; r < hi; r++ {
				row := x[(r-lo)*cols:][:cols]
				w := rowWeight(t, weight, first+r)
				if errs[i] = encodeRow(out[r*size:(r+1)*size], d, row, w); errs[i] != nil {
					errs[i] = fmt.Errorf("row %d: %w", first+r, errs[i])
					return
				}
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// rowWeight is the importance of the columns of row r.
func rowWeight(t *Tensor, weight []float32, r int) []float32 {
	if weight == nil {
		return nil
	}
	cols := t.Cols()
	perSet := t.NumRows() / (len(weight) / cols)
	return weight[r/perSet*cols:][:cols]
}

func encodeRow(dst []byte, d tensor.DType, x, w []float32) error {
	if d == tensor.F16 {
		for i, v := range x {
			if (v >= 65520 || v <= -65520) && v-v == 0 {
				return fmt.Errorf("value %d is %g, which F16 cannot hold: BF16 can", i, v)
			}
		}
	}
	return tensor.QuantizeWeighted(dst, d, x, w)
}

// write counts what is written.
func (e *encoder) write(w io.Writer, b []byte) error {
	const piece = 1 << 24
	for len(b) > 0 {
		if err := e.ctx.Err(); err != nil {
			return err
		}
		n := min(len(b), piece)
		if _, err := w.Write(b[:n]); err != nil {
			return err
		}
		e.done += int64(n)
		if e.progress != nil {
			e.progress(e.done)
		}
		b = b[n:]
	}
	return nil
}
