package cpu

import (
	"hotpath/internal/graph"
	"hotpath/internal/kernel/bf16"
	"hotpath/internal/kernel/vec"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// flat is an elementwise step. A share is a range of the flattened values, in
// whole cache lines.
type flat struct {
	label string
	like  mat
	part  func(lo, hi int)
}

func (k *flat) name() string                   { return k.label }
func (k *flat) width(b tensor.Bind, n int) int { return widthFor(len(k.like.all(b)), n) }
func (k *flat) runShare(_ *worker, b tensor.Bind, i, n int) {
	lo, hi := share(len(k.like.all(b)), 16, i, n)
	k.part(lo, hi)
}

func bindAdd(b *binder, s *plan.Step) (kernel, error) { return bindBinary(b, s, "add", vec.Add) }
func bindMul(b *binder, s *plan.Step) (kernel, error) { return bindBinary(b, s, "mul", vec.Mul) }

func bindBinary(b *binder, s *plan.Step, label string, f func(dst, a, b []float32)) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.In[1], n.Out[0])
	p, q, y := ms[0].full, ms[1].full, ms[2].full
	return &flat{label, ms[2], func(lo, hi int) { f(y[lo:hi], p[lo:hi], q[lo:hi]) }}, nil
}

func bindScale(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.Out[0])
	x, y, c := ms[0].full, ms[1].full, n.Attr.(graph.ScaleAttr).C
	return &flat{"scale", ms[1], func(lo, hi int) { vec.Scale(y[lo:hi], x[lo:hi], c) }}, nil
}

// bindDropout drops elements of values and of gradients alike.
func bindDropout(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.Out[0])
	x, y, key, salt := ms[0].full, ms[1].full, b.i32(n.In[1]).full, n.Attr.(graph.DropoutAttr).Salt
	return &flat{"dropout", ms[1], func(lo, hi int) { graph.NewDropout(key, salt).Apply(y[lo:hi], x[lo:hi], lo) }}, nil
}

// bindAccumulate adds a gradient to the sum of the earlier gradients of the step.
func bindAccumulate(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.In[1], n.In[2])
	sum, g, keep := ms[0].full, ms[1].full, ms[2].full
	return &flat{"accumulate", ms[0], func(lo, hi int) {
		if keep[0] == 0 {
			copy(sum[lo:hi], g[lo:hi])
			return
		}
		vec.Add(sum[lo:hi], sum[lo:hi], g[lo:hi])
	}}, nil
}

// bindAddRow adds one vector to every row.
func bindAddRow(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.In[1], n.Out[0])
	x, v, y := ms[0], ms[1].full, ms[2]
	return &rowwise{"add row", y, func(_ *worker, _ tensor.Bind, lo, hi int) {
		for i := lo; i < hi; i++ {
			vec.Add(y.row(i), x.row(i), v)
		}
	}}, nil
}

// activationKernel is what the CPU has for an activation.
type activationKernel struct {
	apply func(dst, x []float32)     // dst = f(x)
	times func(dst, x, u []float32)  // dst = f(x) * u
	grad  func(dst, dy, x []float32) // dst = dy * f'(x)
}

// activations are the vectorised ones. An activation without a row runs its
// scalar definition.
var activations = map[graph.ActKind]activationKernel{
	graph.GELU:     {vec.Gelu, vec.GeluMul, vec.GeluGrad},
	graph.GELUTanh: {vec.GeluTanh, vec.GeluTanhMul, vec.GeluTanhGrad},
	graph.SiLU:     {vec.Silu, vec.SiluMul, vec.SiluGrad},
}

func activation(kind graph.ActKind) activationKernel {
	if k, ok := activations[kind]; ok {
		return k
	}
	f, df := kind.Def().F, kind.Def().DF
	return activationKernel{
		func(dst, x []float32) {
			for i, v := range x {
				dst[i] = float32(f(float64(v)))
			}
		},
		func(dst, x, u []float32) {
			for i, v := range x {
				dst[i] = float32(f(float64(v))) * u[i]
			}
		},
		func(dst, dy, x []float32) {
			for i, v := range x {
				dst[i] = dy[i] * float32(df(float64(v)))
			}
		},
	}
}

// activationLabel is the name of an activation in profiles. It marks activations
// that run their scalar definition.
func activationLabel(kind graph.ActKind) string {
	if _, fast := activations[kind]; fast {
		return kind.String()
	}
	return kind.String() + " (scalar)"
}

func bindAct(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.Out[0])
	kind := n.Attr.(graph.ActAttr).Kind
	x, y, f, label := ms[0].full, ms[1].full, activation(kind).apply, activationLabel(kind)
	if kind == graph.Tanh { // alone it is fast: logits are capped with it
		f, label = vec.Tanh, kind.String()
	}
	if out := b.blocks(n.Out[0]); out != nil {
		return roundedRows(b, label, ms[1], out, func(dst []float32, lo, hi int) { f(dst, x[lo:hi]) }), nil
	}
	return &flat{label, ms[1], func(lo, hi int) { f(y[lo:hi], x[lo:hi]) }}, nil
}

// roundedRows is an elementwise step that writes bf16: out, of the size of y.
func roundedRows(b *binder, label string, y mat, out []uint16, part func(dst []float32, lo, hi int)) kernel {
	b.want(y.cols)
	return &rowwise{label, y, func(w *worker, b tensor.Bind, lo, hi int) {
		row, all := w.scratch.f[:y.cols], y.rows(b)
		for i := lo; i < hi; i++ {
			part(row, i*y.cols, (i+1)*y.cols)
			bf16.RoundRow(out, row, i, all)
		}
	}}
}

func bindGLU(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.In[1], n.Out[0])
	kind := n.Attr.(graph.ActAttr).Kind
	gate, up, y, f, label := ms[0].full, ms[1].full, ms[2].full, activation(kind).times, "glu "+activationLabel(kind)
	if out := b.blocks(n.Out[0]); out != nil {
		return roundedRows(b, label, ms[2], out, func(dst []float32, lo, hi int) { f(dst, gate[lo:hi], up[lo:hi]) }), nil
	}
	return &flat{label, ms[2], func(lo, hi int) { f(y[lo:hi], gate[lo:hi], up[lo:hi]) }}, nil
}

func bindActGrad(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.In[1], n.Out[0])
	kind := n.Attr.(graph.ActAttr).Kind
	x, dy, dx, f, label := ms[0].full, ms[1].full, ms[2].full, activation(kind).grad, activationLabel(kind)
	if kind == graph.Tanh {
		f, label = tanhGrad, kind.String()
	}
	return &flat{label + " backward", ms[2], func(lo, hi int) { f(dx[lo:hi], dy[lo:hi], x[lo:hi]) }}, nil
}

// tanhGrad makes dst = dy (1 - tanh²(x)).
func tanhGrad(dst, dy, x []float32) {
	var block [256]float32
	for len(dst) > 0 {
		t := block[:min(len(dst), len(block))]
		vec.Tanh(t, x[:len(t)])
		for i, v := range t {
			dst[i] = dy[i] * (1 - v*v)
		}
		dst, dy, x = dst[len(t):], dy[len(t):], x[len(t):]
	}
}

// bindGLUGrad: dup = dy*f(gate), dgate = dy*up*f'(gate).
func bindGLUGrad(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.In[1], n.In[2], n.Out[0], n.Out[1])
	kind := n.Attr.(graph.ActAttr).Kind
	gate, up, dy, dgate, dup := ms[0], ms[1], ms[2], ms[3], ms[4]
	k := activation(kind)
	return &flat{"glu " + activationLabel(kind) + " backward", gate, func(lo, hi int) {
		if dgate.present() {
			d := dgate.full[lo:hi]
			vec.Mul(d, dy.full[lo:hi], up.full[lo:hi])
			k.grad(d, d, gate.full[lo:hi])
		}
		if dup.present() {
			k.times(dup.full[lo:hi], gate.full[lo:hi], dy.full[lo:hi])
		}
	}}, nil
}
