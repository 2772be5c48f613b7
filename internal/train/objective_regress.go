package train

import (
	"context"
	"fmt"
	"math/rand/v2"

	"hotpath/internal/graph"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// regress brings a number to the score of an example: the cosine of the vectors
// of two texts, or the only score of the model's classifier for one text. The
// loss is the squared difference.
type regress struct {
	alone
	pairs         bool
	want          *graph.Value // [R] or [S,1] scores
	scores        []float32
	first, second *graph.Value // [R] rows of the vectors of both texts
	rows          [2][]int32
}

func newRegress(s setting) (objective, error) {
	if s.stats.Sequences%max(s.stats.Examples, 1) != 0 {
		return nil, fmt.Errorf("type regress: some examples have two texts and some one, expected all alike: %w", ErrData)
	}
	return &regress{pairs: s.stats.Most == 2}, nil
}

func (*regress) kinds() []Kind { return []Kind{Scored} }

func (o *regress) build(t *model.Trainee) *graph.Value {
	if !o.pairs {
		got := t.Scores(1)
		o.want = t.Input("scores", tensor.F32, tensor.Rows(tensor.Of(tensor.S, 1), 1))
		d := t.Add("difference", got, t.Scale("minus", o.want, -1))
		return t.Mean("loss", t.RowDot("square", d, d), nil)
	}
	r := tensor.Rows(tensor.Of(tensor.R, 1))
	x := t.L2Norm("unit", t.Embedding())
	o.first, o.second = t.Input("first", tensor.I32, r), t.Input("second", tensor.I32, r)
	o.want = t.Input("scores", tensor.F32, r)
	cos := t.RowDot("cosine", t.Gather("first_rows", x, o.first), t.Gather("second_rows", x, o.second))
	d := t.Add("difference", cos, t.Scale("minus", o.want, -1))
	return t.Mean("loss", t.Mul("square", d, d), nil)
}

func (o *regress) bind(_ context.Context, s *plan.Session) error {
	o.scores = s.F32(o.want)
	if o.pairs {
		o.rows = [2][]int32{s.I32(o.first), s.I32(o.second)}
	}
	return nil
}

func (*regress) most(tokens int, s Stats) tensor.Bind { return mostWhole(tokens, s) }

func (o *regress) size(e *Example) (tensor.Bind, int) {
	b := whole(e)
	b.R = 1
	return b, 1
}

func (o *regress) put(in *inputs, e *Example, _ *rand.Rand) {
	o.scores[in.Bind.R] = e.Score
	for i := range e.Seqs {
		if o.pairs {
			o.rows[i][in.Bind.R] = int32(in.Bind.S)
		}
		in.sequence(&e.Seqs[i], len(e.Seqs[i].IDs))
	}
	in.Bind.R++
}
