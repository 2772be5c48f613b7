package cpu

import (
	"math"
	"slices"
	"unsafe"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/amx"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// Some values are kept in bf16 between two steps: what a product, attention or
// a norm makes and only products in bf16 read, which would round it anyway. The
// bytes are half, and the pass that rounds is gone, which each worker would make
// for itself; activations on the way are as good as bf16 needs, not as good as
// f32. What a norm makes for such products and for others too, as where sums
// are normed, is kept in both forms: its place has room for the second. Both
// ends find out by themselves, from the plan.

// roundActs are the activations that a product can round behind.
var roundActs = map[graph.ActKind]amx.Act{
	graph.GELU:     amx.Gelu,
	graph.GELUTanh: amx.GeluTanh,
	graph.SiLU:     amx.Silu,
}

// productKinds are the steps that multiply with weights.
var productKinds = []string{"linear", "linear+act", "linear+glu", "linear+linear"}

// never is more rows than a value can have.
const never = math.MaxInt

// rounding is how a value is kept in bf16.
type rounding struct {
	few  int  // up to so many rows it stays in f32: never, 0, or the few that may be multiplied with a file's rows as they lie
	both bool // it is there in f32 too, for other readers
}

// rounding says how v is kept.
func (b *binder) rounding(v *graph.Value) rounding {
	if known, ok := b.roundings[v]; ok {
		return known
	}
	r := rounding{few: never}
	pl := b.plan.Place(v)
	if pl.Class == plan.Activations && pl.Bytes > 0 && amx.CanRound(v.Shape.RowLen()) && b.makes(v) {
		products, others := b.be.readers(b.plan, v)
		if products && (!others || pl.Beside > 0) {
			r = rounding{b.fewRows(v), others}
		}
	}
	b.roundings[v] = r
	return r
}

// makes reports whether a step ends with v and can make it in bf16.
func (b *binder) makes(v *graph.Value) bool {
	for i := range b.plan.Steps {
		s := &b.plan.Steps[i]
		if s.Root().Out[0] == v {
			return b.rounds(s)
		}
	}
	return false
}

// readers says who reads v in a plan: products that take it in bf16, and others.
func (b *Backend) readers(p *plan.Plan, v *graph.Value) (products, others bool) {
	for i := range p.Steps {
		s := &p.Steps[i]
		switch {
		case !slices.Contains(s.In, v):
		case b.takesBF16(s, v):
			products = true
		default:
			others = true
		}
	}
	return products, others
}

// besideBytes is the room for a norm's result in bf16 where it is kept in f32
// too.
func (b *Backend) besideBytes(p *plan.Plan, v *graph.Value) int64 {
	if v.Node.Op != graph.OpNorm || !amx.CanRound(v.Shape.RowLen()) {
		return 0
	}
	if products, others := b.readers(p, v); !products || !others {
		return 0
	}
	return 2 * int64(v.Shape.Len(p.Max))
}

// rounds reports whether a step can make its result in bf16.
func (b *binder) rounds(s *plan.Step) bool {
	switch a := s.Root().Attr.(type) {
	case graph.AttentionAttr:
		return b.attentionClass(s.Root()) == BF16 && amx.CanRound(a.HeadDim)
	case graph.AttentionKVAttr:
		// A sequence's only query is answered in f32, and plans of few tokens are
		// for such.
		alone := b.plan.Max.T <= amx.FewRows && b.readsCache(s.Root())
		return b.attentionClass(s.Root()) == BF16 && amx.CanRound(a.HeadDim) && !alone
	case graph.ActAttr:
		_, ok := roundActs[a.Kind]
		return ok && b.be.inBF16(s)
	}
	if s.Root().Op == graph.OpNorm {
		return b.plan.Place(s.Root().Out[0]) != b.plan.Place(s.In[0]) // rows lie elsewhere in bf16 than in f32
	}
	return s.Kind == "linear" && b.be.inBF16(s)
}

// inBF16 reports whether a step is made of products in bf16. In i8g32 nothing is
// kept in bf16: there the class depends on how a weight is stored, and a plan
// may be bound to weights of another type than its graph has.
func (b *Backend) inBF16(s *plan.Step) bool {
	if b.opts.Precision == I8G32 || !slices.Contains(productKinds, s.Kind) {
		return false
	}
	for _, n := range s.Nodes {
		if n.Op != graph.OpLinear {
			continue
		}
		w := n.In[1]
		if l := w.Node.Leaf; l == nil || l.Kind != graph.WeightLeaf || b.opts.Precision.Class(l.Role, w.DType) != BF16 {
			return false
		}
	}
	return true
}

// takesBF16 reports whether a step reads v in bf16.
func (b *Backend) takesBF16(s *plan.Step, v *graph.Value) bool {
	return b.inBF16(s) && onlyFactor(s, v)
}

// onlyFactor reports whether a step reads v as the left factor of its products
// and in no other place.
func onlyFactor(s *plan.Step, v *graph.Value) bool {
	for _, n := range s.Nodes {
		for i, in := range n.In {
			if in == v && (n.Op != graph.OpLinear || i != 0) {
				return false
			}
		}
	}
	return true
}

// half is a value's memory as bf16; its zero value is one that stays in f32.
type half struct {
	bits []uint16
	few  int // up to so many rows it stays in f32
}

func (h half) in(rows int) bool { return h.bits != nil && rows > h.few }

// half is the memory of v, bound as m, where the step at hand has it in bf16.
func (b *binder) half(v *graph.Value, m mat) half {
	r := b.rounding(v)
	if r.few == never || slices.Contains(b.step.In, v) && !b.be.takesBF16(b.step, v) {
		return half{}
	}
	if !r.both {
		return half{unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(m.full))), len(m.full)), r.few}
	}
	pl := b.plan.Place(v)
	at := b.mem.Arenas[pl.Class].Host()[pl.Offset+pl.Bytes-pl.Beside:][:pl.Beside]
	return half{unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(at))), len(at)/2), r.few}
}

// fewRows is how many rows of v may be made from or multiplied with a file's
// rows as they lie, in f32. Where all weights are packed there are none, and
// what comes out does not depend on the number of rows.
func (b *binder) fewRows(v *graph.Value) int {
	few := max(gemm.FewRows, amx.FewRows)
	if b.invariant || b.least(v.Shape.Outer) > few {
		return 0
	}
	for i := range b.plan.Steps {
		s := &b.plan.Steps[i]
		if s.Root().Out[0] != v && !slices.Contains(s.In, v) || !b.be.inBF16(s) {
			continue
		}
		for _, n := range s.Nodes {
			if n.Op == graph.OpLinear && b.weight(n.In[1]).tiles == nil {
				return few
			}
		}
	}
	return 0
}

// factor is x from row m on, as it is in this run.
type factor struct {
	f32  []float32
	half []uint16 // instead, where not nil
}

func (x *mat) factor(h half, b tensor.Bind, m int) factor {
	if h.in(x.rows(b)) {
		return factor{half: h.bits[m*x.cols:]}
	}
	return factor{f32: x.full[m*x.cols:]}
}
