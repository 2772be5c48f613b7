package train

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hotpath/internal/atomicfile"
	"hotpath/internal/model"
	"hotpath/profile"
)

// Evaluation is what the model makes of the validation data.
type Evaluation struct {
	Done        bool    // the other fields count
	Loss        float64 // mean over the terms of the objective, without dropout and label smoothing
	TokenLoss   bool    // the loss is of tokens, so that it has a perplexity
	BitsPerByte float64 // of text, of objectives that predict every token; 0 for others
	Best        bool    // no evaluation before had a figure as good, of the field validation.best

	// STS says that Pearson and Spearman count: the correlation of the cosines of
	// pairs with people's scores.
	STS               bool
	Pearson, Spearman float64
	// Retrieval says that MRR and NDCG10 count: how well anchors find their
	// positives among all documents, by cosine.
	Retrieval   bool
	MRR, NDCG10 float64
}

// Perplexity is e to the power of the loss.
func (e Evaluation) Perplexity() float64 { return math.Exp(e.Loss) }

// figure is a number of an evaluation, with its names in lines, logs and
// TensorBoard.
type figure struct {
	name, column, tag string
	digits            int  // after the point, in lines
	higher            bool // is better
	has               func(e *Evaluation) bool
	of                func(e *Evaluation) float64
}

// figures are what an evaluation reports, in the order of its line.
var figures = []figure{
	{"validation loss", "val_loss", "loss/validation", 4, false, func(*Evaluation) bool { return true }, func(e *Evaluation) float64 { return e.Loss }},
	{"perplexity", "val_ppl", "validation/perplexity", 2, false, func(e *Evaluation) bool { return e.TokenLoss }, func(e *Evaluation) float64 { return e.Perplexity() }},
	{"bits per byte", "val_bpb", "validation/bits_per_byte", 4, false, func(e *Evaluation) bool { return e.BitsPerByte > 0 }, func(e *Evaluation) float64 { return e.BitsPerByte }},
	{"Spearman", "val_spearman", "validation/spearman", 4, true, func(e *Evaluation) bool { return e.STS }, func(e *Evaluation) float64 { return e.Spearman }},
	{"Pearson", "val_pearson", "validation/pearson", 4, true, func(e *Evaluation) bool { return e.STS }, func(e *Evaluation) float64 { return e.Pearson }},
	{"MRR", "val_mrr", "validation/mrr", 4, true, func(e *Evaluation) bool { return e.Retrieval }, func(e *Evaluation) float64 { return e.MRR }},
	{"NDCG@10", "val_ndcg10", "validation/ndcg10", 4, true, func(e *Evaluation) bool { return e.Retrieval }, func(e *Evaluation) float64 { return e.NDCG10 }},
}

func (e Evaluation) String() string {
	var parts []string
	for _, f := range figures {
		if f.has(&e) {
			parts = append(parts, fmt.Sprintf("%s %.*f", f.name, f.digits, f.of(&e)))
		}
	}
	text := strings.Join(parts, "  ")
	if e.Best {
		text += "  (best so far)"
	}
	return text
}

// word is what the configuration calls the figure.
func (f *figure) word() string { return strings.TrimPrefix(f.column, "val_") }

func figureWords() []string {
	var words []string
	for i := range figures {
		words = append(words, figures[i].word())
	}
	return words
}

// best is the field with its default, for configurations that were made without
// DefaultConfig.
func (c *ValidationConfig) best() string { return cmp.Or(c.Best, "loss") }

// deciding is the figure that decides which evaluation is the best: that of the
// checkpoint where a resumed run has no evaluations.
func (t *Trainer) deciding() *figure {
	return &figures[slices.Index(figureWords(), cmp.Or(t.bestBy, "loss"))]
}

// pastPatience reports whether the run has to end, because its figure has not become
// better for so many evaluations.
func (t *Trainer) pastPatience() bool {
	n := t.cfg.Validation.Patience
	return n > 0 && t.held != nil && t.best.Since >= n
}

// best is the best evaluation so far.
type best struct {
	Step  int     `json:"step"` // 0: none
	Loss  float64 `json:"loss"`
	Value float64 `json:"value"` // of the deciding figure
	Since int     `json:"since"` // evaluations after it
}

// consider judges an evaluation after a step.
func (b *best) consider(f *figure, e *Evaluation, step int) {
	v := f.of(e)
	switch {
	case f.has(e) && !math.IsNaN(v) && (b.Step == 0 || f.higher && v > b.Value || !f.higher && v < b.Value):
		*b = best{Step: step, Loss: e.Loss, Value: v}
		e.Best = true
	case b.Step > 0:
		b.Since++
	}
}

const bestFile = "best.json"

// write writes the step of the best checkpoint to best.json, if the folder has it. It
// may be in another folder, or of a run that did not keep it.
func (b best) write(out string, f *figure) error {
	if _, err := os.Stat(checkpointDir(out, b.Step)); err != nil {
		return nil
	}
	text, err := json.Marshal(map[string]any{
		"step": b.Step, "validation_loss": b.Loss, f.column: b.Value, "checkpoint": filepath.Base(checkpointDir(out, b.Step)),
	})
	if err != nil {
		return err
	}
	return atomicfile.Replace(filepath.Join(out, bestFile), append(text, '\n'))
}

// validation are the data that the model is judged on. Every evaluation takes
// the same examples in the same order.
type validation struct {
	data  *batches
	bytes int64 // of the text that is predicted; 0 where that means nothing
}

// held is a stretch of a source's examples.
type held struct {
	Source
	from, n int
	stats   Stats
}

func (h *held) Stats() Stats { return h.stats }
func (h *held) Fingerprint() string {
	return fmt.Sprintf("%s[%d:%d]", h.Source.Fingerprint(), h.from, h.from+h.n)
}
func (h *held) Example(i int, e *Example) error { return h.Source.Example(h.from+i, e) }

// split takes the last share of a source for validation, at least one example;
// the second result is nil where share is 0.
func split(s Source, share float64) (training, valid Source, err error) {
	if share == 0 {
		return s, nil, nil
	}
	all := s.Stats()
	n := max(1, int(math.Round(share*float64(all.Examples))))
	if n >= all.Examples {
		return nil, nil, fmt.Errorf("field validation.share: %g of %d pieces of text leaves nothing to train on: %w", share, all.Examples, ErrData)
	}
	v := &held{Source: s, from: all.Examples - n, n: n, stats: Stats{Examples: n}}
	var e Example
	for i := range n {
		if err := v.Example(i, &e); err != nil {
			return nil, nil, err
		}
		v.stats.addExample(&e)
	}
	t := &held{Source: s, n: all.Examples - n, stats: all}
	t.stats.Examples, t.stats.Sequences, t.stats.Tokens = t.n, all.Sequences-v.stats.Sequences, all.Tokens-v.stats.Tokens
	return t, v, nil
}

// openValidation prepares evaluations where there are validation data. What is
// wrong with an example of them shows now.
func (t *Trainer) openValidation(ctx context.Context, m *model.Model) error {
	c, source := &t.cfg.Validation, t.held
	if source == nil {
		return nil
	}
	if source.Stats().Examples == 0 || !slices.Contains(t.obj.kinds(), source.Kind()) {
		return fmt.Errorf("field validation.data: %s: %d examples of kind %s, expected at least one of %v: %w",
			strings.Join(c.Data, ", "), source.Stats().Examples, source.Kind(), t.obj.kinds(), ErrData)
	}
	if was, is := t.data.source.Stats(), source.Stats(); source.Kind() == Scored && (is.Most != was.Most || is.Sequences != is.Examples*is.Most) {
		return fmt.Errorf("field validation.data: %s: up to %d texts per score, expected %d, as the training data have: %w", strings.Join(c.Data, ", "), is.Most, was.Most, ErrData)
	}
	t.valid = &validation{data: newBatches(source, t.obj, t.data.run, t.data.run.T, t.cfg.Seed)}
	var err error
	if t.vectors, err = t.openVectorTests(ctx, m, source); err != nil {
		return err
	}
	if slices.Contains(everyToken, t.cfg.Objective.name()) {
		err = t.valid.count(m, c.Tokens)
	} else {
		err = t.valid.eachRun(c.Tokens, func(part) error { return nil })
	}
	return errors.Join(err, t.canDecide())
}

// canDecide refuses a deciding figure that no evaluation of this run has.
func (t *Trainer) canDecide() error {
	e := Evaluation{TokenLoss: t.tokenLoss(), BitsPerByte: float64(t.valid.bytes)}
	if v := t.vectors; v != nil {
		e.STS, e.Retrieval = len(v.sts) > 0, len(v.queries) > 0
	}
	var words []string
	for i := range figures {
		if figures[i].has(&e) {
			words = append(words, figures[i].word())
		}
	}
	if c := &t.cfg.Validation; !slices.Contains(words, c.best()) {
		return fmt.Errorf("field validation.best: expected a figure that evaluations of these data have (%s), found %q: %w", strings.Join(words, ", "), c.Best, ErrConfig)
	}
	return nil
}

// tokenLoss reports whether the loss is of tokens.
func (t *Trainer) tokenLoss() bool { return slices.Contains(someTokens, t.cfg.Objective.name()) }

// Objectives whose loss is the likelihood of tokens: of some tokens of a text, or of
// all tokens, so that it can be converted to bits per byte of text.
var (
	someTokens = []string{"lm", "mlm", "sft"}
	everyToken = []string{"lm", "sft"}
)

// eachRun gives f the runs of an evaluation of at most so many tokens, 0 for all.
func (v *validation) eachRun(tokens int, f func(p part) error) error {
	b := v.data
	b.at = Position{}
	for read := 0; b.at.Epoch == 0 && (tokens == 0 || read < tokens); {
		b.examples = b.n - b.at.Next // an evaluation ends with the epoch
		if err := b.plan(); err != nil {
			return err
		}
		for _, p := range b.runs {
			end := b.at
			b.at = p.from
			for range p.examples {
				if err := b.next(); err != nil {
					return err
				}
				size, _ := b.obj.size(&b.example)
				read += size.T
				b.advance()
			}
			b.at = end
			if err := f(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// count finds how many bytes of text the evaluation predicts.
func (v *validation) count(m *model.Model, tokens int) error {
	tok, err := m.Tokenizer()
	if err != nil {
		return err
	}
	b := v.data
	var ids []int32
	return v.eachRun(tokens, func(p part) error {
		end := b.at
		b.at = p.from
		defer func() { b.at = end }()
		for range p.examples {
			if err := b.next(); err != nil {
				return err
			}
			ids = ids[:0]
			for i, id := range b.example.Seqs[0].IDs {
				if i > 0 && learns(b.example.Seqs[0].Learn, i) {
					ids = append(ids, id)
				}
			}
			v.bytes += int64(len(tok.Decode(ids, true)))
			b.advance()
		}
		return nil
	})
}

// evaluate judges the model after a step where that is due.
func (t *Trainer) evaluate(ctx context.Context, s *Step) error {
	c := &t.cfg.Validation
	if t.valid == nil || (c.Every == 0 || t.step%c.Every != 0) && t.step != t.cfg.Steps {
		return nil
	}
	ctx, end := profile.Scope(ctx, "validation")
	defer end()
	var sum float64
	terms := 0
	err := t.valid.eachRun(c.Tokens, func(p part) error {
		in := t.runner.in
		whole, cached := t.obj.(wholeStep)
		if cached = cached && t.data.split; cached {
			whole.begin()
		}
		if err := t.valid.data.fill(ctx, in, p); err != nil {
			return err
		}
		in.regularize(&t.cfg, 0, 0)
		loss, err := t.runner.forward(ctx)
		if cached && err == nil { // what the graph ends in is not the loss
			whole.keep(in)
			loss, err = whole.solve(ctx)
		}
		sum += float64(loss) * float64(p.terms)
		terms += p.terms
		return err
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("validation after step %d: %w", t.step, err)
	}
	e := Evaluation{Done: true, Loss: sum / float64(max(terms, 1)), TokenLoss: t.tokenLoss()}
	if t.valid.bytes > 0 {
		e.BitsPerByte = sum / math.Ln2 / float64(t.valid.bytes)
	}
	if err := t.judgeVectors(ctx, &e); ctx.Err() != nil {
		return context.Cause(ctx)
	} else if err != nil {
		return fmt.Errorf("validation after step %d: %w", t.step, err)
	}
	t.best.consider(t.deciding(), &e, t.step)
	s.Eval = e
	return nil
}
