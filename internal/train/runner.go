package train

import (
	"context"
	"errors"
	"fmt"

	"hotpath/internal/engine"
	"hotpath/internal/graph"
	"hotpath/internal/graph/grad"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// runner is a model's training program with memory of its own.
type runner struct {
	model  *model.Model
	parts  *model.TrainParts
	sess   *plan.Session
	in     *inputs
	ports  *model.Ports
	embeds bool                           // it is trained for its vectors
	out    struct{ loss, norm []float32 } // [1] each
}

// task is what a training graph is built for.
type task struct {
	obj        objective
	optimizer  grad.Optimizer
	accumulate bool // steps may have several runs
	validate   bool // runs may end with the loss
	// Whether the graph has dropout and label smoothing.
	dropout, smoothing bool
	recompute          bool
	lora               *model.LoRA
	trainable          func(role graph.Role, layer int) bool // nil: all
}

// compiled is a training program that has no memory yet.
type compiled struct {
	model *model.Model
	task  task
	prog  *plan.Program
	ports *model.Ports
	parts *model.TrainParts
	// What the objective runs beside it, and the bytes that it takes; 0 for nothing.
	beside string
	bytes  int64
}

// compile builds the training graph for runs up to most, and what runs beside it.
func compile(m *model.Model, be plan.Backend, k task, most tensor.Bind) (*compiled, error) {
	g, ports, parts, err := m.BuildTrain(most, model.TrainOptions{End: k.obj.build, Optimizer: k.optimizer, Accumulate: k.accumulate, Recompute: k.recompute, Dropout: k.dropout, Smoothing: k.smoothing, LoRA: k.lora, Trainable: k.trainable})
	if err == nil {
		err = hasRoles(m, k.lora, parts)
	}
	if errors.Is(err, model.ErrRank) {
		err = fmt.Errorf("field lora.rank: %w: %w", err, ErrConfig)
	}
	if errors.Is(err, grad.ErrNothing) {
		err = fmt.Errorf("field objective.freeze: no weight is left to train: %w", ErrConfig)
		if k.lora != nil {
			err = noRoles(m, k.lora.Roles)
		}
	}
	if err != nil {
		return nil, err
	}
	o := plan.CompileOptions{Partial: k.accumulate}
	if _, ok := k.obj.(wholeStep); k.validate || ok && k.accumulate {
		o.Forward = ports.Loss
	}
	c := &compiled{model: m, task: k, ports: ports, parts: parts}
	if c.prog, err = plan.Compile("train", g, be, []tensor.Bind{most}, o); err != nil {
		return nil, err
	}
	c.beside, c.bytes, err = k.obj.compile(c.prog)
	return c, err
}

// open gives a training program its memory.
func (c *compiled) open(ctx context.Context, o Options) (*runner, error) {
	sess, err := plan.NewSession(ctx, c.prog, plan.NewWeightSet(o.Backend, c.model), plan.BindOptions{Workers: o.Workers})
	if err != nil {
		return nil, err
	}
	r := &runner{model: c.model, parts: c.parts, sess: sess, in: newInputs(sess, c.ports), ports: c.ports, embeds: embedder(c.task.obj)}
	r.out.loss, r.out.norm = sess.F32(c.ports.Loss), sess.F32(c.ports.GradNorm)
	err = sess.Attach(o.Recorder, plan.ProfileLabels{Model: c.model.Config().Name})
	if err == nil {
		err = c.task.obj.bind(ctx, sess)
	}
	if err != nil {
		_ = sess.Close() // the first error is the one to know
		return nil, err
	}
	return r, nil
}

// runStep makes optimizer step 1, 2, ... of the batch in r.in and gives the loss
// before it. A panic below becomes an error.
func (r *runner) runStep(ctx context.Context, h grad.Hyper, step int) (loss, norm float32, err error) {
	defer func() {
		if errors.Is(err, engine.ErrInternal) {
			err = fmt.Errorf("train: step %d: %w", step, err)
		}
	}()
	defer engine.Guard(&err)
	if err := h.Put(r.in.hyper, step); err != nil {
		return 0, 0, err
	}
	if err := r.sess.Run(ctx, r.in.Bind); err != nil {
		return 0, 0, err
	}
	return r.out.loss[0], r.out.norm[0], nil
}

// forward gives the loss of the batch in r.in and changes nothing.
func (r *runner) forward(ctx context.Context) (loss float32, err error) {
	defer engine.Guard(&err)
	if r.in.weight != nil {
		r.in.weight[0] = 1
	}
	r.sess.Forward()
	if err := r.sess.Run(ctx, r.in.Bind); err != nil {
		return 0, err
	}
	return r.out.loss[0], nil
}

// accumulate says how the next run takes part in its step: with which share of
// the loss, and whether it is the first or the last run. Only the last one
// updates the weights.
func (r *runner) accumulate(share float32, first, last bool) {
	r.in.weight[0], r.in.keep[0] = share, 1
	if first {
		r.in.keep[0] = 0
	}
	if !last {
		r.sess.Partial()
	}
}

func (r *runner) close() error { return r.sess.Close() }

// scoped puts a recorder under a context that has none.
func scoped(ctx context.Context, rec *profile.Recorder) context.Context {
	if rec == nil || profile.RecorderFrom(ctx) == rec {
		return ctx
	}
	return profile.WithRecorder(ctx, rec)
}
