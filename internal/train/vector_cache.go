package train

import (
	"context"

	"hotpath/internal/graph"
	"hotpath/internal/graph/grad"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// vectorCache holds the vectors of all runs of a step and the gradient of the
// step's loss by them, so that the memory of activations is that of one run.
type vectorCache struct {
	most, workers int
	rows          int  // so far
	solved        bool // the loss of the step is known: runs are made again

	// Of the model's graph: its vectors, and what flows back into them, [S,D].
	vectors, flow *graph.Value
	out, in       []float32
	width         int

	// Of the loss over all rows.
	prog       *plan.Program
	sess       *plan.Session
	all        *graph.Value    // [S,D]
	ends       [2]*graph.Value // loss, and its gradient by all
	host       []float32
	loss, grad []float32
}

// build ends the model's graph: the gradient of the mean of x times flow is
// flow divided by the number of rows.
func (c *vectorCache) build(t *model.Trainee, x *graph.Value) *graph.Value {
	c.vectors, c.flow = x, t.Input("flow", tensor.F32, x.Shape)
	t.Output(x)
	return t.Mean("flowing", t.RowDot("flow_dot", x, c.flow), nil)
}

// compile plans the loss over all vectors of a step, of runs of p, and gives the bytes
// that the cache takes.
func (c *vectorCache) compile(p *plan.Program, loss func(b *graph.Builder, x *graph.Value) *graph.Value, width int) (int64, error) {
	c.width = width
	most := tensor.Bind{T: 1, S: c.most, R: 1}
	b := graph.NewBuilder(most)
	c.all = b.Fresh("vectors", graph.RoleOther, tensor.Rows(tensor.Of(tensor.S, 1), width))
	value := loss(b, c.all)
	pairs, err := grad.Backward(b, value)
	if err != nil {
		return 0, err
	}
	c.ends = [2]*graph.Value{value, pairs[0].Grad}
	g, err := b.Freeze(c.ends[:]...)
	if err != nil {
		return 0, err
	}
	if c.prog, err = plan.Compile("contrast", g, p.Backend, []tensor.Bind{most}, plan.CompileOptions{}); err != nil {
		return 0, err
	}
	return programBytes(c.prog) + 4*int64(c.most*width), nil
}

// open opens what was compiled; s runs the model.
func (c *vectorCache) open(ctx context.Context, s *plan.Session) (err error) {
	if c.sess, err = plan.NewSession(ctx, c.prog, plan.NewWeightSet(c.prog.Backend, nil), plan.BindOptions{Workers: c.workers}); err != nil {
		return err
	}
	c.out, c.in = s.F32(c.vectors), s.F32(c.flow)
	c.host, c.loss, c.grad = make([]float32, c.most*c.width), c.sess.F32(c.ends[0]), c.sess.F32(c.ends[1])
	return nil
}

// keep takes the vectors of n sequences.
func (c *vectorCache) keep(n int) {
	copy(c.host[c.rows*c.width:], c.out[:n*c.width])
	c.rows += n
}

// solve finds the loss of all rows and its gradient.
func (c *vectorCache) solve(ctx context.Context) (float32, error) {
	if err := c.sess.WriteState(c.all, c.host); err != nil {
		return 0, err
	}
	if err := c.sess.Run(ctx, tensor.Bind{T: 1, S: c.rows, R: 1}); err != nil {
		return 0, err
	}
	c.solved = true
	return c.loss[0], nil
}

// again hands the gradient of n sequences from row first on to their run.
func (c *vectorCache) again(n, first int) {
	for i, g := range c.grad[first*c.width : (first+n)*c.width] {
		c.in[i] = g * float32(n)
	}
}
