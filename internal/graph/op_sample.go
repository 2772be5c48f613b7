package graph

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"hotpath/internal/tensor"
)

// Sample draws one token per row of logits[R,V] -> ids[R]. how[R,SampleLen] has
// the parameters of each row, random[R,2] a random number of 53 bits, the high
// word first (PutRandom). An id of -1 says that no token can be drawn: a logit is
// NaN or +Inf, or none is above -Inf.
//
// The order is that of package sample: top-k, then top-p, then min-p look at the
// distribution at temperature 1, and temperature shapes the draw among the tokens
// that are left. Among equal logits the lowest id comes first.
func (b *Builder) Sample(name string, logits, how, random *Value) *Value {
	return b.Apply(OpSample, name, nil, logits, how, random).Out[0]
}

// Columns of OpSample's operand how.
const (
	SampleTemperature = iota // 0: the largest logit
	SampleTopK               // 0: all tokens
	SampleTopP               // 0 or 1: all tokens
	SampleMinP               // 0: all tokens
	SampleLen
)

// PutRandom writes a random number of 53 bits as a row of OpSample's operand
// random.
func PutRandom(dst []int32, bits uint64) {
	dst[0], dst[1] = int32(uint32(bits>>32)), int32(uint32(bits))
}

// getRandom is the number in [0, 1) that PutRandom wrote.
func getRandom(row []int32) float64 {
	return float64(uint64(uint32(row[0]))<<32|uint64(uint32(row[1]))) / (1 << 53)
}

// OpSample: logits[R,V], how[R,SampleLen], random[R,2] -> ids[R].
var OpSample = register(&OpDef{
	Name:   "sample",
	NoGrad: "a token that was drawn has no gradient",
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "ffi"); err != nil {
			return nil, err
		}
		rows := n.In[0].Shape.Outer
		if n.In[0].Shape.RowLen() >= 1<<24 { // ids are held as float32 while they are sorted
			return nil, fmt.Errorf("logits are %s, expected fewer than %d tokens", n.In[0].Shape, 1<<24)
		}
		if err := wantShape("how", n.In[1], tensor.Rows(rows, SampleLen)); err != nil {
			return nil, err
		}
		return []Type{{tensor.Rows(rows), tensor.I32}}, wantShape("random", n.In[2], tensor.Rows(rows, 2))
	},
	Cost: func(c *Call) Cost { return Cost{4 * int64(c.In[0].Len()), c.IOBytes()} },
	Ref: func(c *Call) {
		logits, how := &c.In[0], &c.In[1]
		for r := range logits.Rows {
			c.Out[0].I32[r] = sampleRow(logits.Row(r), how.Row(r), getRandom(c.In[2].I32[2*r:2*r+2]), c.Scratch)
		}
	},
	Scratch: func(n *Node, _ tensor.Bind) int { return n.In[0].Shape.RowLen() },
})

// sampleRow draws from one row. order is room for one id per logit.
func sampleRow(logits, how []float32, r float64, order []float32) int32 {
	best := argmax(logits)
	if best < 0 || how[SampleTemperature] == 0 || how[SampleTopK] == 1 {
		return best
	}
	top, n := float64(logits[best]), len(logits)
	k, share := int(how[SampleTopK]), float64(how[SampleTopP])
	low := float32(-math.MaxFloat32) // -Inf is never drawn
	if p := float64(how[SampleMinP]); p > 0 {
		low = atLeast(top + math.Log(p))
	}
	byK, byP := k > 0 && k < n, share > 0 && share < 1
	order = order[:n]
	for i := range order {
		order[i] = float32(i)
	}
	if k > 0 || byP { // the best first
		slices.SortFunc(order, func(a, b float32) int {
			return cmp.Or(cmp.Compare(logits[int(b)], logits[int(a)]), cmp.Compare(a, b))
		})
		if byK {
			order = order[:k]
		}
	}
	if byP {
		mass, sum, kept := 0.0, 0.0, 0
		if byK {
			for _, id := range order {
				mass += math.Exp(float64(logits[int(id)]) - top)
			}
		} else {
			for _, v := range logits {
				mass += math.Exp(float64(v) - top)
			}
		}
		for kept < len(order) && sum < share*mass {
			sum += math.Exp(float64(logits[int(order[kept])]) - top)
			kept++
		}
		order = order[:kept]
	}
	kept := 0
	for _, id := range order {
		if logits[int(id)] >= low {
			order[kept] = id
			kept++
		}
	}
	order = order[:kept]
	if k > 0 || byP { // the best last, as package sample has them
		slices.Reverse(order)
	}
	return pickWeighted(logits, order, top, float64(how[SampleTemperature]), r)
}

// pickWeighted finds where r times the sum of the weights falls.
func pickWeighted(logits, order []float32, top, temperature, r float64) int32 {
	weight := func(i int) float64 { return math.Exp((float64(logits[int(order[i])]) - top) / temperature) }
	sum := 0.0
	for i := range order {
		sum += weight(i)
	}
	u := r * sum
	for i := range order {
		if u -= weight(i); u < 0 {
			return int32(order[i])
		}
	}
	// Rounding left u at the very end: the last one that has any weight.
	for i := len(order) - 1; i > 0; i-- {
		if weight(i) > 0 {
			return int32(order[i])
		}
	}
	return int32(order[0])
}

// argmax is the first of the largest logits; -1 where no token can be drawn.
func argmax(logits []float32) int32 {
	best := int32(-1)
	for i, v := range logits {
		switch {
		case v != v || math.IsInf(float64(v), 1):
			return -1
		case math.IsInf(float64(v), -1):
		case best < 0 || v > logits[best]:
			best = int32(i)
		}
	}
	return best
}

// atLeast is the smallest finite float32 that is not below x.
func atLeast(x float64) float32 {
	v := float32(x)
	if float64(v) < x {
		v = math.Nextafter32(v, float32(math.Inf(1)))
	}
	return max(v, -math.MaxFloat32)
}
