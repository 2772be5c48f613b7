package graph

import (
	"fmt"
	"slices"

	"hotpath/internal/tensor"
)

// KVBlock is the number of tokens in a block of the KV cache.
const KVBlock = 64

// KVWrite puts k and v[T,Hkv*D] into rows slots[T] of the cache's states
// [rows,Hkv*D], in the states' encoding, and returns the new versions.
func (b *Builder) KVWrite(name string, kState, vState, k, v, slots *Value) (kNew, vNew *Value) {
	n := b.Apply(OpKVWrite, name, nil, kState, vState, k, v, slots)
	return n.Out[0], n.Out[1]
}

// AttentionKV attends from q[T,Hq*D] to the cache, which holds the batch's own
// keys already: pass the versions that KVWrite returned. The last queries of
// sequence s stand at the end of its kv_len[s] positions; position j lies in
// row block_table[s][j/BlockSize]*BlockSize + j%BlockSize.
func (b *Builder) AttentionKV(name string, q, kState, vState, qStart, kvLen, blockTable *Value, attr AttentionKVAttr) *Value {
	attr.AttentionAttr = attr.resolved()
	if attr.BlockSize == 0 {
		attr.BlockSize = KVBlock
	}
	return b.Apply(OpAttentionKV, name, attr, q, kState, vState, qStart, kvLen, blockTable).Out[0]
}

// AttentionKVAttr is AttentionAttr over a cache in blocks of BlockSize tokens.
type AttentionKVAttr struct {
	AttentionAttr
	BlockSize int
}

// OpKVWrite: kstate[rows,Hkv*D], vstate, k[T,Hkv*D], v, slots[T] -> kstate',
// vstate'.
var OpKVWrite = register(&OpDef{
	Name:    "kv_write",
	NoGrad:  "the KV cache is not differentiated",
	InPlace: map[int]int{0: 0, 1: 1},
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "wwffi"); err != nil {
			return nil, err
		}
		ks, vs, k := n.In[0], n.In[1], n.In[2]
		if ks.Shape.RowLen() != k.Shape.RowLen() || ks.Shape.Outer.Sym != tensor.None {
			return nil, fmt.Errorf("k is %s but the cache is %s", k.Shape, ks.Shape)
		}
		return []Type{{ks.Shape, ks.DType}, {vs.Shape, vs.DType}}, first(
			wantShape("vstate", vs, ks.Shape),
			wantEncoding("kstate", ks),
			wantEncoding("vstate", vs),
			wantShape("v", n.In[3], k.Shape),
			wantShape("slots", n.In[4], tensor.Rows(k.Shape.Outer)))
	},
	Cost: func(c *Call) Cost {
		k, v, slots := c.In[2].Bytes(), c.In[3].Bytes(), c.In[4].Bytes()
		row := int64(c.Out[0].DType.RowBytes(c.In[2].Cols) + c.Out[1].DType.RowBytes(c.In[3].Cols))
		return Cost{0, k + v + row*int64(c.In[2].Rows) + slots}
	},
	Ref: func(c *Call) {
		k, v, kNew, vNew := &c.In[2], &c.In[3], &c.Out[0], &c.Out[1]
		for t, slot := range c.In[4].I32 {
			kNew.WriteRow(int(slot), k.Row(t))
			vNew.WriteRow(int(slot), v.Row(t))
		}
	},
})

// OpAttentionKV: q[T,Hq*D], kstate[rows,Hkv*D], vstate, q_start[S+1],
// kv_len[S], block_table[S,maxBlocks] -> out[T,Hq*D].
var OpAttentionKV = register(&OpDef{
	Name:   "attention_kv",
	NoGrad: "the KV cache is not differentiated",
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "fwwiii"); err != nil {
			return nil, err
		}
		a, q, ks, table := n.Attr.(AttentionKVAttr), n.In[0], n.In[1], n.In[5]
		if block := ks.DType.Info().BlockLen; a.HeadDim%block != 0 {
			return nil, fmt.Errorf("heads of %d values in a cache of %s, expected whole blocks of %d", a.HeadDim, ks.DType, block)
		}
		seqs, err := sequences(n.In[3])
		if err := first(err, a.check(q, ks, n.In[2])); err != nil {
			return nil, err
		}
		rows := ks.Shape.Outer
		if a.BlockSize <= 0 || rows.Sym != tensor.None || rows.Add%a.BlockSize != 0 {
			return nil, fmt.Errorf("cache is %s, expected whole blocks of %d rows", ks.Shape, a.BlockSize)
		}
		return []Type{like(q)}, first(
			wantShape("kv_len", n.In[4], tensor.Rows(seqs)),
			wantShape("block_table", table, tensor.Rows(seqs, table.Shape.RowLen())))
	},
	CostReads: []int{3, 4},
	Cost:      costAttentionKV,
	Scratch: func(n *Node, _ tensor.Bind) int {
		return n.In[5].Shape.RowLen()*n.Attr.(AttentionKVAttr).BlockSize + n.In[1].Shape.RowLen()
	},
	Ref: func(c *Call) {
		a, qStart, kvLen, table := c.Node.Attr.(AttentionKVAttr), c.In[3].I32, c.In[4].I32, &c.In[5]
		var noLSE Tensor
		for s, keys := range kvLen {
			scores := table.Cols * a.BlockSize
			rows := keyRows{k: &c.In[1], v: &c.In[2], block: a.BlockSize, row: c.Scratch[scores:],
				table: table.I32[s*table.Cols : (s+1)*table.Cols]}
			a.attendSequence(&c.In[0], &c.Out[0], &noLSE, int(qStart[s]), int(qStart[s+1]), &rows, int(keys), c.Scratch, WeightDropout{})
		}
	},
})

// costAttentionKV reads the rows of the cache that any query of a sequence
// sees once.
func costAttentionKV(c *Call) Cost {
	a, qStart := c.Node.Attr.(AttentionKVAttr), c.In[3].I32
	cost := Cost{0, c.In[0].Bytes() + c.In[3].Bytes() + c.In[4].Bytes() + c.Out[0].Bytes()}
	row := c.In[1].DType.RowBytes(c.In[1].Cols) + c.In[2].DType.RowBytes(c.In[2].Cols)
	for s, l := range c.In[4].I32 {
		n, keys := int(qStart[s+1]-qStart[s]), int(l)
		if n == 0 {
			continue
		}
		cost.FLOPs += 4 * int64(a.HeadDim) * int64(a.Heads) * a.Pairs(n, keys)
		lo, _ := a.Visible(keys-n, keys)
		_, hi := a.Visible(keys-1, keys)
		blocks := (hi-1)/a.BlockSize - lo/a.BlockSize + 1
		cost.Bytes += int64(hi-lo)*int64(row) + int64(blocks)*4
	}
	return cost
}

// KVTypes are the encodings that a KV cache may have.
var KVTypes = []tensor.DType{tensor.F32, tensor.F16, tensor.Q8_0}

func wantEncoding(what string, v *Value) error {
	if !slices.Contains(KVTypes, v.DType) {
		return fmt.Errorf("%s is in %s, expected one of %v", what, v.DType, KVTypes)
	}
	return nil
}
