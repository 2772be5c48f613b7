package plan

import (
	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// Operand is a value bound to host memory; View reslices it for a run.
type Operand struct {
	Value *graph.Value // nil for an absent operand
	full  []byte       // at the plan's maximum
	t     graph.Tensor
}

// BindOperand prepares the view of a value in arenas that the host can reach.
// Weights are bound by the backend itself, through SetWeight.
func BindOperand(p *Plan, m *Memory, v *graph.Value) Operand {
	o := Operand{Value: v}
	if v == nil {
		return o
	}
	o.t.DType, o.t.Cols = v.DType, v.Shape.RowLen()
	if pl, ok := p.Form(v, nil); ok && pl.Bytes > 0 {
		o.full = m.Arenas[pl.Class].Host()[pl.Offset : pl.Offset+pl.Bytes]
	}
	return o
}

// SetWeight gives an operand rows in the file's encoding.
func (o *Operand) SetWeight(d tensor.DType, rows []byte) { o.t.DType, o.full = d, rows }

// View fills t for a run. Values without memory (removed by fusion, or read
// by nobody) stay absent.
func (o *Operand) View(b tensor.Bind, t *graph.Tensor) {
	*t = graph.Tensor{}
	if o.Value == nil || o.full == nil {
		return
	}
	*t = o.t
	t.Rows = o.Value.Shape.NumRows(b)
	switch t.DType {
	case tensor.F32:
		t.F32 = asF32(o.full)[:t.Rows*t.Cols]
		t.Raw = o.full
	case tensor.I32:
		t.I32 = asI32(o.full)[:t.Rows*t.Cols]
	default:
		t.Raw = o.full
	}
}

// BoundCall is a node's Call with its operands bound to host memory.
type BoundCall struct {
	Call    graph.Call
	in, out []Operand
}

// BindNode prepares node n of a step for its reference implementation.
// weight is asked for the rows of weight leaves.
func BindNode(p *Plan, m *Memory, s *Step, n *graph.Node, weight func(v *graph.Value) (tensor.DType, []byte)) *BoundCall {
	c := &BoundCall{Call: graph.Call{Node: n, In: make([]graph.Tensor, len(n.In)), Out: make([]graph.Tensor, len(n.Out))}}
	for _, v := range n.In {
		o := BindOperand(p, m, v)
		if v != nil && v.Node.Leaf != nil && v.Node.Leaf.Kind == graph.WeightLeaf {
			o.SetWeight(weight(v))
		}
		c.in = append(c.in, o)
	}
	for _, v := range n.Out {
		c.out = append(c.out, BindOperand(p, m, v))
	}
	if s.Scratch.Bytes > 0 {
		c.Call.Scratch = asF32(m.Arenas[Scratch].Host()[s.Scratch.Offset : s.Scratch.Offset+s.Scratch.Bytes])
	}
	return c
}

// Set binds the sizes of a run.
func (c *BoundCall) Set(b tensor.Bind) {
	c.Call.Bind = b
	for i := range c.in {
		c.in[i].View(b, &c.Call.In[i])
	}
	for i := range c.out {
		c.out[i].View(b, &c.Call.Out[i])
	}
}
