package graph

import (
	"math"

	"hotpath/internal/tensor"
)

// Dropout is x with some elements 0 and the others scaled up by what is
// missing. key is an Input[DropoutLen]: two words that choose the elements, and
// the bits of the probability. Which elements are dropped depends on the words,
// on salt and on the place of an element only, so the gradient drops the same
// ones and any number of workers gives the same bits.
func (b *Builder) Dropout(name string, x, key *Value, salt uint32) *Value {
	return b.Apply(OpDropout, name, DropoutAttr{salt}, x, key).Out[0]
}

// DropoutAttr tells the dropouts of a graph apart.
type DropoutAttr struct{ Salt uint32 }

// DropoutLen is the length of a dropout's key.
const DropoutLen = 3

// PutDropout fills a key: seed chooses the elements.
func PutDropout(key []int32, seed uint64, p float32) {
	key[0], key[1], key[2] = int32(uint32(seed)), int32(uint32(seed>>32)), int32(math.Float32bits(p))
}

// OpDropout: x, key[DropoutLen] -> like x.
var OpDropout = register(&OpDef{
	Name:       "dropout",
	ReuseInput: 1,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "fi"); err != nil {
			return nil, err
		}
		return []Type{like(n.In[0])}, wantShape("key", n.In[1], tensor.Static(DropoutLen))
	},
	// One product per element; choosing them takes integers.
	Cost: func(c *Call) Cost { return Cost{int64(c.In[0].Len()), c.IOBytes()} },
	Ref: func(c *Call) {
		NewDropout(c.In[1].I32, c.Node.Attr.(DropoutAttr).Salt).Apply(c.Out[0].F32, c.In[0].F32, 0)
	},
	Grad: func(b *Builder, n *Node, dOut []*Value) []*Value {
		return []*Value{b.Apply(n.Op, "dx", n.Attr, dOut[0], n.In[1]).Out[0], nil}
	},
})

// Dropout chooses elements.
type Dropout struct {
	base  uint64
	below uint64 // random numbers of 32 bits below it drop their element
	scale float32
}

// golden is 2^64 divided by the golden ratio, the step of SplitMix64.
const golden = 0x9e3779b97f4a7c15

// NewDropout is the choice of a key for one dropout of a graph.
func NewDropout(key []int32, salt uint32) Dropout {
	p := math.Float32frombits(uint32(key[2]))
	seed := uint64(uint32(key[0])) | uint64(uint32(key[1]))<<32
	return Dropout{mix64(seed + uint64(salt)*golden), uint64(float64(p) * (1 << 32)), 1 / (1 - p)}
}

// Apply writes x, whose first element is element at of the whole, to dst.
func (d Dropout) Apply(dst, x []float32, at int) {
	if d.below == 0 {
		copy(dst, x)
		return
	}
	for i, v := range x {
		k := uint64(at + i)
		word := mix64(d.base + (k>>1)*golden) // of two elements
		if word>>(32*(k&1))&math.MaxUint32 < d.below {
			v = 0
		}
		dst[i] = v * d.scale
	}
}

// mix64 is the output function of SplitMix64.
func mix64(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
