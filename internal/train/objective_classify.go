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

// classify predicts the label of a text or of a pair of texts with the model's
// classifier, or with a new one if the model has none.
type classify struct {
	alone
	labels int
	v      *graph.Value // [S] labels
	of     []int32
}

func newClassify(s setting) (objective, error) {
	o := &classify{labels: labelsOf(s.cfg, s.model)}
	if o.labels < 2 {
		return nil, fmt.Errorf("labels: expected at least 2 for a classifier, found %d: %w", o.labels, ErrConfig)
	}
	return o, nil
}

// labelsOf is the number of classes that a classifier is trained for, 0 with
// other objectives.
func labelsOf(c *Config, m *model.Model) int {
	if c.Objective.name() != "classify" {
		return 0
	}
	return cmp.Or(c.Objective.Labels, m.Config().Labels)
}

func (*classify) kinds() []Kind { return []Kind{Labelled} }

func (o *classify) build(t *model.Trainee) *graph.Value {
	scores := t.Scores(o.labels)
	o.v = t.Input("labels", tensor.I32, tensor.Rows(tensor.Of(tensor.S, 1)))
	nll, _ := t.SmoothedCrossEntropy("cross_entropy", scores, o.v, t.Ports.Smoothing)
	return t.Mean("loss", nll, o.v)
}

func (o *classify) bind(_ context.Context, s *plan.Session) error {
	o.of = s.I32(o.v)
	return nil
}

func (*classify) most(tokens int, s Stats) tensor.Bind { return mostWhole(tokens, s) }

// mostWhole is the largest batch of whole sequences.
func mostWhole(tokens int, s Stats) tensor.Bind {
	n := int(min(int64(tokens), s.Tokens))
	return tensor.Bind{T: n, S: min(n, s.Sequences), R: min(n, s.Examples)}
}

func (*classify) size(e *Example) (tensor.Bind, int) { return whole(e), 1 }

func (o *classify) put(in *inputs, e *Example, _ *rand.Rand) {
	o.of[in.Bind.S] = e.Label
	in.sequence(&e.Seqs[0], len(e.Seqs[0].IDs))
}

func (o *classify) check(e *Example) error {
	if e.Label < 0 || int(e.Label) >= o.labels {
		return fmt.Errorf("label %d, expected 0 to %d: %w", e.Label, o.labels-1, ErrData)
	}
	return nil
}
