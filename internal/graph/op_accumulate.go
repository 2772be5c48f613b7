package graph

import "hotpath/internal/tensor"

// Accumulate adds g to the State sum, or replaces sum by g where keep[1] is 0;
// the new version of sum comes back.
func (b *Builder) Accumulate(name string, sum, g, keep *Value) *Value {
	return b.Apply(OpAccumulate, name, nil, sum, g, keep).Out[0]
}

// OpAccumulate: sum, g (one shape), keep[1] -> sum'.
var OpAccumulate = register(&OpDef{
	Name:    "accumulate",
	NoGrad:  "it belongs to the optimizer",
	InPlace: map[int]int{0: 0},
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "fff"); err != nil {
			return nil, err
		}
		s := n.In[0].Shape
		return []Type{{s, tensor.F32}}, first(wantShape("g", n.In[1], s), wantShape("keep", n.In[2], tensor.Static(1)))
	},
	Cost: func(c *Call) Cost { return Cost{int64(c.In[0].Len()), c.IOBytes()} },
	Ref: func(c *Call) {
		g, sum := c.In[1].F32, c.Out[0].F32
		if c.In[2].F32[0] == 0 {
			copy(sum, g)
			return
		}
		for i, v := range g {
			sum[i] += v
		}
	},
})
