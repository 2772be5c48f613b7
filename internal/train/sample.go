package train

import (
	"context"
	"errors"
	"fmt"

	"hotpath/internal/engine"
	"hotpath/internal/kv"
	"hotpath/internal/model"
	"hotpath/internal/sample"
	"hotpath/internal/tensor"
	"hotpath/internal/tokenizer"
	"hotpath/profile"
)

// sample lets the model write a text where that is due, and gives it to
// OnSample. The weights are copied for it, so that it takes as much memory as
// generating with the model does; the text depends on weights and step only.
// Where ctx ends there is no text.
func (t *Trainer) sample(ctx context.Context) error {
	c := &t.cfg.Sample
	if c.Every == 0 || t.opts.OnSample == nil || t.step%c.Every != 0 && t.step != t.cfg.Steps {
		return nil
	}
	ctx, end := profile.Scope(ctx, "sample")
	defer end()
	text, err := t.generate(ctx, c)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sample after step %d: %w", t.step, err)
	}
	return t.opts.OnSample(t.step, text)
}

// checkSample refuses samples that m cannot write.
func (t *Trainer) checkSample(m *model.Model) error {
	if t.cfg.Sample.Every == 0 {
		return nil
	}
	if c := m.Config(); !c.CanGenerate {
		return fmt.Errorf("field sample.every: expected 0, because a %s model of this kind writes no texts, found %d: %w", c.Arch, t.cfg.Sample.Every, ErrConfig)
	}
	prompt, err := t.prompt(m)
	if err == nil && len(prompt) >= m.Config().MaxSeq {
		err = fmt.Errorf("field sample.prompt: %d tokens, expected fewer than %d, the positions of the model: %w", len(prompt), m.Config().MaxSeq, ErrConfig)
	}
	return err
}

// prompt is what samples begin with: the first token of the data where the
// configuration has no prompt, and the tokenizer no token to begin with.
func (t *Trainer) prompt(m *model.Model) ([]int32, error) {
	tok, err := m.Tokenizer()
	if err != nil {
		return nil, err
	}
	if prompt := tok.Encode(nil, t.cfg.Sample.Prompt, tokenizer.Options{Special: true}, &tokenizer.Scratch{}); len(prompt) > 0 {
		return prompt, nil
	}
	var e Example
	if err := t.data.source.Example(0, &e); err != nil {
		return nil, err
	}
	return e.Seqs[0].IDs[:1:1], nil
}

func (t *Trainer) generate(ctx context.Context, c *SampleConfig) (text string, err error) {
	m := t.runner.model.With(t.runner.live())
	tok, err := t.runner.model.Tokenizer()
	if err != nil {
		return "", err
	}
	prompt, err := t.prompt(t.runner.model)
	if err != nil {
		return "", err
	}
	e, err := engine.Open(m, t.opts.Backend, t.sampling(m, prompt))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	s, err := e.Generate(ctx, engine.Request{
		Prompt: prompt, MaxTokens: min(c.Tokens, m.Config().MaxSeq-len(prompt)), End: tok.IsEnd,
		Sample: sample.Params{Temperature: float32(c.Temp), Seed: t.cfg.Seed + uint64(t.step)},
	})
	if err != nil {
		return "", err
	}
	ids := prompt
	for {
		id, ok := s.Next()
		if !ok {
			break
		}
		ids = append(ids, id)
	}
	return tok.Decode(ids, true), s.Err()
}

// sampling are the options of an engine that writes one sample.
func (t *Trainer) sampling(m *model.Model, prompt []int32) engine.Options {
	ctx := min(m.Config().MaxSeq, len(prompt)+t.cfg.Sample.Tokens)
	return engine.Options{Ctx: ctx, MaxSeqs: 1, KVBlocks: kv.Blocks(ctx), Workers: t.opts.Workers}
}

// live gives the weights as they are now, by key; any number of goroutines may
// ask.
func (r *runner) live() map[string]func() ([]float32, error) {
	live := map[string]func() ([]float32, error){}
	for _, p := range r.parts.Params {
		live[p.Key] = func() ([]float32, error) {
			f := make([]float32, p.Value.Shape.Len(tensor.Bind{}))
			return f, r.sess.ReadState(p.Value, f)
		}
	}
	for _, d := range r.parts.Adapters {
		live[d.Key] = func() ([]float32, error) { return r.merged(d) }
	}
	return live
}
