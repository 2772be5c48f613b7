package graph

import (
	"fmt"

	"hotpath/internal/tensor"
)

// Embed takes rows of a table[V,D] in any encoding: ids[T] -> [T,D], times
// scale (Gemma: sqrt(D)); 0 and 1 mean no scaling. The engine has checked
// that ids are below V.
func (b *Builder) Embed(name string, table, ids *Value, scale float32) *Value {
	if scale == 0 {
		scale = 1
	}
	return b.Apply(OpEmbed, name, EmbedAttr{scale}, table, ids).Out[0]
}

// EmbedAttr is the factor of OpEmbed; the Builder has made 0 a 1.
type EmbedAttr struct{ Scale float32 }

// EmbedGradAttr is the height of the table and the factor of OpEmbed.
type EmbedGradAttr struct {
	Rows  int
	Scale float32
}

// OpEmbed: table[V,D], ids[T] -> y[T,D].
var OpEmbed = register(&OpDef{
	Name:   "embed",
	Matrix: 1,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "wi"); err != nil {
			return nil, err
		}
		table, ids := n.In[0].Shape, n.In[1].Shape
		if table.Rank() != 2 || table.Outer.Sym != tensor.None {
			return nil, fmt.Errorf("table is %s, expected [V,D]", table)
		}
		return []Type{{tensor.Rows(ids.Outer, table.RowLen()), tensor.F32}},
			wantShape("ids", n.In[1], tensor.Rows(ids.Outer))
	},
	Cost: func(c *Call) Cost {
		table, ids, y := &c.In[0], &c.In[1], &c.Out[0]
		read := int64(ids.Rows) * int64(table.DType.RowBytes(table.Cols))
		cost := Cost{0, read + ids.Bytes() + y.Bytes()}
		if c.Node.Attr.(EmbedAttr).Scale != 1 {
			cost.FLOPs = int64(y.Len())
		}
		return cost
	},
	Ref: func(c *Call) {
		table, ids, y := &c.In[0], &c.In[1], &c.Out[0]
		scale := c.Node.Attr.(EmbedAttr).Scale
		for t, id := range ids.I32 {
			row := y.Row(t)
			table.ReadRow(row, int(id))
			for i := range row {
				row[i] *= scale
			}
		}
	},
	Grad: func(b *Builder, n *Node, dOut []*Value) []*Value {
		attr := EmbedGradAttr{n.In[0].Shape.Outer.Add, n.Attr.(EmbedAttr).Scale}
		return []*Value{b.Apply(OpEmbedGrad, "dtable", attr, dOut[0], n.In[1]).Out[0], nil}
	},
})

// OpEmbedGrad: dy[T,D], ids[T] -> dtable[V,D]. The rows of one id are added
// in the order of tokens, so the bits do not depend on how work is split.
var OpEmbedGrad = register(&OpDef{
	Name:   "embed_grad",
	NoGrad: noSecond,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "fi"); err != nil {
			return nil, err
		}
		dy := n.In[0].Shape
		return []Type{{tensor.Static(n.Attr.(EmbedGradAttr).Rows, dy.RowLen()), tensor.F32}},
			wantShape("ids", n.In[1], tensor.Rows(dy.Outer))
	},
	Cost: func(c *Call) Cost {
		flops := int64(c.In[0].Len())
		if c.Node.Attr.(EmbedGradAttr).Scale != 1 {
			flops *= 2
		}
		return Cost{flops, c.IOBytes()}
	},
	Ref: func(c *Call) {
		dy, ids, dw := &c.In[0], &c.In[1], &c.Out[0]
		scale := c.Node.Attr.(EmbedGradAttr).Scale
		clear(dw.F32)
		for t, id := range ids.I32 {
			row := dw.Row(int(id))
			for i, g := range dy.Row(t) {
				row[i] += scale * g
			}
		}
	},
})
