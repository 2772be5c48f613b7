package cpu

import (
	"unsafe"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/bf16"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// bf16class rounds both operands to bf16 and sums in f32: on tiles if the
// processor has them, otherwise with f32 instructions, at half of the bytes.
type bf16class struct{}

// bf16Panels holds W[N,K] for products x w^T, bf16PanelsT the same matrix for
// products dy w: AdamW writes both.
var (
	bf16Panels = &plan.Format{
		Name:  "bf16 panels",
		Bytes: func(rows, cols int) int64 { return 2 * int64(bf16.PackedLen(rows, cols)) },
		Encode: func(dst []byte, src []float32, rows, cols int) {
			bf16.Pack(halves(dst), &bf16.Rows{W: src, N: rows, K: cols, LD: cols}, rows, cols)
		},
	}
	bf16PanelsT = &plan.Format{
		Name:  "bf16 panels, transposed",
		Bytes: func(rows, cols int) int64 { return 2 * int64(bf16.PackedLen(cols, rows)) },
		Encode: func(dst []byte, src []float32, rows, cols int) {
			bf16.Pack(halves(dst), &bf16.Natural{W: src, N: cols, K: rows, LD: cols}, cols, rows)
		},
	}
	// bf16Blocks is the format of activations between two products on tiles,
	// which would round them anyway. It halves the bytes, and no worker needs a
	// pass for rounding.
	bf16Blocks = &plan.Format{
		Name:  "bf16",
		Holds: bf16.CanRound,
		Bytes: func(rows, cols int) int64 { return 2 * int64(rows) * int64(cols) },
		Encode: func(dst []byte, src []float32, rows, cols int) {
			bf16.Round(halves(dst), src, cols, rows, cols)
		},
	}
)

func halves(b []byte) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/2)
}

// Kernels of the class.
const (
	bf16Few    = "few"    // few rows with weights in their storage type, on tiles
	bf16Packed = "panels" // resident panels
	bf16Stored = "stored" // panels decoded from weights in their storage type
	bf16State  = "state"  // panels that the optimizer writes
)

// roundActs are the activations that a product can apply before it rounds its
// result.
var roundActs = map[graph.ActKind]bf16.Act{
	graph.GELU:     bf16.Gelu,
	graph.GELUTanh: bf16.GeluTanh,
	graph.SiLU:     bf16.Silu,
}

// roundedEnds are the formats other than f32 in which a step of products can
// write its result.
func roundedEnds(s *plan.Step) []*plan.Format {
	if a, ok := s.Root().Attr.(graph.ActAttr); ok {
		if _, ok := roundActs[a.Kind]; !ok {
			return nil
		}
	} else if s.Kind != "linear" {
		return nil // products side by side end in f32
	}
	return []*plan.Format{bf16Blocks}
}

func (bf16class) rules(q request) (few, many []plan.Rule) {
	blocks := plan.Rule{Class: "bf16", Reads: []*plan.Format{bf16Blocks, nil}, Writes: roundedEnds}
	rule := func(kernel string, from, to int, packing *plan.Format, r plan.Rule) plan.Rule {
		r.Class, r.Kernel, r.From, r.To, r.Packing = "bf16", kernel, from, to, packing
		return r
	}
	inBF16 := func(main Precision, _ *gemm.Stored) bool { return main == BF16 }
	if !q.invariant {
		few = append(few, q.stored(rule(bf16Few, 2, bf16.FewRows, nil, plan.Rule{}), func(main Precision, w *gemm.Stored) bool {
			return main == BF16 && bf16.CanFew(w)
		})...)
	}
	many = append(many, q.each(rule(bf16Packed, 0, 0, bf16Panels, blocks), func(main Precision, m plan.Matrix) bool {
		return main == BF16 && !m.DType.Quantized() && !q.noPack
	})...)
	if !q.invariant { // beside kernels for few rows, values stay in f32
		many = append(many, q.stored(rule(bf16Stored, 1, bf16.FewRows, nil, plan.Rule{}), inBF16)...)
	}
	many = append(many, q.stored(rule(bf16Stored, 0, 0, nil, blocks), inBF16)...)
	state := func(m plan.Matrix) bool {
		return q.precision == BF16 && m.Leaf != nil && m.Leaf.Kind == graph.StateLeaf && m.DType == tensor.F32
	}
	forward, backward := rule(bf16State, 0, 0, bf16Panels, blocks), rule(bf16State, 0, 0, bf16PanelsT, blocks)
	forward.Op, forward.Weights = graph.OpLinear, state
	backward.Op, backward.Weights = graph.OpLinearDX, state
	return few, append(many, forward, backward)
}

func (bf16class) pack(b *Backend, w plan.Weight, n, k int) (weight, error) {
	stored, err := gemm.NewStored(w.Data, w.DType, n, k)
	if err != nil {
		return nil, err
	}
	mem := b.packed.take(bf16.PackedLen(n, k) * 2)
	return &bf16Weight{bf16.Pack(halves(mem), bf16.NewStored(stored), n, k)}, nil
}

type bf16Weight struct{ p *bf16.Packed }

func (w *bf16Weight) Bytes() int64                   { return int64(len(w.p.Data)) * 2 }
func (w *bf16Weight) unpackRow(dst []float32, r int) { w.p.UnpackRow(dst, r) }

func (bf16class) bind(b *binder, m *matrix, r *plan.Rule) (way, error) {
	p := &bf16Way{n: m.n, k: m.k, split_: split{mr: bf16.MR, nr: bf16.NR, tiles: bf16.Tiles(), deep: m.k >= deepRows}}
	if !bf16.Tiles() {
		p.split_.mr = gemm.MR()
	}
	p.named, p.split_.cheap = "gemm bf16 panels", true
	switch r.Kernel {
	case bf16Packed:
		p.packed = m.w.(*bf16Weight).p
	case bf16State:
		at, _ := b.plan.Form(m.value, r.Packing)
		p.packed = &bf16.Packed{Data: halves(b.memory(at)), N: m.n, K: m.k}
	default:
		stored, err := b.stored(m)
		if err != nil {
			return nil, err
		}
		if r.Kernel == bf16Few {
			return &bf16Direct{named("rows bf16 from " + storedAs(stored)), stored,
				scratchFor(b, "bf16 few", [2]int{m.k}, func(size [2]int) *bf16.FewScratch { return bf16.NewFewScratch(size[0]) })}, nil
		}
		p.named, p.split_.cheap, p.stored = named("gemm bf16 from "+storedAs(stored)), false, stored
		for i, kind := range []string{"bf16 decoder", "bf16 gate's decoder"} {
			p.decoders[i] = scratchFor(b, kind, [2]int{}, func([2]int) *bf16.Stored { return bf16.NewStored(nil) })
		}
	}
	p.scratch = scratchFor(b, "bf16", [2]int{m.k}, func(size [2]int) *bf16.Scratch { return bf16.NewScratch(size[0]) })
	return p, nil
}

// bf16Way multiplies with panels.
type bf16Way struct {
	named
	n, k     int
	packed   *bf16.Packed // resident panels, or
	stored   *gemm.Stored // weights in their storage type, decoded on the way:
	decoders [2]*perWorker[*bf16.Stored]
	split_   split
	scratch  *perWorker[*bf16.Scratch]
}

// panels is the B operand for a worker: the first or the second of a product.
func (p *bf16Way) panels(w *worker, operand int) bf16.Panels {
	if p.packed != nil {
		return p.packed
	}
	d := p.decoders[operand].of[w.lane]
	d.W = p.stored
	return d
}

func (p *bf16Way) split() split { return p.split_ }

func (p *bf16Way) multiply(w *worker, t task, c0, c1 int) {
	g := bf16.Task{M: t.rows, N: p.n, K: p.k, A: t.x.f32, Rounded: halves(t.x.raw), LDA: p.k, B: p.panels(w, 0), C: t.y, LDC: p.n, Bias: t.bias, Accumulate: t.add, Epoch: w.epoch}
	bf16.Run(&g, 0, t.rows, c0/bf16.NR, (c1+bf16.NR-1)/bf16.NR, p.scratch.of[w.lane])
}

// gate is the other factor of a gated product.
type gate struct {
	up   *bf16Way
	bias []float32
}

// round computes act(x w^T + bias), times the gate's product if there is a gate,
// as bf16 blocks.
func (p *bf16Way) round(w *worker, out []uint16, t task, act bf16.Act, g gate, c0, c1 int) {
	r := bf16.RoundedTask{M: t.rows, N: p.n, K: p.k, A: t.x.f32, Rounded: halves(t.x.raw), LDA: p.k, Epoch: w.epoch,
		B: p.panels(w, 0), Bias: t.bias, Act: act, Out: out}
	if g.up != nil {
		r.B2, r.Bias2 = g.up.panels(w, 1), g.bias
	}
	bf16.RunRounded(&r, 0, t.rows, c0/bf16.NR, (c1+bf16.NR-1)/bf16.NR, p.scratch.of[w.lane])
}

// bf16Direct multiplies few rows with weights in their storage type, on tiles.
type bf16Direct struct {
	named
	w       *gemm.Stored
	scratch *perWorker[*bf16.FewScratch]
}

func (p *bf16Direct) split() split {
	return split{mr: bf16.MR, nr: bf16.NR, tiles: true, unpacks: true}
}

func (p *bf16Direct) multiply(w *worker, t task, c0, c1 int) {
	g := bf16.FewTask{M: t.rows, A: t.x.f32, LDA: p.w.K, W: p.w, C: t.y, LDC: p.w.N, Bias: t.bias, Epoch: w.epoch, Next: w.next}
	bf16.RunFew(&g, c0, c1, p.scratch.of[w.lane])
}
