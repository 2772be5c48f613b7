package hotpath

import (
	"context"
	"math"

	"hotpath/internal/engine"
	"hotpath/profile"
)

// ScoreOptions say what is scored.
type ScoreOptions struct {
	Special bool // add the special tokens that the model's tokenizer adds
}

// Score is how likely a model finds a text.
type Score struct {
	IDs []int32
	NLL []float32 // NLL[i] = -log p(IDs[i+1] | IDs[..i]), natural logarithm; empty for fewer than two ids
}

// Perplexity is exp of the mean of NLL, NaN where there is none.
func (s Score) Perplexity() float64 {
	var sum float64
	for _, v := range s.NLL {
		sum += float64(v)
	}
	return math.Exp(sum / float64(len(s.NLL)))
}

// Score computes the likelihood of each token of each text, given those before
// it. It has the same bits alone and beside other texts, and at any number of
// threads. A text that is longer than the context is an error, ErrTooLong.
func (m *Model) Score(ctx context.Context, texts []string, o ScoreOptions) (_ []Score, err error) {
	defer engine.Guard(&err)
	if err := m.ready(ctx); err != nil {
		return nil, err
	}
	ctx = m.recorded(ctx)
	_, end := profile.Scope(ctx, "tokenize")
	seqs, err := m.TokenizeAllContext(ctx, texts, o.Special)
	end()
	if err != nil {
		return nil, err
	}
	return m.ScoreIDs(ctx, seqs)
}

// ScoreIDs is Score of token ids.
func (m *Model) ScoreIDs(ctx context.Context, seqs [][]int32) (out []Score, err error) {
	defer engine.Guard(&err)
	if err := m.ready(ctx); err != nil {
		return nil, err
	}
	nll, err := m.eng.ScoreIDs(ctx, seqs)
	if err != nil {
		return nil, err
	}
	out = make([]Score, len(seqs))
	for i := range out {
		out[i] = Score{IDs: seqs[i], NLL: nll[i]}
	}
	return out, nil
}
