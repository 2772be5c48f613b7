package train

import (
	"math"
	"slices"

	"hotpath/internal/graph"
	"hotpath/internal/graph/grad"
)

// optimizer is how the configuration updates parameters.
func (c *Config) optimizer() grad.Optimizer {
	return grad.Optimizer{SGD: c.Optimizer == "sgd", Nesterov: c.Nesterov, Decay: func(p *graph.Value) bool {
		return grad.DecayMatrices(p) && !slices.Contains(c.NoDecay, p.Node.Leaf.Role.String())
	}}
}

// hyper are the hyper-parameters of a step with a learning rate.
func (c *Config) hyper(lr float64) grad.Hyper {
	h := grad.Hyper{LR: lr, Beta1: c.Betas[0], Beta2: c.Betas[1], Eps: c.Eps, Decay: c.WeightDecay, Clip: c.Clip}
	if c.Optimizer == "sgd" {
		h.Beta1 = c.Momentum
	}
	return h
}

// norms is the running average of the norm of gradients, by which outliers are
// told.
type norms struct {
	Sum   float64 `json:"sum"`   // exponentially weighted
	Steps int     `json:"steps"` // in it
}

const (
	normDecay = 0.98 // of the running average: about the last 50 steps
	normSteps = 10   // before which nothing is an outlier
)

// average is 0 where too few steps were made.
func (n norms) average() float64 {
	if n.Steps < normSteps {
		return 0
	}
	return n.Sum / -math.Expm1(float64(n.Steps)*math.Log(normDecay))
}

// limit is the largest norm with which the next step changes weights; 0: any
// finite one.
func (n norms) limit(c *Config) float64 {
	limit := 0.0
	for _, factor := range []float64{c.SkipAbove, c.StopAbove} {
		if l := factor * n.average(); l > 0 && (limit == 0 || l < limit) {
			limit = l
		}
	}
	return limit
}

// addNorm counts a step. An outlier counts as the limit, so that it moves the
// average a little: where norms stay large, steps are made again some time.
func (n *norms) addNorm(norm, limit float64) {
	if limit > 0 {
		norm = min(norm, limit)
	}
	n.Sum = normDecay*n.Sum + (1-normDecay)*norm
	n.Steps++
}
