package engine

import (
	"context"
	"errors"

	"hotpath/internal/batch"
	"hotpath/internal/graph"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// runner is a session with one worker per slot.
type runner struct {
	sess    *plan.Session
	workers []*worker
}

// worker is one slot of a session: the batch that is put together in it, the
// calls that have sequences in the batch, and the results after the run.
type worker struct {
	*batch.Batch
	slot  *plan.Slot
	parts []part

	out   []float32 // [S,Dim], [R,V] or [R]
	width int       // of a row of out
	ids   []int32   // [R] in place of out, where the program draws tokens itself
}

// compile plans a graph for the engine's backend, in the backend's buckets.
func (e *Engine) compile(name string, g *graph.Graph, o plan.CompileOptions) (*plan.Program, error) {
	o.Invariant = o.Invariant || e.opts.Invariant
	return plan.Compile(name, g, e.be, plan.Buckets(e.be, g.Max), o)
}

// newRunner compiles a graph and opens a session with the given number of slots,
// or with one if the backend cannot use more.
func (e *Engine) newRunner(ctx context.Context, name string, g *graph.Graph, p *model.Ports, out *graph.Value, slots int, o plan.CompileOptions, labels plan.ProfileLabels) (*runner, error) {
	prog, err := e.compile(name, g, o)
	if err != nil {
		return nil, err
	}
	return e.newSession(ctx, prog, p, out, plan.BindOptions{Slots: slots}, labels)
}

// newSession opens a session of a program.
func (e *Engine) newSession(ctx context.Context, prog *plan.Program, p *model.Ports, out *graph.Value, o plan.BindOptions, labels plan.ProfileLabels) (*runner, error) {
	return e.open(p, out, o, labels, func(o plan.BindOptions) (*plan.Session, error) { return plan.NewSession(ctx, prog, e.weights, o) })
}

// open makes a runner of the session that start opens.
func (e *Engine) open(p *model.Ports, out *graph.Value, o plan.BindOptions, labels plan.ProfileLabels, start func(plan.BindOptions) (*plan.Session, error)) (*runner, error) {
	if !o.Serial && e.opts.Workers > 0 {
		o.Workers = e.opts.Workers
	}
	o.Fixed = e.opts.Fixed
	sess, err := start(o)
	if err != nil {
		return nil, err
	}
	labels.Model = e.cfg.Name
	if err := sess.Attach(e.opts.Recorder, labels); err != nil {
		return nil, errors.Join(err, sess.Close())
	}
	if e.opts.Recorder != nil {
		e.opts.Recorder.SetMemory("weights", e.weights.Bytes())
	}
	r := &runner{sess: sess}
	for i := range sess.Slots() {
		w := &worker{slot: sess.Slot(i), Batch: batch.New(sess.Slot(i), p), parts: make([]part, 0, 1)}
		if out.DType == tensor.I32 {
			w.ids = w.slot.I32(out)
		} else {
			w.out, w.width = w.slot.F32(out), out.Shape.RowLen()
		}
		r.workers = append(r.workers, w)
	}
	e.keep(r)
	return r, nil
}

// row is row i of the output.
func (w *worker) row(i int) []float32 { return w.out[i*w.width : (i+1)*w.width] }

// runBatch runs the batch. A panic below becomes an error.
func (w *worker) runBatch(ctx context.Context) (err error) {
	defer Guard(&err)
	return w.slot.Run(ctx, w.Bind)
}

// enqueue starts the run of the batch, and wait ends it.
func (w *worker) enqueue(ctx context.Context) (err error) {
	defer Guard(&err)
	return w.slot.Enqueue(ctx, w.Bind)
}

func (w *worker) wait() (err error) {
	defer Guard(&err)
	return w.slot.Wait()
}
