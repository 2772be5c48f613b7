package graph

import (
	"fmt"
	"math"

	"hotpath/internal/tensor"
)

// Distill is the Kullback-Leibler divergence of each row of a student's
// logits[R,V] from the teacher's, both divided by temperature, times
// temperature squared: -> kl[R]. No gradient flows to the teacher.
func (b *Builder) Distill(name string, student, teacher *Value, temperature float32) *Value {
	return b.Apply(OpDistill, name, DistillAttr{temperature}, student, teacher).Out[0]
}

// DistillAttr is the temperature of both distributions.
type DistillAttr struct{ Temperature float32 }

func (a DistillAttr) check(student, teacher *Value) error {
	if !(a.Temperature > 0) {
		return fmt.Errorf("temperature is %g, expected a positive number", a.Temperature)
	}
	return wantShape("teacher", teacher, student.Shape)
}

// lse is the log-sum-exp of a row divided by the temperature.
func (a DistillAttr) lse(row []float32) float64 {
	t, top, sum := float64(a.Temperature), math.Inf(-1), 0.0
	for _, v := range row {
		top = max(top, float64(v)/t)
	}
	for _, v := range row {
		sum += math.Exp(float64(v)/t - top)
	}
	return top + math.Log(sum)
}

// OpDistill: student[R,V], teacher[R,V] -> kl[R].
var OpDistill = register(&OpDef{
	Name:  "distill",
	ByRow: SameRow,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "ff"); err != nil {
			return nil, err
		}
		return []Type{{tensor.Rows(n.In[0].Shape.Outer), tensor.F32}}, n.Attr.(DistillAttr).check(n.In[0], n.In[1])
	},
	Cost: func(c *Call) Cost { return Cost{12 * int64(c.In[0].Len()), c.IOBytes()} },
	Ref: func(c *Call) {
		a := c.Node.Attr.(DistillAttr)
		t := float64(a.Temperature)
		for r := range c.In[0].Rows {
			student, teacher := c.In[0].Row(r), c.In[1].Row(r)
			ls, lt := a.lse(student), a.lse(teacher)
			var kl float64
			for i, v := range teacher {
				log := float64(v)/t - lt
				kl += math.Exp(log) * (log - (float64(student[i])/t - ls))
			}
			c.Out[0].F32[r] = float32(kl * t * t)
		}
	},
	Grad: func(b *Builder, n *Node, dOut []*Value) []*Value {
		return []*Value{b.Apply(OpDistillGrad, "dlogits", n.Attr, n.In[0], n.In[1], dOut[0]).Out[0], nil}
	},
})

// OpDistillGrad: student[R,V], teacher[R,V], dkl[R] -> dstudent[R,V], which is
// temperature times the difference of both distributions.
var OpDistillGrad = register(&OpDef{
	Name:       "distill_grad",
	ByRow:      SameRow,
	NoGrad:     noSecond,
	ReuseInput: 1,
	Infer: func(n *Node) ([]Type, error) {
		if err := wantInputs(n, "fff"); err != nil {
			return nil, err
		}
		return []Type{like(n.In[0])}, first(n.Attr.(DistillAttr).check(n.In[0], n.In[1]),
			wantShape("dkl", n.In[2], tensor.Rows(n.In[0].Shape.Outer)))
	},
	Cost: func(c *Call) Cost { return Cost{12 * int64(c.In[0].Len()), c.IOBytes()} },
	Ref: func(c *Call) {
		a := c.Node.Attr.(DistillAttr)
		t := float64(a.Temperature)
		for r := range c.In[0].Rows {
			student, teacher, dx := c.In[0].Row(r), c.In[1].Row(r), c.Out[0].Row(r)
			ls, lt, g := a.lse(student), a.lse(teacher), float64(c.In[2].F32[r])*t
			for i, v := range student {
				dx[i] = float32(g * (math.Exp(float64(v)/t-ls) - math.Exp(float64(teacher[i])/t-lt)))
			}
		}
	},
})
