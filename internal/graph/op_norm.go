package graph

import (
	"fmt"
	"math"

	"hotpath/internal/tensor"
)

// LayerNorm normalises each chunk of len(w) elements of a row of x to mean 0
// and variance 1, then applies w and bias (bias may be nil).
func (b *Builder) LayerNorm(name string, x, w, bias *Value, eps float32) *Value {
	return b.Apply(OpNorm, name, NormAttr{Kind: LayerNorm, Eps: eps}, x, w, bias).Out[0]
}

// RMSNorm divides each chunk of len(w) elements of a row of x by its root
// mean square and multiplies by w + offset (offset is 1 where a file stores
// Gemma's weights as Hugging Face does). The offset of a weight that runs may
// change is a node of its own, so that no kernel computes it anew per row.
func (b *Builder) RMSNorm(name string, x, w *Value, eps, offset float32) *Value {
	if offset != 0 && w != nil && (w.Node.Leaf == nil || w.Node.Leaf.Kind != WeightLeaf) {
		w, offset = b.Shift(name+"_weight", w, offset), 0
	}
	return b.Apply(OpNorm, name, NormAttr{Kind: RMSNorm, Eps: eps, Offset: offset}, x, w, nil).Out[0]
}

// HeadNorm is LayerNorm over chunks of fewer elements than w has: w holds a part
// for each of several chunks, as files do whose heads have weights of their own.
func (b *Builder) HeadNorm(name string, x, w, bias *Value, chunk int, eps float32) *Value {
	return b.Apply(OpNorm, name, NormAttr{Kind: LayerNorm, Eps: eps, Chunk: chunk}, x, w, bias).Out[0]
}

// NormKind is what a norm subtracts and divides by.
type NormKind uint8

const (
	LayerNorm NormKind = iota
	RMSNorm
)

func (k NormKind) String() string { return [...]string{"layer_norm", "rms_norm"}[k] }

// NormAttr describes a norm. A width below the row length norms each chunk of
// a row alone: heads of x[T,H*Dh] with w[Dh].
type NormAttr struct {
	Kind   NormKind
	Eps    float32
	Offset float32 // the weight is used as w + Offset
	Chunk  int     // elements that are normed together; 0: as many as w has
}

// Size is how many elements are normed together where w has width.
func (a *NormAttr) Size(width int) int {
	if a.Chunk > 0 {
		return a.Chunk
	}
	return width
}

// NormDWAttr adds the length of w, which is no operand of OpNormDW.
type NormDWAttr struct {
	NormAttr
	Width int
}

// stats are the mean that is subtracted (0 for RMSNorm) and the factor
// 1/sqrt(variance + eps) of one chunk.
func (a *NormAttr) stats(x []float32) (mean, rstd float64) {
	n := float64(len(x))
	if a.Kind == LayerNorm {
		for _, v := range x {
			mean += float64(v)
		}
		mean /= n
	}
	var sq float64
	for _, v := range x {
		d := float64(v) - mean
		sq += d * d
	}
	return mean, 1 / math.Sqrt(sq/n+float64(a.Eps))
}

// statFLOPs is the arithmetic of stats over n elements in chunks.
func (a *NormAttr) statFLOPs(n, chunks int64) int64 {
	if a.Kind == LayerNorm {
		return 4*n + 5*chunks // add; subtract, square, add; two means, eps, root, reciprocal
	}
	return 2*n + 4*chunks
}

func (a *NormAttr) check(x, w *Value) error {
	width, err := wantVector("w", w)
	switch {
	case err != nil:
		return err
	case x.Shape.RowLen()%width != 0:
		return fmt.Errorf("x is %s: its rows are no multiple of w %s", x.Shape, w.Shape)
	case a.Chunk < 0 || a.Chunk > 0 && width%a.Chunk != 0:
		return fmt.Errorf("w is %s, expected a multiple of %d elements", w.Shape, a.Chunk)
	case a.Kind > RMSNorm:
		return fmt.Errorf("unknown kind %d", a.Kind)
	case !(a.Eps >= 0):
		return fmt.Errorf("eps is %g, expected at least 0", a.Eps)
	}
	return nil
}

// OpNorm: x[T,H*W], w[W], bias[W]? -> y[T,H*W].
var OpNorm = register(&OpDef{
	Name:       "norm",
	ReuseInput: 1,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "ffF"); err != nil {
			return nil, err
		}
		a, x, w := n.Attr.(NormAttr), n.In[0], n.In[1]
		return []Type{like(x)}, first(a.check(x, w), wantShape("bias", n.In[2], w.Shape))
	},
	Cost: func(c *Call) Cost {
		a, n := c.Node.Attr.(NormAttr), int64(c.In[0].Len())
		flops := a.statFLOPs(n, n/int64(a.Size(c.In[1].Len()))) + 2*n
		if a.Kind == LayerNorm {
			flops += n
		}
		if c.In[2].Present() {
			flops += n
		}
		if a.Offset != 0 {
			flops += int64(c.In[1].Len())
		}
		return Cost{flops, c.IOBytes()}
	},
	Ref: func(c *Call) {
		a, w, bias := c.Node.Attr.(NormAttr), c.In[1].F32, &c.In[2]
		x, y := c.In[0].F32, c.Out[0].F32
		size := a.Size(len(w))
		for o := 0; o < len(x); o += size {
			mean, rstd := a.stats(x[o : o+size])
			at := o % len(w)
			for i, g := range w[at : at+size] {
				v := (float64(x[o+i]) - mean) * rstd * (float64(g) + float64(a.Offset))
				if bias.Present() {
					v += float64(bias.F32[at+i])
				}
				y[o+i] = float32(v)
			}
		}
	},
	Grad: func(b *Builder, n *Node, dOut []*Value) []*Value {
		x, w, bias, d := n.In[0], n.In[1], n.In[2], make([]*Value, 3)
		a := n.Attr.(NormAttr)
		if x.NeedsGrad {
			d[0] = b.Apply(OpNormDX, "dx", a, dOut[0], x, w).Out[0]
		}
		if w.NeedsGrad || bias != nil && bias.NeedsGrad {
			dw := b.Apply(OpNormDW, "dw", NormDWAttr{a, w.Shape.RowLen() * w.Shape.Outer.Add}, dOut[0], x)
			d[1] = dw.Out[0]
			if bias != nil {
				d[2] = dw.Out[1]
			}
		}
		return d
	},
})

// OpNormDX: dy[T,H*W], x[T,H*W], w[W] -> dx[T,H*W].
var OpNormDX = register(&OpDef{
	Name:       "norm_dx",
	NoGrad:     noSecond,
	ReuseInput: 1,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "fff"); err != nil {
			return nil, err
		}
		a, x := n.Attr.(NormAttr), n.In[1]
		return []Type{like(x)}, first(a.check(x, n.In[2]), wantShape("dy", n.In[0], x.Shape))
	},
	Cost: func(c *Call) Cost {
		a, n := c.Node.Attr.(NormAttr), int64(c.In[0].Len())
		chunks := n / int64(a.Size(c.In[2].Len()))
		// weight, xhat, dot product (2), product with it, subtract, rstd.
		flops := a.statFLOPs(n, chunks) + 7*n + chunks
		if a.Kind == LayerNorm {
			flops += 3*n + chunks // subtract the mean of x; sum and subtract that of g
		}
		if a.Offset != 0 {
			flops += int64(c.In[2].Len())
		}
		return Cost{flops, c.IOBytes()}
	},
	Ref: func(c *Call) {
		a, w := c.Node.Attr.(NormAttr), c.In[2].F32
		dy, x, dx := c.In[0].F32, c.In[1].F32, c.Out[0].F32
		size := a.Size(len(w))
		for o := 0; o < len(x); o += size {
			mean, rstd := a.stats(x[o : o+size])
			part := w[o%len(w):][:size]
			var sum, dot float64 // of g = dy*(w+offset), alone and with xhat
			for i, v := range part {
				g := float64(dy[o+i]) * (float64(v) + float64(a.Offset))
				sum += g
				dot += g * (float64(x[o+i]) - mean) * rstd
			}
			sum, dot = sum/float64(size), dot/float64(size)
			if a.Kind == RMSNorm {
				sum = 0
			}
			for i, v := range part {
				g := float64(dy[o+i]) * (float64(v) + float64(a.Offset))
				xhat := (float64(x[o+i]) - mean) * rstd
				dx[o+i] = float32(rstd * (g - sum - xhat*dot))
			}
		}
	},
})

// OpNormDW: dy[T,H*W], x[T,H*W] -> dw[W], db[W].
var OpNormDW = register(&OpDef{
	Name:   "norm_dw",
	NoGrad: noSecond,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "ff"); err != nil {
			return nil, err
		}
		width, x := n.Attr.(NormDWAttr).Width, n.In[1]
		if a := n.Attr.(NormDWAttr); width <= 0 || x.Shape.RowLen()%width != 0 || width%a.Size(width) != 0 {
			return nil, fmt.Errorf("x is %s: its rows are no multiple of %d", x.Shape, width)
		}
		t := Type{tensor.Static(width), tensor.F32}
		return []Type{t, t}, wantShape("dy", n.In[0], x.Shape)
	},
	Cost: func(c *Call) Cost {
		a, n := c.Node.Attr.(NormDWAttr), int64(c.In[0].Len())
		var flops int64
		if c.Out[0].Present() {
			flops += a.statFLOPs(n, n/int64(a.Size(a.Width))) + 3*n
			if a.Kind == LayerNorm {
				flops += n
			}
		}
		if c.Out[1].Present() {
			flops += n
		}
		return Cost{flops, c.IOBytes()}
	},
	Scratch: func(n *Node, most tensor.Bind) int {
		a := n.Attr.(NormDWAttr)
		return 2 * n.In[1].Shape.Len(most) / a.Size(a.Width)
	},
	Ref: func(c *Call) {
		a, dy, x := c.Node.Attr.(NormDWAttr), c.In[0].F32, c.In[1].F32
		dw, db := &c.Out[0], &c.Out[1]
		stats := c.Scratch // [chunks][mean, rstd]
		size := a.Size(a.Width)
		for o, k := 0, 0; o < len(x); o, k = o+size, k+2 {
			mean, rstd := a.stats(x[o : o+size])
			stats[k], stats[k+1] = float32(mean), float32(rstd)
		}
		for i := range a.Width {
			var w, b float64
			for o := i; o < len(x); o += a.Width {
				g, k := float64(dy[o]), 2*(o/size)
				w += g * (float64(x[o]) - float64(stats[k])) * float64(stats[k+1])
				b += g
			}
			if dw.Present() {
				dw.F32[i] = float32(w)
			}
			if db.Present() {
				db.F32[i] = float32(b)
			}
		}
	},
})
