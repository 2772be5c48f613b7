package model

import (
	"errors"
	"fmt"

	"hotpath/internal/graph"
	"hotpath/internal/graph/grad"
	"hotpath/internal/tensor"
)

// TrainOptions say what is trained, and on what.
type TrainOptions struct {
	// Trainable chooses weights by role and layer (-1 outside of any); nil
	// means all. Others stay as the file has them.
	Trainable func(role graph.Role, layer int) bool
	// End builds the rest of the graph behind the model and gives the loss, of
	// shape [1]; nil means NextToken.
	End func(t *Trainee) *graph.Value
	// Accumulate keeps the sum of gradients from run to run: Ports.Keep and
	// Ports.Weight are inputs then.
	Accumulate bool
	Optimizer  grad.Optimizer
	// Recompute computes what layers keep for their gradients once more instead.
	Recompute bool
	// Dropout and Smoothing make dropout and label smoothing part of the graph:
	// Ports of the same names are inputs then.
	Dropout, Smoothing bool
	// LoRA, where not nil, freezes the model's weights and trains what is added
	// to them, and weights that no file has.
	LoRA *LoRA
	// Outputs are values besides loss and norm that are read after a run; End
	// may add to them.
	Outputs []*graph.Value
}

// Param is a trainable weight with the optimizer's memory of it: State of the
// same shape, in F32.
type Param struct {
	Key   string // canonical; where the file keeps its first value
	Role  graph.Role
	Layer int
	Decay bool // whether weight decay applies
	Fresh bool // no file has a first value
	Value *graph.Value
	M, V  *graph.Value // the optimizer's moments; SGD has no V
	// Square is an output: the sum of the squares of the gradient, [1].
	Square *graph.Value
}

// TrainParts is what a training loop saves and restores.
type TrainParts struct {
	Params   []Param
	Adapters []Adapter // of LoRA
}

// Trainee is a model within a training graph, for an objective to end. Its
// methods build the part of the model that they name; each is called once at
// most. There is no KV cache: sequences are whole.
type Trainee struct {
	*Context
	Ports  *Ports
	output []*graph.Value
}

// Output makes v an output of the graph.
func (t *Trainee) Output(v *graph.Value) { t.output = append(t.output, v) }

// can records a mistake where the model cannot do what is asked.
func (t *Trainee) can(ok bool, verb string) {
	if err := t.m.able(ok, verb); err != nil && t.Err() == nil {
		t.wrong = err
		t.Fail("%w", err)
	}
}

// BuildTrain is a batch to the loss of an objective, its gradients and one step
// of the optimizer.
func (m *Model) BuildTrain(most tensor.Bind, o TrainOptions) (*graph.Graph, *Ports, *TrainParts, error) {
	b, err := start(most, most.T, most.S, most.R)
	if err != nil {
		return nil, nil, nil, err
	}
	b.Trainable = func(role graph.Role, layer int) bool {
		// What has no role is part of the description, like rope factors.
		return role != graph.RoleOther && o.LoRA == nil && (o.Trainable == nil || o.Trainable(role, layer))
	}
	c, p := m.context(b), &Ports{}
	c.training, c.lora = true, o.LoRA
	c.tokens(p)
	if o.Dropout {
		p.Dropout = c.Input("dropout", tensor.I32, tensor.Static(graph.DropoutLen))
	}
	if o.Smoothing {
		p.Smoothing = c.Input("smoothing", tensor.I32, tensor.Static(1))
	}
	t := &Trainee{Context: c, Ports: p, output: o.Outputs}
	if o.End == nil {
		t.can(m.cfg.CanGenerate, "be trained on next tokens")
		p.Loss = t.NextToken()
	} else {
		p.Loss = o.End(t)
	}
	if t.wrong != nil {
		return nil, nil, nil, t.wrong
	}
	p.Hyper = c.Input("hyper", tensor.F32, tensor.Static(graph.HyperLen))
	if o.Accumulate {
		p.Weight = c.Input("weight", tensor.F32, tensor.Static(1))
		p.Keep = c.Input("keep", tensor.F32, tensor.Static(1))
		p.Loss = c.Mul("weighted", p.Loss, p.Weight)
	}
	backward := grad.Backward
	if o.Recompute {
		backward = grad.Recomputing
	}
	pairs, err := backward(b, p.Loss)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", m.store.Path(), err)
	}
	if o.Accumulate {
		pairs = grad.Accumulate(b, pairs, p.Keep)
	}
	updates, norm := o.Optimizer.Add(b, pairs, p.Hyper)
	p.GradNorm = norm
	parts, output := &TrainParts{Adapters: c.adapters}, append([]*graph.Value{p.Loss, p.GradNorm}, t.output...)
	for i, pair := range pairs {
		n, u := pair.Param.Node, updates[i]
		parts.Params = append(parts.Params, Param{
			Key: n.Leaf.Key, Role: n.Leaf.Role, Layer: n.Layer, Fresh: n.Leaf.Fresh,
			Decay: u.Decay, Value: pair.Param, M: u.M, V: u.V, Square: u.Square,
		})
		output = append(output, u.Square)
	}
	g, err := b.Freeze(output...)
	if err != nil {
		return nil, nil, nil, err
	}
	if len(parts.Params) == 0 {
		return nil, nil, nil, errors.New("model: no weight is trained, expected at least one")
	}
	return g, p, parts, nil
}
