package cuda

import (
	"encoding/binary"

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

// Rows up to which products have kernels of their own: a single row in f32, and
// few rows on tensor cores from weights in their storage type.
const (
	oneRow  = 1
	fewRows = 16
)

// Rules say how products compute by their number of rows, and which values lie in
// bf16. In f32 there is no such value.
func (b *Backend) Rules(invariant bool) []plan.Rule {
	if b.opts.F32 {
		many := plan.Rule{Class: "f32", Op: graph.OpLinear, Kernel: "many"}
		if invariant {
			return []plan.Rule{many}
		}
		return []plan.Rule{{Class: "f32", Op: graph.OpLinear, Kernel: "one", To: oneRow}, {Class: "f32", Op: graph.OpLinear, Kernel: "few", To: fewRowsF32}, many}
	}
	reads, rounds := []*plan.Format{half, nil}, []*plan.Format{half}
	writes := func(*plan.Step) []*plan.Format { return rounds }
	var rules []plan.Rule
	for _, r := range []plan.Rule{
		{Packing: half, Weights: func(m plan.Matrix) bool {
			return m.Weight() && (m.DType == tensor.F32 || m.DType == tensor.F16) && half.Holds(m.K)
		}},
		{},
	} {
		r.Op = graph.OpLinear
		if !invariant {
			one, few := r, r
			one.Class, one.Kernel, one.To = "f32", "one", oneRow
			few.Class, few.Kernel, few.To, few.Reads, few.Writes = "bf16", "few", fewRows, reads, writes
			rules = append(rules, one, few)
		}
		r.Class, r.Kernel, r.Reads, r.Writes = "bf16", "many", reads, writes
		rules = append(rules, r)
	}
	ends := func(op *graph.OpDef) func(s *plan.Step) []*plan.Format {
		return func(s *plan.Step) []*plan.Format {
			if s.Root().Op != op {
				return nil
			}
			return rounds
		}
	}
	return append(rules,
		plan.Rule{Class: "f32", Op: graph.OpNorm, Writes: ends(graph.OpNorm), Together: true},
		plan.Rule{Class: "f32", Op: graph.OpAdd, Reads: reads, Operands: 2, Together: true, Writes: ends(graph.OpNorm),
			When: func(s *plan.Step, _ *graph.Node) bool { return s.Kind == "add+norm" }},
		plan.Rule{Class: "f32", Op: graph.OpAct, Writes: ends(graph.OpAct)},
		plan.Rule{Class: "f32", Op: graph.OpGLU, Writes: ends(graph.OpGLU)},
		plan.Rule{Class: "f32", Op: graph.OpRope, Writes: ends(graph.OpRope), When: func(s *plan.Step, _ *graph.Node) bool { return s.Kind == "rope" }},
		plan.Rule{Class: "bf16", Op: graph.OpAttention, Reads: reads, Operands: 3, Writes: writes, When: flashes},
		plan.Rule{Class: "f32", Op: graph.OpAttention, Writes: writes},
		plan.Rule{Class: "bf16", Op: graph.OpAttentionRel, Reads: reads, Operands: 3, Writes: writes, When: flashes},
		plan.Rule{Class: "f32", Op: graph.OpAttentionRel, Writes: writes},
		plan.Rule{Class: "bf16", Op: graph.OpAttentionKV, Writes: writes},
	)
}

// flashes reports whether attention without a cache runs on tensor cores: they
// have no kernel that gives the log-sum-exp, which gradients want.
func flashes(s *plan.Step, n *graph.Node) bool {
	return flashHead(n.Attr.(graph.AttentionAttr).HeadDim) > 0 && (len(n.Out) < 2 || !wanted(s, n.Out[1]))
}

func wanted(s *plan.Step, v *graph.Value) bool {
	for _, o := range s.Out {
		if o == v {
			return true
		}
	}
	return false
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
	if b.step.ReadAs(v) == half {
		return in{b.form(v, half), true}
	}
	return in{b.value(v), false}
}

// writes is result v of the step at hand.
func (b *binder) writes(v *graph.Value) out { return out{b.form(v, nil), b.form(v, half)} }
