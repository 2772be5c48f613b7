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

// distill follows the next-token distribution of a teacher: the divergence of
// the student's from it at a temperature, and a share of the loss of the data's
// own next tokens.
type distill struct {
	lm
	hard, temperature float32
	workers           int
	teacher           *frozen
	logits            *graph.Value // [R,Vocab] of the teacher
	to                []float32
}

func openTeacher(s setting) (*frozen, error) {
	if s.cfg.Objective.Teacher == "" {
		return nil, fmt.Errorf("teacher: expected the file of a model: %w", ErrConfig)
	}
	f, err := openFrozen(s.cfg.Objective.Teacher)
	if err != nil {
		return nil, fmt.Errorf("teacher: %w", err)
	}
	if err := f.sameVocab("teacher", s.model); err != nil {
		_ = f.close() // the first error is the one to know
		return nil, err
	}
	return f, nil
}

// teaches is objective.beside of a teacher.
func (f *frozen) teaches(ctx context.Context) (field, digest string, err error) {
	digest, err = f.store.Digest(ctx)
	return "objective.teacher", digest, err
}

func newDistill(s setting) (objective, error) {
	if _, err := newLM(s); err != nil {
		return nil, err
	}
	f, err := openTeacher(s)
	if err != nil {
		return nil, err
	}
	c := &s.cfg.Objective
	return &distill{hard: float32(c.Hard), temperature: float32(cmp.Or(c.Temperature, 2)), workers: s.opts.Workers, teacher: f}, nil
}

func (o *distill) build(t *model.Trainee) *graph.Value {
	logits := t.Logits()
	t.Ports.Targets = t.Input("targets", tensor.I32, tensor.Rows(tensor.Of(tensor.R, 1)))
	o.logits = t.Input("teacher", tensor.F32, logits.Shape)
	loss := t.Mean("soft", t.Distill("distill", logits, o.logits, o.temperature), t.Ports.Targets)
	if o.hard == 0 {
		return loss
	}
	nll, _ := t.SmoothedCrossEntropy("cross_entropy", logits, t.Ports.Targets, t.Ports.Smoothing)
	hard := t.Scale("hard_share", t.Mean("hard", nll, t.Ports.Targets), o.hard)
	return t.Add("loss", t.Scale("soft_share", loss, 1-o.hard), hard)
}

func (o *distill) compile(p *plan.Program) (string, int64, error) {
	bytes, err := o.teacher.compile(p, func(t *model.Trainee) *graph.Value { return t.Logits() })
	return "teacher", bytes, err
}

func (o *distill) bind(ctx context.Context, s *plan.Session) error {
	o.to = s.F32(o.logits)
	return o.teacher.start(ctx, o.workers)
}

func (o *distill) ready(ctx context.Context, in *inputs) error {
	logits, err := o.teacher.forward(ctx, in)
	if err == nil {
		copy(o.to, logits[:in.Bind.R*o.logits.Shape.RowLen()])
	}
	return err
}

func (o *distill) beside(ctx context.Context) (field, digest string, err error) {
	return o.teacher.teaches(ctx)
}

func (o *distill) close() error { return o.teacher.close() }

// distillEmbedding brings vectors to those of a teacher: by the mean squared
// difference of elements, or by the cosine. The teacher runs beside the model,
// or a file has its vectors of all texts.
type distillEmbedding struct {
	cosine  bool
	workers int
	teacher *frozen      // nil where a file has the vectors
	file    *vectorsFile // nil where the teacher runs
	vectors *graph.Value // [S,EmbedDim] of the teacher
	to      []float32
}

func newDistillEmbedding(s setting) (objective, error) {
	if s.cfg.Objective.Vectors != "" {
		return newDistillVectors(s)
	}
	f, err := openTeacher(s)
	if err != nil {
		return nil, err
	}
	if got, want := f.model.Config().EmbedDim, s.model.Config().EmbedDim; got != want {
		_ = f.close() // the first error is the one to know
		return nil, fmt.Errorf("teacher: %s makes vectors of %d elements, expected the %d of the model that is trained: %w", s.cfg.Objective.Teacher, got, want, ErrConfig)
	}
	return &distillEmbedding{cosine: s.cfg.Objective.Cosine, workers: s.opts.Workers, teacher: f}, nil
}

// newDistillVectors takes the vectors of a file: one row per text, in the order
// of the data.
func newDistillVectors(s setting) (objective, error) {
	c := &s.cfg.Objective
	switch {
	case c.Teacher != "":
		return nil, fmt.Errorf("vectors: expected it or teacher, found both: %w", ErrConfig)
	case len(s.cfg.Validation.Data) > 0:
		return nil, fmt.Errorf("vectors: the file has vectors only for the texts of data, expected validation.share in place of validation.data: %w", ErrConfig)
	}
	f, err := openVectors(c.Vectors)
	if err != nil {
		return nil, fmt.Errorf("vectors: %w", err)
	}
	if want := s.model.Config().EmbedDim; f.width != want {
		err = fmt.Errorf("vectors: %s has vectors of %d elements, expected the %d of the model that is trained: %w", c.Vectors, f.width, want, ErrConfig)
	} else if f.rows != s.stats.Documents {
		err = fmt.Errorf("vectors: %s has %d rows, expected %d, one per text of data: %w", c.Vectors, f.rows, s.stats.Documents, ErrData)
	}
	if err != nil {
		_ = f.close() // the first error is the one to know
		return nil, err
	}
	return &distillEmbedding{cosine: c.Cosine, file: f}, nil
}

func (o *distillEmbedding) kinds() []Kind {
	if o.file != nil {
		return []Kind{Text}
	}
	return []Kind{Text, Pairs, Scored, Labelled}
}

// check reports a text that was cut: the file has one vector for all of it.
func (o *distillEmbedding) check(e *Example) error {
	if o.file != nil && e.Part {
		return fmt.Errorf("text %d has more tokens than seq_len, expected at most seq_len, because its vector is for the whole text: %w", e.Text, ErrData)
	}
	return nil
}

func (o *distillEmbedding) build(t *model.Trainee) *graph.Value {
	x := t.Embedding()
	o.vectors = t.Input("teacher", tensor.F32, x.Shape)
	y, scale := o.vectors, float32(1/float64(x.Shape.RowLen()))
	if o.cosine { // |x-y|² = 2 - 2 cos of unit vectors
		x, y, scale = t.L2Norm("unit", x), t.L2Norm("teacher_unit", y), 0.5
	}
	d := t.Add("difference", x, t.Scale("minus", y, -1))
	return t.Scale("loss", t.Mean("mean", t.RowDot("square", d, d), nil), scale)
}

func (o *distillEmbedding) compile(p *plan.Program) (string, int64, error) {
	if o.file != nil {
		return "", 0, nil
	}
	bytes, err := o.teacher.compile(p, func(t *model.Trainee) *graph.Value { return t.Embedding() })
	return "teacher", bytes, err
}

func (o *distillEmbedding) bind(ctx context.Context, s *plan.Session) error {
	o.to = s.F32(o.vectors)
	if o.file != nil {
		return nil
	}
	return o.teacher.start(ctx, o.workers)
}

func (*distillEmbedding) most(tokens int, s Stats) tensor.Bind { return mostWhole(tokens, s) }

func (*distillEmbedding) size(e *Example) (tensor.Bind, int) { return whole(e), len(e.Seqs) }

func (o *distillEmbedding) put(in *inputs, e *Example, _ *rand.Rand) {
	if o.file != nil {
		copy(o.to[in.Bind.S*o.file.width:], o.file.row(e.Text))
	}
	for i := range e.Seqs {
		in.sequence(&e.Seqs[i], len(e.Seqs[i].IDs))
	}
}

func (o *distillEmbedding) ready(ctx context.Context, in *inputs) error {
	if o.file != nil {
		return nil
	}
	vectors, err := o.teacher.forward(ctx, in)
	if err == nil {
		copy(o.to, vectors[:in.Bind.S*o.vectors.Shape.RowLen()])
	}
	return err
}

func (o *distillEmbedding) beside(ctx context.Context) (field, digest string, err error) {
	if o.file != nil {
		return "objective.vectors", o.file.digest(), nil
	}
	return o.teacher.teaches(ctx)
}

func (o *distillEmbedding) close() error {
	if o.file != nil {
		return o.file.close()
	}
	return o.teacher.close()
}
