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

// Some values are kept in bf16 between two steps: what a product or attention
// makes and only products in bf16 read, which would round it anyway. The bytes
// are half, and the pass that rounds is gone; activations on the way are as
// good as bf16 needs, not as good as f32. Both ends find out by themselves,
// from the plan.

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

// rounded says up to how many rows v stays in f32 rather than in bf16: never,
// 0, or the few that may be multiplied with a file's rows as they lie.
func (b *binder) rounded(v *graph.Value) int {
	if known, ok := b.roundedValues[v]; ok {
		return known
	}
	few := never
	if b.canRound(v) {
		few = b.fewRows(v)
	}
	b.roundedValues[v] = few
	return few
}

func (b *binder) canRound(v *graph.Value) bool {
	if pl := b.plan.Place(v); pl.Class != plan.Activations || pl.Bytes == 0 || !amx.CanRound(v.Shape.RowLen()) {
		return false
	}
	made, read := false, false
	for i := range b.plan.Steps {
		s := &b.plan.Steps[i]
		if s.Root().Out[0] == v {
			if made = b.rounds(s); !made {
				return false
			}
			continue
		}
		if slices.Contains(s.Out, v) {
			return false // kept by a step that ends with something else
		}
		if !slices.Contains(s.In, v) {
			continue
		}
		if read = b.inBF16(s) && onlyFactor(s, v); !read {
			return false
		}
	}
	return made && read
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
		return ok && b.inBF16(s)
	}
	return s.Kind == "linear" && b.inBF16(s)
}

// inBF16 reports whether a step is made of products in bf16.
func (b *binder) inBF16(s *plan.Step) bool {
	if !slices.Contains(productKinds, s.Kind) {
		return false
	}
	for _, n := range s.Nodes {
		if n.Op != graph.OpLinear {
			continue
		}
		w := b.weight(n.In[1])
		if w == nil || w.panels != nil || w.int8 != nil || router(n.In[1]) || w.tiles == nil && b.be.opts.Precision.class() != BF16 {
			return false
		}
	}
	return true
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

// half is the memory of v, bound as m, where it is kept in bf16.
func (b *binder) half(v *graph.Value, m mat) half {
	few := b.rounded(v)
	if few == never {
		return half{}
	}
	return half{unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(m.full))), len(m.full)), few}
}

// fewRows is how many rows of v may be made from or multiplied with a file's
// rows as they lie, in f32. Where all weights are packed there are none, and
// what comes out does not depend on the number of rows.
func (b *binder) fewRows(v *graph.Value) int {
	if b.invariant {
		return 0
	}
	for i := range b.plan.Steps {
		s := &b.plan.Steps[i]
		if s.Root().Out[0] != v && !slices.Contains(s.In, v) {
			continue
		}
		for _, n := range s.Nodes {
			if n.Op == graph.OpLinear && b.weight(n.In[1]).tiles == nil {
				return max(gemm.FewRows, amx.FewRows)
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
