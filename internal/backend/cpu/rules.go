package cpu

import (
	"slices"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/bf16"
	"hotpath/internal/kernel/codes"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/plan"
)

// request is the input of the rules.
type request struct {
	precision Precision
	invariant bool // one way per op for every number of rows
	noPack    bool
	inPlace   bool // quantized weights stay in the file's rows
}

// main is the class of products of an op with a matrix for more rows than a few.
// Experts have no kernels in integers.
func (q request) main(op *graph.OpDef, m plan.Matrix) Precision {
	if op == graph.OpGroupedLinear {
		return q.precision.class()
	}
	return q.precision.Class(m.Leaf.Role, m.DType)
}

// each returns a rule for products with weights, one per op that multiplies with
// them. Experts have the file's rows and operands in f32.
func (q request) each(r plan.Rule, takes func(main Precision, m plan.Matrix) bool) []plan.Rule {
	var out []plan.Rule
	for _, op := range []*graph.OpDef{graph.OpLinear, graph.OpGroupedLinear} {
		if op == graph.OpGroupedLinear {
			if r.Packing != nil {
				continue
			}
			r.Reads, r.Writes = nil, nil
		}
		r.Op = op
		r.Weights = func(m plan.Matrix) bool {
			return m.Weight() && takes(q.main(op, m), m)
		}
		out = append(out, r)
	}
	return out
}

// stored returns rules for products with weights in their storage type: in panels
// of codes or, if those cannot be used, in the file's rows. w is the weight
// without its data.
func (q request) stored(r plan.Rule, takes func(main Precision, w *gemm.Stored) bool) []plan.Rule {
	var out []plan.Rule
	for _, d := range codes.Types() {
		r.Packing = codePanels[d]
		out = append(out, q.each(r, func(main Precision, m plan.Matrix) bool {
			w := panelsOf(m)
			return m.DType == d && q.streams(main, w) && takes(main, w)
		})...)
	}
	r.Packing = nil
	return append(out, q.each(r, func(main Precision, m plan.Matrix) bool { return takes(main, shapeOf(m)) })...)
}

// streams reports whether every kernel of a class, for few and for many rows,
// reads the panels of w at memory speed.
func (q request) streams(main Precision, w *gemm.Stored) bool {
	if q.noPack || q.inPlace || !gemm.CanCodes(w) {
		return false
	}
	return main == I16G32 || main == BF16 && bf16.CanFew(w) && bf16.Unpacks(w)
}

// Rules is the lowering table: products by class, then the ops that hand values
// to them.
func (b *Backend) Rules(invariant bool) []plan.Rule {
	q := request{b.opts.Precision, invariant, b.opts.NoPack, b.opts.InPlace}
	var few, many []plan.Rule
	for _, c := range classes {
		f, m := c.rules(q)
		few, many = append(few, f...), append(many, m...)
	}
	return append(append(append(few, many...), lookups()...),
		plan.Rule{Class: "f32", Op: graph.OpNorm, Together: true, Writes: func(s *plan.Step) []*plan.Format {
			if s.Root().Op != graph.OpNorm {
				return nil
			}
			return blocks(s)
		}},
		plan.Rule{Class: "bf16", Op: graph.OpAttention, When: q.tiles, Writes: headsRound},
		plan.Rule{Class: "f32", Op: graph.OpAttention},
		// A program for single rows answers the only query of a sequence from the
		// cache as it lies.
		plan.Rule{Class: "f32", Op: graph.OpAttentionKV, From: 1, To: 1,
			When: func(_ *plan.Step, n *graph.Node) bool { return !invariant && readsCache(n) }},
		plan.Rule{Class: "bf16", Op: graph.OpAttentionKV, When: q.tiles, Writes: headsRound},
		plan.Rule{Class: "f32", Op: graph.OpAttentionKV},
		plan.Rule{Class: "bf16", Op: graph.OpAttentionGrad, Skips: []int{3}, When: func(s *plan.Step, n *graph.Node) bool {
			return q.gradientTiles(s, n) && tileHeads(n) // without out: the mean of dout v^T stands for dout . out
		}},
		plan.Rule{Class: "f32", Op: graph.OpAttentionGrad},
		plan.Rule{Class: "bf16", Op: graph.OpLinearDW, When: q.gradientTiles, Reads: []*plan.Format{bf16Blocks, nil}, Operands: 2},
		plan.Rule{Class: "f32", Op: graph.OpLinearDW},
		plan.Rule{Class: "f32", Op: graph.OpAct, When: q.roundsAlone, Writes: blocks},
		plan.Rule{Class: "f32", Op: graph.OpGLU, When: q.roundsAlone, Writes: blocks},
		plan.Rule{Class: "f32", Op: graph.OpAdamW, Together: true, Writes: bothPanels},
		plan.Rule{Class: "f32", Op: graph.OpSGD, Together: true, Writes: bothPanels},
	)
}

// bothPanels are the formats that optimizers write in addition to the weights.
func bothPanels(*plan.Step) []*plan.Format { return []*plan.Format{bf16Panels, bf16PanelsT} }

// tiles reports whether attention runs on tiles. They have no kernel for soft
// caps and biases by distance. Training, which needs the log-sum-exp, must ask
// for bf16.
func (q request) tiles(s *plan.Step, n *graph.Node) bool {
	if !tileHeads(n) || len(n.Out) > 1 && slices.Contains(s.Out, n.Out[1]) && q.precision != BF16 {
		return false
	}
	return q.precision.Attention() == BF16
}

func tileHeads(n *graph.Node) bool {
	a := attentionAttr(n)
	return a.SoftCap == 0 && !a.Alibi
}

// roundsAlone reports whether an activation that is a step of its own can write
// bf16, for products of a training step. It is not fused there, because gradients
// need its input.
func (q request) roundsAlone(s *plan.Step, n *graph.Node) bool {
	return len(s.Nodes) == 1 && q.gradientTiles(s, n)
}

func blocks(*plan.Step) []*plan.Format { return []*plan.Format{bf16Blocks} }

// gradientTiles reports whether gradients are computed on tiles. Their operands
// change with each run, so that without tiles rounding them would only cost.
func (q request) gradientTiles(*plan.Step, *graph.Node) bool {
	return q.precision == BF16 && bf16.Tiles()
}

func attentionAttr(n *graph.Node) graph.AttentionAttr {
	if a, ok := n.Attr.(graph.AttentionKVAttr); ok {
		return a.AttentionAttr
	}
	return n.Attr.(graph.AttentionAttr)
}

// headsRound returns bf16 if whole heads can be written in it.
func headsRound(s *plan.Step) []*plan.Format {
	if a := attentionAttr(s.Root()); bf16Blocks.Holds(a.HeadDim) {
		return []*plan.Format{bf16Blocks}
	}
	return nil
}

// readsCache reports whether the only query of a sequence can read the cache in
// place.
func readsCache(n *graph.Node) bool {
	a := n.Attr.(graph.AttentionKVAttr)
	return a.HeadDim%32 == 0 && gemm.CanMix(n.In[1].DType) && gemm.CanMix(n.In[2].DType)
}
