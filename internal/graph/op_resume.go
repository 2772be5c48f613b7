package graph

import (
	"fmt"

	"hotpath/internal/tensor"
)

// Resume is tokens[T] with ids of the run before in place of negative ones: -1-i is
// row i of last[N], the state that Keep wrote. So a run can be enqueued before the
// host has seen the ids that it continues. An id of -1, where no token could be
// drawn, becomes token 0: the host ends that text when it sees the id.
func (b *Builder) Resume(name string, tokens, last *Value) *Value {
	return b.Apply(OpResume, name, nil, tokens, last).Out[0]
}

// Keep puts ids[R] into the first rows of state last[N], and returns its new version.
func (b *Builder) Keep(name string, last, ids *Value) *Value {
	return b.Apply(OpKeep, name, nil, last, ids).Out[0]
}

// OpResume: tokens[T], last[N] -> tokens'[T].
var OpResume = register(&OpDef{
	Name:   "resume",
	NoGrad: "tokens have no gradient",
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "ii"); err != nil {
			return nil, err
		}
		return []Type{{n.In[0].Shape, tensor.I32}}, wantRows(n.In[1])
	},
	Cost: func(c *Call) Cost { return Cost{0, 3 * c.In[0].Bytes()} },
	Ref: func(c *Call) {
		for i, id := range c.In[0].I32 {
			if id < 0 {
				id = max(c.In[1].I32[-1-id], 0)
			}
			c.Out[0].I32[i] = id
		}
	},
})

// OpKeep: last[N], ids[R] -> last'.
var OpKeep = register(&OpDef{
	Name:    "keep",
	NoGrad:  "ids have no gradient",
	InPlace: map[int]int{0: 0},
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "ii"); err != nil {
			return nil, err
		}
		return []Type{{n.In[0].Shape, tensor.I32}}, wantRows(n.In[0])
	},
	Cost: func(c *Call) Cost { return Cost{0, 2 * c.In[1].Bytes()} },
	Ref:  func(c *Call) { copy(c.Out[0].I32, c.In[1].I32) },
})

// wantRows checks that a state has one value per row, of a number that no run binds.
func wantRows(v *Value) error {
	if v.Shape.Outer.Sym != tensor.None || v.Shape.RowLen() != 1 {
		return fmt.Errorf("last is %s, expected one value per row", v.Shape)
	}
	return nil
}
