package train

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"hotpath/internal/graph"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// contrastive brings the vectors of anchor and positive together: every other
// document of the run is a wrong answer, hard negatives included (InfoNCE).
// Documents with the same text are not wrong answers of each other.
//
// Where a step has several runs, it is over all of them at the memory of one:
// a gradient cache keeps all vectors, finds the loss and its gradient by them,
// and makes every run once more with that gradient.
type contrastive struct {
	alone
	cfg           ObjectiveConfig
	width         int // of embeddings
	partner, same struct {
		v *graph.Value // [S]
		i []int32
	}
	seen  map[uint64]int32 // texts of the run, or of the step
	cache *vectorCache     // nil where a step is one run
}

func newContrastive(s setting) (objective, error) {
	o := &contrastive{cfg: s.cfg.Objective, width: s.model.Config().EmbedDim, seen: map[uint64]int32{}}
	for _, d := range o.cfg.Dims {
		if d < 1 || d > o.width {
			return nil, fmt.Errorf("dims: expected 1 to %d, the width of embeddings, found %d: %w", o.width, d, ErrConfig)
		}
	}
	if n := len(o.cfg.DimWeights); n > 0 && n != len(o.cfg.Dims) {
		return nil, fmt.Errorf("dim_weights: expected one for each of %d dims, found %d: %w", len(o.cfg.Dims), n, ErrConfig)
	}
	if n := o.cfg.DimWeights; len(n) > 0 && slices.Max(n) == 0 {
		return nil, fmt.Errorf("dim_weights: expected at least one above 0, found %v: %w", n, ErrConfig)
	}
	if s.stats.Most == 2 { // no example has negatives
		switch {
		case s.stats.Examples == 1:
			return nil, fmt.Errorf("type contrastive: the data have 1 pair and no negatives, expected at least 2 pairs, because the pairs of a step are the wrong answers of each other: %w", ErrData)
		case o.cfg.Batch == 1:
			return nil, fmt.Errorf("batch: expected 0 or at least 2 for data without negatives, because the pairs of a step are the wrong answers of each other, found 1: %w", ErrConfig)
		}
	}
	if c := s.cfg; c.MicroTokens > 0 && c.MicroTokens < c.BatchTokens {
		o.cache = &vectorCache{most: o.most(c.BatchTokens, s.all).S, workers: s.opts.Workers}
	}
	return o, nil
}

func (*contrastive) kinds() []Kind { return []Kind{Pairs} }

func (o *contrastive) build(t *model.Trainee) *graph.Value {
	x := t.Embedding()
	if o.cache != nil {
		return o.cache.build(t, x)
	}
	return o.loss(t.Builder, x)
}

// loss is that of vectors x[S,D].
func (o *contrastive) loss(t *graph.Builder, x *graph.Value) *graph.Value {
	s := tensor.Rows(tensor.Of(tensor.S, 1))
	o.partner.v, o.same.v = t.Input("partner", tensor.I32, s), t.Input("same", tensor.I32, s)
	dims := o.cfg.Dims
	if len(dims) == 0 {
		dims = []int{o.width}
	}
	var sum *graph.Value
	for i, d := range dims {
		end := t.Scope(fmt.Sprintf("dim.%d", d))
		part := x
		if d < o.width {
			part = t.Columns("cut", x, d)
		}
		nll, _ := t.InfoNCE("infonce", t.L2Norm("unit", part), o.partner.v, o.same.v, float32(cmp.Or(o.cfg.Scale, 20)))
		loss := t.Mean("loss", nll, o.partner.v)
		if len(o.cfg.DimWeights) > 0 {
			loss = t.Scale("weighted", loss, float32(o.cfg.DimWeights[i]))
		}
		if sum == nil {
			sum = loss
		} else {
			sum = t.Add("sum", sum, loss)
		}
		end()
	}
	return sum
}

func (o *contrastive) compile(p *plan.Program) (string, int64, error) {
	if o.cache == nil {
		return "", 0, nil
	}
	bytes, err := o.cache.compile(p, o.loss, o.width)
	return "gradient cache", bytes, err
}

func (o *contrastive) bind(ctx context.Context, s *plan.Session) error {
	if o.cache != nil {
		if err := o.cache.open(ctx, s); err != nil {
			return err
		}
		s = o.cache.sess
	}
	o.partner.i, o.same.i = s.I32(o.partner.v), s.I32(o.same.v)
	return nil
}

func (o *contrastive) most(tokens int, s Stats) tensor.Bind {
	n := int(min(int64(tokens), s.Tokens))
	return tensor.Bind{T: n, S: min(n, s.Sequences, cmp.Or(o.cfg.Batch, s.Examples)*s.Most), R: 1}
}

func (*contrastive) size(e *Example) (tensor.Bind, int) { return whole(e), 1 }

// whole is the size of all sequences of an example, without targets.
func whole(e *Example) tensor.Bind {
	b := tensor.Bind{S: len(e.Seqs)}
	for i := range e.Seqs {
		b.T += len(e.Seqs[i].IDs)
	}
	return b
}

func (o *contrastive) put(in *inputs, e *Example, _ *rand.Rand) {
	first := 0 // row of the run in the step
	if o.cache != nil {
		first = o.cache.rows
	} else if in.Bind.S == 0 {
		clear(o.seen)
	}
	for i := range e.Seqs {
		row := first + in.Bind.S
		s := &e.Seqs[i]
		in.sequence(s, len(s.IDs))
		if o.cache != nil && o.cache.solved {
			continue
		}
		o.partner.i[row], o.same.i[row] = -1, -1
		switch i {
		case 0:
			o.partner.i[row] = int32(row + 1)
			continue
		case 1:
			if o.cfg.Symmetric {
				o.partner.i[row] = int32(row - 1)
			}
		}
		o.same.i[row] = o.text(s.IDs)
	}
}

// text numbers the different texts of a run, by a hash (FNV-1a) of their ids.
func (o *contrastive) text(ids []int32) int32 {
	h := uint64(14695981039346656037)
	for _, id := range ids {
		for shift := 0; shift < 32; shift += 8 {
			h = (h ^ uint64(byte(id>>shift))) * 1099511628211
		}
	}
	n, ok := o.seen[h]
	if !ok {
		n = int32(len(o.seen))
		o.seen[h] = n
	}
	return n
}

func (o *contrastive) begin() {
	clear(o.seen)
	o.cache.rows, o.cache.solved = 0, false
}

func (o *contrastive) keep(in *inputs)                            { o.cache.keep(in.Bind.S) }
func (o *contrastive) again(in *inputs, first int)                { o.cache.again(in.Bind.S, first) }
func (o *contrastive) solve(ctx context.Context) (float32, error) { return o.cache.solve(ctx) }

func (o *contrastive) close() error {
	if o.cache == nil || o.cache.sess == nil {
		return nil
	}
	return o.cache.sess.Close()
}
