package model

import (
	"hotpath/internal/graph"
	"hotpath/internal/graph/grad"
	"hotpath/internal/tensor"
)

// TrainOptions say what is trained.
type TrainOptions struct {
	// Trainable chooses weights by role and layer (-1 outside of any); nil
	// means all. Others stay as the file has them.
	Trainable func(role graph.Role, layer int) bool
}

// Param is a trainable weight with the optimizer's memory of it. All three are
// State of the same shape, in F32.
type Param struct {
	Key   string // canonical; where the file keeps its first value
	Role  graph.Role
	Layer int
	Decay bool // whether weight decay applies
	Value *graph.Value
	M, V  *graph.Value // AdamW's moments
}

// TrainParts is what a training loop saves and restores.
type TrainParts struct{ Params []Param }

// BuildTrain is tokens and targets to the mean loss over rows R, its gradients
// and one step of AdamW. There is no KV cache: sequences are whole. Weight
// decay applies to matrices, not to norms and biases.
func (m *Model) BuildTrain(max tensor.Bind, o TrainOptions) (*graph.Graph, *Ports, *TrainParts, error) {
	if err := m.able(m.cfg.CanGenerate, "be trained on next tokens"); err != nil {
		return nil, nil, nil, err
	}
	b, err := start(max, max.T, max.S, max.R)
	if err != nil {
		return nil, nil, nil, err
	}
	b.Trainable = func(role graph.Role, layer int) bool {
		// What has no role is part of the description, like rope factors.
		return role != graph.RoleOther && (o.Trainable == nil || o.Trainable(role, layer))
	}
	c, p := m.context(b), &Ports{}
	c.tokens(p)
	m.nll(c, p)
	p.Loss = c.Mean("loss", p.NLL, p.Targets)
	p.Hyper = c.Input("hyper", tensor.F32, tensor.Static(graph.HyperLen))
	pairs, err := grad.Backward(b, p.Loss)
	if err != nil {
		return nil, nil, nil, err
	}
	updated, norm := grad.AdamW(b, pairs, p.Hyper, grad.DecayMatrices)
	p.GradNorm = norm
	g, err := b.Freeze(p.Loss, p.GradNorm)
	if err != nil {
		return nil, nil, nil, err
	}
	parts := &TrainParts{}
	for i, pair := range pairs {
		n, step := pair.Param.Node, updated[i].Node
		parts.Params = append(parts.Params, Param{
			Key: n.Leaf.Key, Role: n.Leaf.Role, Layer: n.Layer,
			Decay: step.Attr.(graph.AdamWAttr).Decay,
			Value: pair.Param, M: step.In[1], V: step.In[2],
		})
	}
	p.NLL = nil // it is no output here
	return g, p, parts, nil
}
