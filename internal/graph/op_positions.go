package graph

import (
	"fmt"

	"hotpath/internal/tensor"
)

// Positions counts the tokens of each sequence from 1, leaving out those that
// are pad, which get 0: tokens[T], q_start[S+1] -> [T]. RoBERTa takes the
// padding's token for none even where a text has it.
func (b *Builder) Positions(name string, tokens, qStart *Value, pad int) *Value {
	return b.Apply(OpPositions, name, PositionsAttr{Pad: int32(pad)}, tokens, qStart).Out[0]
}

// PositionsAttr is the id that does not count.
type PositionsAttr struct{ Pad int32 }

// OpPositions: tokens[T], q_start[S+1] -> y[T], integers.
var OpPositions = register(&OpDef{
	Name:   "positions",
	NoGrad: "integers have no gradient",
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "ii"); err != nil {
			return nil, err
		}
		_, err := sequences(n.In[1])
		if s := n.In[0].Shape; err == nil && s.Rank() != 1 {
			err = fmt.Errorf("tokens are %s, expected [T]", s)
		}
		return []Type{{n.In[0].Shape, tensor.I32}}, err
	},
	Cost: func(c *Call) Cost { return Cost{2 * int64(c.In[0].Len()), c.IOBytes()} },
	Ref: func(c *Call) {
		pad, tokens, qStart := c.Node.Attr.(PositionsAttr).Pad, c.In[0].I32, c.In[1].I32
		for s := 0; s+1 < len(qStart); s++ {
			var count int32
			for t := qStart[s]; t < qStart[s+1]; t++ {
				c.Out[0].I32[t] = 0
				if tokens[t] != pad {
					count++
					c.Out[0].I32[t] = count
				}
			}
		}
	},
})
