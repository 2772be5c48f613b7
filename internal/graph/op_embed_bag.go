package graph

import (
	"fmt"

	"hotpath/internal/tensor"
)

// EmbedBag is the mean of the rows of a table[V,D] that each sequence names:
// ids[T], q_start[S+1] -> [S,D]. An empty sequence gives zeros. Nothing of the
// size of all tokens exists, so that texts may be of any length.
func (b *Builder) EmbedBag(name string, table, ids, qStart *Value) *Value {
	return b.Apply(OpEmbedBag, name, nil, table, ids, qStart).Out[0]
}

// OpEmbedBag: table[V,D], ids[T], q_start[S+1] -> y[S,D].
var OpEmbedBag = register(&OpDef{
	Name: "embed_bag",
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "wii"); err != nil {
			return nil, err
		}
		table, ids := n.In[0].Shape, n.In[1].Shape
		if table.Rank() != 2 || table.Outer.Sym != tensor.None {
			return nil, fmt.Errorf("table is %s, expected [V,D]", table)
		}
		seqs, err := sequences(n.In[2])
		return []Type{{tensor.Rows(seqs, table.RowLen()), tensor.F32}}, first(err, wantShape("ids", n.In[1], tensor.Rows(ids.Outer)))
	},
	Cost: func(c *Call) Cost {
		table, ids, y := &c.In[0], &c.In[1], &c.Out[0]
		read := int64(ids.Rows) * int64(table.DType.RowBytes(table.Cols))
		return Cost{int64(ids.Rows+y.Rows) * int64(y.Cols), read + ids.Bytes() + c.In[2].Bytes() + y.Bytes()}
	},
	Scratch: func(n *Node, _ tensor.Bind) int { return n.In[0].Shape.RowLen() },
	Ref: func(c *Call) {
		table, ids, qStart, y, row := &c.In[0], c.In[1].I32, c.In[2].I32, &c.Out[0], c.Scratch
		for s := range y.Rows {
			sum := y.Row(s)
			clear(sum)
			lo, hi := int(qStart[s]), int(qStart[s+1])
			for _, id := range ids[lo:hi] {
				table.ReadRow(row, int(id))
				for i, v := range row[:table.Cols] {
					sum[i] += v
				}
			}
			for i := range sum {
				sum[i] /= float32(max(hi-lo, 1))
			}
		}
	},
	Grad: func(b *Builder, n *Node, dOut []*Value) []*Value {
		attr := EmbedGradAttr{n.In[0].Shape.Outer.Add, 1}
		return []*Value{b.Apply(OpEmbedBagGrad, "dtable", attr, dOut[0], n.In[1], n.In[2]).Out[0], nil, nil}
	},
})

// OpEmbedBagGrad: dy[S,D], ids[T], q_start[S+1] -> dtable[V,D]. The rows of one
// id are added in the order of tokens.
var OpEmbedBagGrad = register(&OpDef{
	Name:   "embed_bag_grad",
	NoGrad: noSecond,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "fii"); err != nil {
			return nil, err
		}
		dy := n.In[0].Shape
		seqs, err := sequences(n.In[2])
		if err == nil && seqs != dy.Outer {
			err = fmt.Errorf("dy is %s, expected %s rows", dy, seqs)
		}
		return []Type{{tensor.Static(n.Attr.(EmbedGradAttr).Rows, dy.RowLen()), tensor.F32}}, err
	},
	Cost: func(c *Call) Cost { return Cost{2 * int64(c.In[1].Len()) * int64(c.In[0].Cols), c.IOBytes()} },
	Ref: func(c *Call) {
		dy, ids, qStart, dw := &c.In[0], c.In[1].I32, c.In[2].I32, &c.Out[0]
		clear(dw.F32)
		for s := range dy.Rows {
			lo, hi := int(qStart[s]), int(qStart[s+1])
			f := 1 / float32(max(hi-lo, 1))
			for _, id := range ids[lo:hi] {
				row := dw.Row(int(id))
				for i, g := range dy.Row(s) {
					row[i] += f * g
				}
			}
		}
	},
})
