package cpu

import (
	"errors"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/bf16"
	"hotpath/internal/kernel/vec"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// normRow normalises one chunk.
type normRow struct {
	graph.NormAttr
	w, bias []float32 // w includes Offset
}

func newNormRow(b *binder, n *graph.Node) normRow {
	ms := b.mats(n.In[1], n.In[2])
	r := normRow{NormAttr: n.Attr.(graph.NormAttr), w: ms[0].full, bias: ms[1].full}
	if r.Offset != 0 {
		if b.weight(n.In[1]) == nil {
			b.fail(errors.New("a trained norm with an offset of its weight has no kernel"))
		}
		r.w = make([]float32, len(ms[0].full))
		for i, v := range ms[0].full {
			r.w[i] = v + r.Offset
		}
	}
	return r
}

func (r *normRow) apply(dst, x []float32) { r.applyAt(dst, x, 0) }

// applyAt is apply to columns of a row from col on.
func (r *normRow) applyAt(dst, x []float32, col int) {
	n := r.Size(len(r.w))
	for i := 0; i < len(x); i += n {
		at := (col + i) % len(r.w)
		w, bias := r.w[at:at+n], r.bias
		if bias != nil {
			bias = bias[at : at+n]
		}
		if r.Kind == graph.LayerNorm {
			vec.LayerNorm(dst[i:i+n], x[i:i+n], w, bias, r.Eps)
			continue
		}
		vec.RMSNorm(dst[i:i+n], x[i:i+n], w, r.Eps)
	}
}

// normed is a norm of rows, and the sum that it normalizes, if there is one.
type normed struct {
	normRow
	x    mat
	add  mat           // another x, which is added first; absent where there is no sum
	pre  normRow       // normalises what is added, where it has a weight
	sum  mat           // absent if no other step reads it
	y    mat           // absent where it is kept in bf16 alone
	out  []uint16      // y in bf16, nil if no step reads it in bf16
	task bf16.NormTask // all of it at once, where N is not 0
}

func (k *normed) rows(w *worker, b tensor.Bind, lo, hi int) {
	all := k.y.rows(b)
	if k.task.N > 0 {
		t := k.task
		t.Y = k.y.full
		if k.out != nil {
			t.Half, t.Rows = k.out, all
		}
		if t.Sum == nil {
			t.Sum = w.scratch.f[:t.N]
		}
		each := k.y.cols / t.N
		bf16.RunNorm(&t, lo*each, hi*each)
		return
	}
	for i := lo; i < hi; i++ {
		y := w.scratch.f[:k.y.cols]
		if k.y.present() {
			y = k.y.row(i)
		}
		x := k.x.row(i)
		if k.add.present() {
			sum, add := y, k.add.row(i)
			if k.sum.present() {
				sum = k.sum.row(i)
			}
			if k.pre.w != nil {
				k.pre.apply(y, add)
				add = y
			}
			vec.Add(sum, x, add)
			x = sum
		}
		k.apply(y, x)
		if k.out != nil {
			bf16.RoundRow(k.out, y, i, all)
		}
	}
}

// newNormed binds a norm, a norm of a sum, or a norm of a sum with another norm:
// norm(x), norm(x + add) or norm(x + norm(add)). It stores the sum if other steps
// read it.
func newNormed(b *binder, nodes []*graph.Node) *normed {
	root := nodes[len(nodes)-1]
	k := &normed{}
	switch len(nodes) {
	case 1:
		k.x = b.f32(root.In[0])
	case 2:
		sum := nodes[0]
		k.x, k.add, k.sum = b.f32(sum.In[0]), b.f32(sum.In[1]), b.f32(sum.Out[0])
	default:
		pre, sum := nodes[0], nodes[1]
		k.x, k.add, k.sum, k.pre = b.f32(sum.In[0]), b.f32(pre.In[0]), b.f32(sum.Out[0]), newNormRow(b, pre)
	}
	k.bind(b, root, root.Out[0])
	return k
}

// bind binds norm n of k.x and k.add, with the result y.
func (k *normed) bind(b *binder, n *graph.Node, y *graph.Value) {
	k.normRow, k.y, k.out = newNormRow(b, n), b.f32(y), b.blocks(y)
	b.want(k.y.cols)
	k.fuse()
}

func (k *normed) label() string {
	switch {
	case k.pre.w != nil:
		return k.pre.Kind.String() + "+add+" + k.Kind.String()
	case k.add.present():
		return "add+" + k.Kind.String()
	}
	return k.Kind.String()
}

// fuse selects the one-pass kernel if there is one. If all heads have the same
// weight, the kernel treats heads as rows.
func (k *normed) fuse() {
	n := len(k.w)
	if !bf16.CanNorm(n) || k.Size(n) != n || k.pre.w != nil && k.pre.Size(n) != n || n != k.y.cols && (k.add.present() || k.out != nil) {
		return
	}
	t := bf16.NormTask{N: n, X: k.x.full, Add: k.add.full, Sum: k.sum.full, W: k.w, Bias: k.bias, Eps: k.Eps, PreW: k.pre.w, PreEps: k.pre.Eps}
	switch pre := k.pre.w != nil; {
	case k.Kind == graph.LayerNorm && (pre || k.bias == nil) || pre && k.pre.Kind != graph.RMSNorm:
		return
	case k.Kind == graph.LayerNorm && k.add.present():
		t.Kind = bf16.LayerAdd
	case k.Kind == graph.LayerNorm:
		t.Kind = bf16.Layer
	case pre:
		t.Kind = bf16.RMSNormAdd
	case k.add.present():
		t.Kind = bf16.RMSAdd
	default:
		t.Kind = bf16.RMS
	}
	k.task = t
}

// bindNorms is a step that ends with a norm of rows.
func bindNorms(b *binder, s *plan.Step) (kernel, error) {
	k := newNormed(b, s.Nodes)
	return &rowwise{k.label(), k.x, k.rows}, nil
}

// turnedRows is how many rows are normed before they are turned: they are still
// in L1.
const turnedRows = 8

// bindNormRope is rope(norm(x)), of queries and keys whose heads are normed.
func bindNormRope(b *binder, s *plan.Step) (kernel, error) {
	norm, rope := s.Nodes[0], s.Root()
	k := &normed{x: b.f32(norm.In[0])}
	k.bind(b, norm, rope.Out[0])
	r := newRotation(b, rope)
	r.x = k.y
	return &rowwise{k.Kind.String() + "+rope", k.x, func(w *worker, b tensor.Bind, lo, hi int) {
		for ; lo < hi; lo += turnedRows {
			end := min(hi, lo+turnedRows)
			k.rows(w, b, lo, end)
			for i := lo; i < end; i++ {
				r.row(w, k.y.row(i), i)
			}
		}
	}}, nil
}
