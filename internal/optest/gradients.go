package optest

import (
	"fmt"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// gradients are chains of gradients as training steps have them: what one gives, only
// others read, so that a backend may keep it rounded between the two.
func gradients() []Case {
	dx := func(b *Bench, name string, dy, w *graph.Value) *graph.Value {
		return b.Apply(graph.OpLinearDX, name, nil, dy, w).Out[0]
	}
	dw := func(b *Bench, name string, dy, x *graph.Value) *graph.Value {
		return b.Apply(graph.OpLinearDW, name, nil, dy, x).Out[0]
	}
	sum := func(b *Bench, name string, x *graph.Value) *graph.Value {
		return b.Apply(graph.OpColSum, name, nil, x).Out[0]
	}
	var cs []Case
	for _, kind := range []graph.ActKind{graph.GELU, graph.GELUTanh, graph.SiLU, graph.QuickGELU} {
		cs = append(cs, Case{Name: fmt.Sprintf("gradients of a feed-forward with %s", kind), NoGrad: true, Tol: 2e-5, Build: func(b *Bench) []*graph.Value {
			x, dy := b.F32(dimT, 40), b.F32(dimT, 40)
			up, down := b.Stored(tensor.F32, 72, 40), b.Stored(tensor.F32, 40, 72)
			pre := b.Linear("up", x, up, nil)
			h := b.Act("act", pre, kind)
			dpre := b.Apply(graph.OpActGrad, "dact", graph.ActAttr{Kind: kind}, pre, dx(b, "ddown", dy, down)).Out[0]
			return []*graph.Value{dx(b, "dup", dpre, up), dw(b, "wup", dpre, x), sum(b, "bup", dpre), dw(b, "wdown", dy, h), sum(b, "bdown", dy)}
		}})
	}
	for _, width := range []int{40, 72, 600} {
		cs = append(cs, Case{Name: fmt.Sprintf("gradients of a norm of %d and of what reads it", width), NoGrad: true, Tol: 3e-5, Build: func(b *Bench) []*graph.Value {
			x, w, rest := b.F32(dimT, width), b.F32(tensor.Fixed(width)), b.F32(dimT, width)
			a := graph.NormAttr{Kind: graph.LayerNorm, Eps: 1e-5}
			var dh *graph.Value
			for i, n := range []int{40, 24, 75} {
				d := dx(b, fmt.Sprint("dx", i), b.F32(dimT, n), b.Stored(tensor.F32, n, width))
				if dh == nil {
					dh = d
				} else {
					dh = b.Add(fmt.Sprint("sum", i), dh, d)
				}
			}
			norm := b.Apply(graph.OpNormDW, "dw", graph.NormDWAttr{NormAttr: a, Width: width}, dh, x)
			all := b.Add("all", rest, b.Apply(graph.OpNormDX, "dx", a, dh, x, w).Out[0])
			out := b.Stored(tensor.F32, width, 48)
			return []*graph.Value{norm.Out[0], norm.Out[1], dx(b, "o", all, out), dw(b, "wo", all, b.F32(dimT, 48)), b.Scale("residual", all, 0.5)}
		}})
	}
	cs = append(cs, Case{Name: "gradients of attention and of what it reads", NoGrad: true, Tol: 3e-5, Build: func(b *Bench) []*graph.Value {
		x, starts := b.Scaled(b.F32(dimT, 48), 0.1), b.Starts() // small scores: rounding does not change who sees whom
		project := func(name string) *graph.Value { return b.Linear(name, x, b.Stored(tensor.F32, 48, 48), nil) }
		q, k, v := project("q"), project("k"), project("v")
		out, _ := b.Attention("attention", q, k, v, starts, graph.AttentionAttr{Heads: 3, KVHeads: 3, HeadDim: 16, Causal: true})
		dout := dx(b, "do", b.F32(dimT, 40), b.Stored(tensor.F32, 40, 48))
		grad := graph.OpAttention.Grad(b.Builder, out.Node, []*graph.Value{dout, nil})
		outs := []*graph.Value{dw(b, "wo", b.F32(dimT, 40), out)}
		for i, d := range grad[:3] {
			outs = append(outs, dw(b, fmt.Sprint("w", i), d, x))
			if i != 1 { // the gradients of all keys cancel
				outs = append(outs, sum(b, fmt.Sprint("b", i), d))
			}
		}
		return outs
	}})
	// Rows of 260 values are no multiple of 8, so kernels that pad rows take neither
	// matrix nor logits.
	return append(cs, head("gradients of a head and its loss", 531, 40), head("gradients of a head of 260 values and its loss", 531, 260))
}

// head is a head of an odd number of columns, its loss and their gradients.
func head(name string, vocab, width int) Case {
	return Case{Name: name, NoGrad: true, Tol: 5e-5, Build: func(b *Bench) []*graph.Value {
		x, w, targets := b.Scaled(b.F32(dimR, width), 0.3), b.Stored(tensor.F32, vocab, width), b.targets(int32(vocab))
		nll, _ := b.CrossEntropy("loss", b.Linear("head", x, w, nil), targets)
		d := graph.OpCrossEntropy.Grad(b.Builder, nll.Node, []*graph.Value{b.Fill("one", nll.Shape, 1), nil})[0]
		return []*graph.Value{nll, b.Apply(graph.OpLinearDX, "dx", nil, d, w).Out[0], b.Apply(graph.OpLinearDW, "dw", nil, d, x).Out[0]}
	}}
}
