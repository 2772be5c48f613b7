package graph

// OpConvert: x -> x in another format. No model asks for it: the planner adds it
// where a kernel reads a format that the value's writer cannot write, so it is not
// among the ops that graphs are made of.
var OpConvert = &OpDef{
	Name:   "convert",
	NoGrad: "the planner adds it after gradients",
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "f"); err != nil {
			return nil, err
		}
		return []Type{like(n.In[0])}, nil
	},
	Cost: func(c *Call) Cost { return Cost{0, c.IOBytes()} },
	Ref:  func(c *Call) { copy(c.Out[0].F32, c.In[0].F32) },
}
