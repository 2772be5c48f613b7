package optest

import (
	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// Forward builds a case.
func Forward(c Case, bind tensor.Bind) (*Bench, []*graph.Value, error) {
	b := NewBench(bind, false)
	return b, c.Build(b), b.Err()
}

// Backward builds a case and adds the gradient rule of each output's op; the outputs are the
// gradients of the operands that were drawn at random.
func Backward(c Case, bind tensor.Bind) (*Bench, []*graph.Value, error) {
	b := NewBench(bind, true)
	outs := c.Build(b)
	if b.Err() != nil {
		return b, nil, b.Err()
	}
	y := outs[0]
	dOut := make([]*graph.Value, len(y.Node.Out))
	dOut[y.Index] = b.F32(y.Shape.Outer, y.Shape.Inner[:y.Shape.Rank()-1]...)
	var grads []*graph.Value
	for i, d := range y.Node.Op.Grad(b.Builder, y.Node, dOut) {
		if d != nil && y.Node.In[i].Node.Leaf != nil {
			grads = append(grads, d)
		}
	}
	return b, grads, b.Err()
}

// Differentiable reports whether a case has gradients that are checked.
func Differentiable(c Case, bind tensor.Bind) bool {
	b, outs, err := Forward(c, bind)
	return err == nil && !c.NoGrad && b != nil && outs[0].Node.Op.Grad != nil && len(outs[0].Node.In) > 0
}
