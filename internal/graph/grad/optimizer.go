package grad

import (
	"fmt"
	"math"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// Optimizer is how parameters are updated; its zero value is AdamW with decay
// of matrices.
type Optimizer struct {
	SGD, Nesterov bool
	// Decay says which parameters weight decay applies to; nil means
	// DecayMatrices.
	Decay func(p *graph.Value) bool
}

// Update is one step of one parameter.
type Update struct {
	New  *graph.Value // version of the parameter
	M, V *graph.Value // moments: State of role RoleMoment; SGD has no V
	// Decay says whether weight decay applies.
	Decay bool
	// Square is the sum of the squares of the gradient, [1].
	Square *graph.Value
}

// Add adds one optimizer step: the global norm of all gradients, then for each
// pair an update of the weight and of its moments. hyper is an Input of
// graph.HyperLen entries.
//
// It returns the updates in the order of pairs, and the norm before clipping.
// Updates are effects (graph.Node.Effect), so they happen whether or not
// anybody reads what is returned.
func (o Optimizer) Add(b *graph.Builder, pairs []Pair, hyper *graph.Value) (updates []Update, norm *graph.Value) {
	b.Stage = graph.StageOptimizer
	scope, decay := "adamw", o.Decay
	if o.SGD {
		scope = "sgd"
	}
	if decay == nil {
		decay = DecayMatrices
	}
	updates, squares := make([]Update, len(pairs)), make([]*graph.Value, len(pairs))
	for i, p := range pairs {
		end := b.Named(p.Param.Node, scope)
		squares[i] = b.SumSquares("sum_squares", p.Grad)
		end()
	}
	norm = b.GlobalNorm(scope+"/norm", squares...)
	for i, p := range pairs {
		end := b.Named(p.Param.Node, scope)
		u := Update{Decay: decay(p.Param), Square: squares[i]}
		u.M = b.State("m", graph.RoleMoment, tensor.F32, p.Param.Shape)
		if o.SGD {
			u.New, _ = b.SGD("update", p.Param, u.M, p.Grad, norm, hyper, graph.SGDAttr{Decay: u.Decay, Nesterov: o.Nesterov})
		} else {
			u.V = b.State("v", graph.RoleMoment, tensor.F32, p.Param.Shape)
			u.New, _, _ = b.AdamW("update", p.Param, u.M, u.V, p.Grad, norm, hyper, graph.AdamWAttr{Decay: u.Decay})
		}
		updates[i] = u
		end()
	}
	return updates, norm
}

// DecayMatrices is the usual choice: weight decay on matrices, none on
// vectors such as norms and biases.
func DecayMatrices(p *graph.Value) bool { return p.Shape.Rank() > 1 }

// Hyper is what a training loop sets at each step; Put encodes it.
type Hyper struct {
	LR, Beta1, Beta2, Eps, Decay float64 // Beta1 is the momentum of SGD
	Clip                         float64 // largest global norm; 0: none
	// Limit is the largest global norm with which the step is made: a larger one
	// changes nothing, nor does one that is not finite. 0: any finite one.
	Limit float64
}

// Put fills the hyper input of an optimizer for step 1, 2, ...
func (h Hyper) Put(dst []float32, step int) error {
	if len(dst) != graph.HyperLen || step < 1 {
		return fmt.Errorf("grad: %d hyper-parameters at step %d, expected %d and a step from 1", len(dst), step, graph.HyperLen)
	}
	dst[graph.HyperLR], dst[graph.HyperClip] = float32(h.LR), float32(h.Clip)
	dst[graph.HyperLimit] = math.MaxFloat32
	if h.Limit > 0 {
		dst[graph.HyperLimit] = float32(min(h.Limit, math.MaxFloat32))
	}
	dst[graph.HyperBeta1], dst[graph.HyperBeta2] = float32(h.Beta1), float32(h.Beta2)
	dst[graph.HyperEps], dst[graph.HyperDecay] = float32(h.Eps), float32(h.Decay)
	dst[graph.HyperCorr1] = float32(correction(h.Beta1, step))
	dst[graph.HyperCorr2] = float32(correction(h.Beta2, step))
	return nil
}

// correction is 1 - beta^step: how far a moment that starts at zero has come.
func correction(beta float64, step int) float64 { return -math.Expm1(float64(step) * math.Log(beta)) }
