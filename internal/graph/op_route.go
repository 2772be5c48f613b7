package graph

import (
	"fmt"
	"math"

	"hotpath/internal/tensor"
)

// Route picks the best Used experts of each token from logits[T,E]: the
// weights of its choices [T,Used]; the tokens of all choices, sorted by expert
// and then by token, [Used*T]; where each choice is in that order [T,Used]; and
// where each expert's choices begin [E+1].
func (b *Builder) Route(name string, logits *Value, attr RouteAttr) *Routing {
	n := b.Apply(OpRoute, name, attr, logits)
	return &Routing{n.Out[0], n.Out[1], n.Out[2], n.Out[3]}
}

// Routing is what a Route gives.
type Routing struct {
	Weights *Value // [T,Used] F32
	Rows    *Value // [Used*T] I32, of tokens
	Slots   *Value // [T,Used] I32, of rows
	Offsets *Value // [E+1] I32, into rows
}

// RouteAttr says how experts are chosen: by the largest softmax of logits,
// ties to the first expert.
type RouteAttr struct {
	Used      int
	Normalize bool // the weights of a token's choices add up to 1
}

// OpRoute: logits[T,E] -> weights[T,U], rows[U*T], slots[T,U], offsets[E+1].
var OpRoute = register(&OpDef{
	Name:   "route",
	NoGrad: "routing of tokens to experts has no gradient rule: mixtures of experts cannot be trained",
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "f"); err != nil {
			return nil, err
		}
		a, s := n.Attr.(RouteAttr), n.In[0].Shape
		if a.Used < 1 || a.Used > s.RowLen() {
			return nil, fmt.Errorf("%d of %d experts are used, expected 1 to all of them", a.Used, s.RowLen())
		}
		if s.Outer.Add != 0 && s.Outer.Sym != tensor.None {
			return nil, fmt.Errorf("logits are %s, expected a multiple of tokens", s)
		}
		rows := s.Outer
		rows.Mul, rows.Add = rows.Mul*a.Used, rows.Add*a.Used
		choices := tensor.Rows(s.Outer, a.Used)
		return []Type{{choices, tensor.F32}, {tensor.Rows(rows), tensor.I32}, {choices, tensor.I32},
			{tensor.Static(s.RowLen() + 1), tensor.I32}}, nil
	},
	Cost: func(c *Call) Cost {
		// Softmax, and a comparison with each expert for each choice.
		n, used := int64(c.In[0].Len()), int64(c.Node.Attr.(RouteAttr).Used)
		return Cost{n * (3 + used), c.IOBytes()}
	},
	Ref: func(c *Call) {
		a, x := c.Node.Attr.(RouteAttr), &c.In[0]
		for t := range x.Rows {
			row := x.Row(t)
			ids := c.Out[2].I32[t*a.Used : (t+1)*a.Used] // experts, for now
			w := c.Out[0].Row(t)
			top := math.Inf(-1)
			for _, v := range row {
				top = max(top, float64(v))
			}
			var sum, chosen float64
			for _, v := range row {
				sum += math.Exp(float64(v) - top)
			}
			Best(ids, row)
			for _, e := range ids {
				chosen += math.Exp(float64(row[e])-top) / sum
			}
			for j, e := range ids {
				p := math.Exp(float64(row[e])-top) / sum
				if a.Normalize {
					p /= chosen
				}
				w[j] = float32(p)
			}
		}
		SortChoices(c.Out[1].I32, c.Out[2].I32, c.Out[3].I32, a.Used)
	},
})

// Best fills ids with the places of the largest elements of row, largest
// first, ties to the first. Rows of numbers that are none give places all the
// same.
func Best(ids []int32, row []float32) {
	for j := range ids {
		best := int32(-1)
	each:
		for e, v := range row {
			for _, taken := range ids[:j] {
				if taken == int32(e) {
					continue each
				}
			}
			if best < 0 || v > row[best] {
				best = int32(e)
			}
		}
		ids[j] = best
	}
}

// SortChoices turns slots[T,used], which hold experts, into their order by
// expert, and fills rows and offsets.
func SortChoices(rows, slots, offsets []int32, used int) {
	clear(offsets)
	for _, e := range slots {
		offsets[e+1]++
	}
	for e := 1; e < len(offsets); e++ {
		offsets[e] += offsets[e-1]
	}
	// Each offset moves to the end of its expert, and back.
	for i, e := range slots {
		at := offsets[e]
		offsets[e]++
		rows[at], slots[i] = int32(i/used), at
	}
	copy(offsets[1:], offsets[:len(offsets)-1])
	offsets[0] = 0
}

// Combine adds up what a token's experts answered: y[U*T,D], slots[T,U],
// weights[T,U] -> [T,D].
func (b *Builder) Combine(name string, y *Value, r *Routing) *Value {
	return b.Apply(OpCombine, name, nil, y, r.Slots, r.Weights).Out[0]
}

// OpCombine: y[rows,D], slots[T,U], weights[T,U] -> sum of weights[t,j] times
// row slots[t,j], in order of j.
var OpCombine = register(&OpDef{
	Name:   "combine",
	NoGrad: OpRoute.NoGrad,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "fif"); err != nil {
			return nil, err
		}
		slots := n.In[1].Shape
		return []Type{{tensor.Rows(slots.Outer, n.In[0].Shape.RowLen()), tensor.F32}}, wantShape("weights", n.In[2], slots)
	},
	Cost: func(c *Call) Cost { return Cost{2 * int64(c.In[0].Len()), c.IOBytes()} },
	Ref: func(c *Call) {
		y, slots, w, out := &c.In[0], &c.In[1], &c.In[2], &c.Out[0]
		clear(out.F32)
		for t := range out.Rows {
			row := out.Row(t)
			for j := range slots.Cols {
				f := w.F32[t*w.Cols+j]
				for i, v := range y.Row(int(slots.I32[t*slots.Cols+j])) {
					row[i] += f * v
				}
			}
		}
	},
})
