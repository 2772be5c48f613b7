package grad

import (
	"fmt"
	"math"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// AdamW adds one optimizer step: the global norm of all gradients, then for
// each pair an update of the weight and of its two moments, which are State
// of role RoleMoment. hyper is an Input of graph.HyperLen entries. decay says
// which parameters weight decay applies to; nil means DecayMatrices.
//
// It returns the new versions of the parameters in the order of pairs, and the
// norm before clipping. The updates are effects (graph.Node.Effect), so they
// happen whether or not anybody reads what is returned.
func AdamW(b *graph.Builder, pairs []Pair, hyper *graph.Value, decay func(p *graph.Value) bool) (updated []*graph.Value, norm *graph.Value) {
	if decay == nil {
		decay = DecayMatrices
	}
	squares := make([]*graph.Value, len(pairs))
	for i, p := range pairs {
		end := b.Named(p.Param.Node, "adamw")
		squares[i] = b.SumSquares("sum_squares", p.Grad)
		end()
	}
	norm = b.GlobalNorm("adamw/norm", squares...)
	updated = make([]*graph.Value, len(pairs))
	for i, p := range pairs {
		end := b.Named(p.Param.Node, "adamw")
		m := b.State("m", graph.RoleMoment, tensor.F32, p.Param.Shape)
		v := b.State("v", graph.RoleMoment, tensor.F32, p.Param.Shape)
		attr := graph.AdamWAttr{Decay: decay(p.Param)}
		updated[i], _, _ = b.AdamW("update", p.Param, m, v, p.Grad, norm, hyper, attr)
		end()
	}
	return updated, norm
}

// DecayMatrices is the usual choice: weight decay on matrices, none on
// vectors such as norms and biases.
func DecayMatrices(p *graph.Value) bool { return p.Shape.Rank() > 1 }

// Hyper is what a training loop sets at each step; Put encodes it.
type Hyper struct {
	LR, Beta1, Beta2, Eps, Decay float64
	Clip                         float64 // largest global norm; 0: none
}

// Put fills the hyper input of AdamW for step 1, 2, ...
func (h Hyper) Put(dst []float32, step int) error {
	if len(dst) != graph.HyperLen || step < 1 {
		return fmt.Errorf("grad: %d hyper-parameters at step %d, expected %d and a step from 1", len(dst), step, graph.HyperLen)
	}
	dst[graph.HyperLR], dst[graph.HyperClip] = float32(h.LR), float32(h.Clip)
	dst[graph.HyperBeta1], dst[graph.HyperBeta2] = float32(h.Beta1), float32(h.Beta2)
	dst[graph.HyperEps], dst[graph.HyperDecay] = float32(h.Eps), float32(h.Decay)
	dst[graph.HyperCorr1] = float32(correction(h.Beta1, step))
	dst[graph.HyperCorr2] = float32(correction(h.Beta2, step))
	return nil
}

// correction is 1 - beta^step: how far a moment that starts at zero has come.
func correction(beta float64, step int) float64 { return -math.Expm1(float64(step) * math.Log(beta)) }
