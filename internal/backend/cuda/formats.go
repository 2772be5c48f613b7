package cuda

import (
	"encoding/binary"
	"slices"

	"hotpath/internal/backend/device"
	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// half is rows in bf16: activations between steps that would round them anyway,
// and matrices of weights that a file has in more bits. Kernels read 8 values at
// a time.
var half = &plan.Format{
	Name:  "bf16",
	Holds: func(cols int) bool { return cols%8 == 0 },
	Bytes: func(rows, cols int) int64 { return 2 * int64(rows) * int64(cols) },
	Encode: func(dst []byte, src []float32, _, _ int) {
		for i, v := range src {
			binary.LittleEndian.PutUint16(dst[2*i:], tensor.F32ToBF16(v))
		}
	},
}

// padded is rows in bf16 of a number of values that half does not hold, filled up to
// a multiple of 8: logits and their gradients.
var padded = &plan.Format{
	Name:  "bf16 in padded rows",
	Holds: func(cols int) bool { return cols%8 != 0 },
	Bytes: func(rows, cols int) int64 { return 2 * int64(rows) * int64(stride8(cols)) },
	Encode: func(dst []byte, src []float32, rows, cols int) {
		clear(dst)
		for r := range rows {
			half.Encode(dst[2*r*stride8(cols):], src[r*cols:(r+1)*cols], 1, cols)
		}
	},
}

// stride8 is a row's length in bf16: a multiple of 8 values.
func stride8(cols int) int { return (cols + 7) / 8 * 8 }

// fewRows is up to how many rows products run on tensor cores from weights in their
// storage type. A single row runs in f32 (device.OneRow). Both keep activations in
// f32, but for large products behind attention, and for queries, keys and values of up
// to severalRows rows.
const fewRows = 16

// Rules say how products compute by their number of rows, and which values lie in
// bf16. In f32 there is no such value.
func (b *Backend) Rules(invariant bool) []plan.Rule {
	product := func(class, kernel string, to int, r plan.Rule) plan.Rule {
		r.Class, r.Op, r.Kernel, r.To = class, graph.OpLinear, kernel, to
		return r
	}
	// Products in f32: of all matrices, or of narrow ones.
	plain := plan.Rule{Weights: func(m plan.Matrix) bool { return b.inF32(m.K) }}
	var rules []plan.Rule
	if !invariant {
		rules = append(rules, product("f32", "one", device.OneRow, plain), product("f32", "few", fewRowsF32, plain))
	}
	rules = append(rules, product("f32", "many", 0, plain))
	if b.opts.F32 {
		return rules
	}
	reads, rounds := []*plan.Format{half, nil}, []*plan.Format{half}
	writes := func(*plan.Step) []*plan.Format { return rounds }
	results := writes
	if b.wgmma {
		results = func(s *plan.Step) []*plan.Format {
			// Only the kernels of wgmma.cu write padded rows; others take such matrices.
			if slices.ContainsFunc(s.Nodes, func(n *graph.Node) bool { return n.Op == graph.OpLinear && !half.Holds(n.In[1].Shape.RowLen()) }) {
				return rounds
			}
			return []*plan.Format{half, padded}
		}
		rules = append(rules, product("bf16", "many", 0, plan.Rule{Packing: half, Weights: b.trained, Reads: reads, Writes: results}))
	}
	if !invariant {
		gates := func(s *plan.Step) []*plan.Format {
			if b.writesCodes(s) {
				return []*plan.Format{codeRow}
			}
			return nil
		}
		codes := plan.Rule{Weights: func(m plan.Matrix) bool { return m.Weight() && b.fitsCodes(m) }, Writes: gates}
		behind := codes
		behind.Reads, behind.Writes = []*plan.Format{codeRow, nil}, nil
		behind.When = func(_ *plan.Step, n *graph.Node) bool { return n.In[0].Node.Op == graph.OpGLU }
		rules = append(rules, product("f32", "one behind a gate", device.OneRow, behind), product("f32", "one of codes", device.OneRow, codes),
			plan.Rule{Class: "f32", Op: graph.OpGLU, To: device.OneRow, Writes: gates})
	}
	for _, r := range []plan.Rule{
		{Packing: half, Weights: func(m plan.Matrix) bool {
			return m.Weight() && (m.DType == tensor.F32 || m.DType == tensor.F16) && half.Holds(m.K)
		}},
		{},
	} {
		if !invariant {
			few := product("f32", "few", fewRows, r)
			few.Weights = func(m plan.Matrix) bool {
				packed := r.Packing != nil || m.DType == tensor.BF16
				return (r.Weights == nil || r.Weights(m)) && !(packed && b.large(m.N, m.K))
			}
			behind := product("bf16", "few behind attention", severalRows, r)
			behind.Reads, behind.Writes, behind.When = reads, results, b.behindAttention
			behind.Weights = func(m plan.Matrix) bool {
				return (r.Weights == nil || r.Weights(m)) && (r.Packing != nil || m.DType == tensor.BF16) && m.N*m.K >= attendedWeights
			}
			several := product("bf16", "several", severalRows, r)
			several.Reads, several.Weights = reads, few.Weights
			several.When = func(s *plan.Step, _ *graph.Node) bool { return len(s.Before) == 0 && len(s.After) > 0 }
			rules = append(rules, product("f32", "one", device.OneRow, r), several, behind, few)
		}
		r.Reads, r.Writes = reads, results
		rules = append(rules, product("bf16", "many", 0, r))
	}
	ends := func(op *graph.OpDef) func(s *plan.Step) []*plan.Format {
		return func(s *plan.Step) []*plan.Format {
			if s.Root().Op != op {
				return nil
			}
			return rounds
		}
	}
	trains := func(s *plan.Step, n *graph.Node) bool { return slices.Contains(s.Out, n.Out[1]) && b.flashes(n, true) }
	if !invariant { // attention of few queries keeps f32 too
		for _, op := range []*graph.OpDef{graph.OpAttention, graph.OpAttentionRel, graph.OpAttentionGrad} {
			rules = append(rules, plan.Rule{Class: "f32", Op: op, To: fewRows})
		}
	}
	flashes := func(s *plan.Step, n *graph.Node) bool {
		return !slices.Contains(s.Out, n.Out[1]) && b.flashes(n, false)
	}
	kind := func(kind string) func(*plan.Step, *graph.Node) bool {
		return func(s *plan.Step, _ *graph.Node) bool { return s.Kind == kind }
	}
	return append(append(rules, b.gradientRules()...),
		plan.Rule{Class: "f32", Op: graph.OpNorm, Reads: reads, Writes: writes, When: kind(headsAttention)},
		plan.Rule{Class: "f32", Op: graph.OpRope, Reads: reads, Writes: writes, When: kind(headsAttention)},
		plan.Rule{Class: "f32", Op: graph.OpNorm, Reads: reads, Writes: writes, Together: true,
			When: func(s *plan.Step, n *graph.Node) bool { return s.Kind == normAddNorm && n != s.Root() }},
		plan.Rule{Class: "f32", Op: graph.OpAdd, Reads: reads, Operands: 2, Together: true, Writes: writes, When: kind(normAddNorm)},
		plan.Rule{Class: "f32", Op: graph.OpNorm, Writes: ends(graph.OpNorm), Together: true},
		plan.Rule{Class: "f32", Op: graph.OpAdd, Reads: reads, Operands: 2, Together: true, Writes: ends(graph.OpNorm),
			When: kind("add+norm")},
		plan.Rule{Class: "f32", Op: graph.OpAdd, Writes: writes, Together: true, When: func(s *plan.Step, n *graph.Node) bool { return n == s.Root() }},
		plan.Rule{Class: "f32", Op: graph.OpAct, Reads: reads, Writes: ends(graph.OpAct), Together: true},
		plan.Rule{Class: "f32", Op: graph.OpGLU, Writes: ends(graph.OpGLU), Together: true},
		plan.Rule{Class: "f32", Op: graph.OpRope, Writes: ends(graph.OpRope), When: kind("rope")},
		plan.Rule{Class: "bf16", Op: graph.OpAttention, Writes: writes, Together: true,
			When: func(s *plan.Step, n *graph.Node) bool { return trains(s, n) && ofState(n) }},
		plan.Rule{Class: "bf16", Op: graph.OpAttention, Reads: reads, Operands: 3, Writes: writes, When: trains, Together: true},
		plan.Rule{Class: "bf16", Op: graph.OpAttention, Reads: reads, Operands: 3, Writes: writes, When: flashes},
		plan.Rule{Class: "f32", Op: graph.OpAttention, Writes: writes},
		plan.Rule{Class: "bf16", Op: graph.OpAttentionRel, Reads: reads, Operands: 3, Writes: writes, When: flashes},
		plan.Rule{Class: "f32", Op: graph.OpAttentionRel, Writes: writes},
		plan.Rule{Class: "bf16", Op: graph.OpAttentionKV, Writes: writes},
	)
}

// flashes reports whether attention without a cache runs on tensor cores. Where its
// log-sum-exp is wanted its gradients must run there too: their scores would not fit
// it otherwise.
func (b *Backend) flashes(n *graph.Node, lse bool) bool {
	a := n.Attr.(graph.AttentionAttr)
	if flashHead(a.HeadDim) > wideHead && (lse || n.DropsWeights()) {
		return false
	}
	return !b.inF32(n.In[0].Shape.RowLen()) && flashHead(a.HeadDim) > 0 && (!lse || n.Op == graph.OpAttention && flashesBack(a))
}

// ofState reports whether an operand of attention or of its gradients is state. State
// has one set of formats for all numbers of rows, and few rows read f32.
func ofState(n *graph.Node) bool {
	return slices.ContainsFunc(n.In, func(v *graph.Value) bool {
		return v != nil && v.DType == tensor.F32 && v.Node.Leaf != nil && v.Node.Leaf.Kind == graph.StateLeaf
	})
}

// in is an operand of a step in the format in which the step reads it.
type in struct {
	at   address
	half bool
}

// out is where a result goes, in f32 and in bf16.
type out struct{ plain, half address }

// reads is operand v of the step at hand.
func (b *binder) reads(v *graph.Value) in {
	if v == nil {
		return in{}
	}
	if f := b.Step.ReadAs(v); f != nil {
		return in{b.Form(v, f), true}
	}
	return in{b.Value(v), false}
}

// stride is how many values the rows of an operand of cols values are apart.
func (x in) stride(cols int) int {
	if x.half {
		return stride8(cols)
	}
	return cols
}

// writes is result v of the step at hand.
func (b *binder) writes(v *graph.Value) out {
	o := out{b.Form(v, nil), b.Form(v, half)}
	if o.half == 0 {
		o.half = b.Form(v, padded)
	}
	return o
}
