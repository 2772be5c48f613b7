package train

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"

	"hotpath/internal/graph"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// dpo is direct preference optimisation: the answer that people chose becomes
// likelier than the rejected one, measured against a frozen reference, which is
// the model before training unless another file is named.
type dpo struct {
	alone
	beta    float32
	workers int
	ref     *frozen

	starts, refs, counts *graph.Value // [S+1] first row of a sequence, [S], [S] 0 where a pair begins, else -1
	start                []int32
	sum                  []float32
	count                []int32
}

func newDPO(s setting) (objective, error) {
	path := cmp.Or(s.cfg.Objective.Reference, s.cfg.Model)
	if path == "" {
		return nil, fmt.Errorf("reference: expected the file of a model, because a described model has no file: %w", ErrConfig)
	}
	f, err := openFrozen(path)
	if err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	if err := f.sameVocab("reference", s.model); err != nil {
		_ = f.close() // the first error is the one to know
		return nil, err
	}
	return &dpo{beta: float32(cmp.Or(s.cfg.Objective.Beta, 0.1)), workers: s.opts.Workers, ref: f}, nil
}

func (*dpo) kinds() []Kind { return []Kind{Preference} }

func (o *dpo) build(t *model.Trainee) *graph.Value {
	s := tensor.Rows(tensor.Of(tensor.S, 1))
	nll := t.NLL()
	o.starts = t.Input("starts", tensor.I32, tensor.Rows(tensor.Dim{Sym: tensor.S, Mul: 1, Add: 1}))
	o.refs, o.counts = t.Input("reference", tensor.F32, s), t.Input("counts", tensor.I32, s)
	loss := t.Preference("preference", t.SequenceSum("answers", nll, o.starts), o.refs, o.beta)
	return t.Mean("loss", loss, o.counts)
}

func (o *dpo) compile(p *plan.Program) (string, int64, error) {
	bytes, err := o.ref.compile(p, func(t *model.Trainee) *graph.Value { return t.NLL() })
	return "reference", bytes, err
}

func (o *dpo) bind(ctx context.Context, s *plan.Session) error {
	o.start, o.sum, o.count = s.I32(o.starts), s.F32(o.refs), s.I32(o.counts)
	return o.ref.start(ctx, o.workers)
}

func (*dpo) most(tokens int, s Stats) tensor.Bind {
	n := int(min(int64(tokens), s.Tokens-int64(s.Sequences)))
	return tensor.Bind{T: n, S: min(n, s.Sequences), R: n}
}

func (*dpo) size(e *Example) (tensor.Bind, int) {
	var b tensor.Bind
	for i := range e.Seqs {
		part, _ := (&lm{}).size(&Example{Seqs: e.Seqs[i : i+1]})
		b = plus(b, part)
	}
	return b, 1
}

func (o *dpo) put(in *inputs, e *Example, rng *rand.Rand) {
	for i := range e.Seqs {
		o.count[in.Bind.S] = int32(-i)
		o.start[in.Bind.S] = int32(in.Bind.R)
		(&lm{}).put(in, &Example{Seqs: e.Seqs[i : i+1]}, rng)
		o.start[in.Bind.S] = int32(in.Bind.R)
	}
}

// ready asks the reference about the same answers.
func (o *dpo) ready(ctx context.Context, in *inputs) error {
	nll, err := o.ref.forward(ctx, in)
	if err != nil {
		return err
	}
	for s := range in.Bind.S {
		var sum float64
		for _, v := range nll[o.start[s]:o.start[s+1]] {
			sum += float64(v)
		}
		o.sum[s] = float32(sum)
	}
	return nil
}

func (o *dpo) beside(ctx context.Context) (field, digest string, err error) {
	digest, err = o.ref.store.Digest(ctx)
	return "objective.reference", digest, err
}

func (o *dpo) close() error { return o.ref.close() }
