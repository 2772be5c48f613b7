package train

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"

	"hotpath/internal/graph"
	"hotpath/internal/model"
	"hotpath/internal/tensor"
	"hotpath/internal/tokenizer"
)

// mlm predicts masked tokens of an encoder as BERT does: of the tokens chosen
// in a text, 80 per cent become the mask, 10 per cent another token, and 10 per
// cent stay. Special tokens are never chosen.
type mlm struct {
	alone
	rate  float64
	mask  int32
	vocab int
	tok   *tokenizer.Tokenizer
	at    []int // places that may be chosen
}

func newMLM(s setting) (objective, error) {
	tok, err := s.model.Tokenizer()
	if err != nil {
		return nil, err
	}
	mask, ok := tok.MASK()
	if !ok {
		return nil, fmt.Errorf("type mlm: the tokenizer of %s has no mask token: %w", s.model.Store().Path(), ErrConfig)
	}
	return &mlm{rate: cmp.Or(s.cfg.Objective.MaskRate, 0.15), mask: mask, vocab: s.model.Config().Vocab, tok: tok}, nil
}

func (*mlm) kinds() []Kind { return []Kind{Text} }

func (*mlm) build(t *model.Trainee) *graph.Value {
	logits := t.MaskedLM()
	t.Ports.Targets = t.Input("targets", tensor.I32, tensor.Rows(tensor.Of(tensor.R, 1)))
	nll, _ := t.SmoothedCrossEntropy("cross_entropy", logits, t.Ports.Targets, t.Ports.Smoothing)
	return t.Mean("loss", nll, t.Ports.Targets)
}

func (o *mlm) most(tokens int, s Stats) tensor.Bind {
	n := int(min(int64(tokens), s.Tokens))
	seqs := min(n, s.Examples)
	return tensor.Bind{T: n, S: seqs, R: int(o.rate*float64(n)) + seqs}
}

// chosen is how many of n tokens are predicted: as many as BERT's own recipe
// chooses.
func (o *mlm) chosen(n int) int {
	if n == 0 {
		return 0
	}
	return max(1, int(math.Round(o.rate*float64(n))))
}

func (o *mlm) size(e *Example) (tensor.Bind, int) {
	k := o.chosen(o.places(e.Seqs[0].IDs))
	return tensor.Bind{T: len(e.Seqs[0].IDs), S: 1, R: k}, k
}

// places finds the tokens that may be chosen and counts them.
func (o *mlm) places(ids []int32) int {
	o.at = o.at[:0]
	for i, id := range ids {
		if !o.tok.IsSpecial(id) {
			o.at = append(o.at, i)
		}
	}
	return len(o.at)
}

func (o *mlm) put(in *inputs, e *Example, rng *rand.Rand) {
	s := &e.Seqs[0]
	first := in.sequence(s, len(s.IDs))
	n := o.places(s.IDs)
	for i := range o.chosen(n) {
		j := i + rng.IntN(n-i)
		o.at[i], o.at[j] = o.at[j], o.at[i]
		at := o.at[i]
		in.Target(first+at, s.IDs[at])
		switch u := rng.Float64(); {
		case u < 0.8:
			in.Tokens[first+at] = o.mask
		case u < 0.9:
			in.Tokens[first+at] = int32(rng.IntN(o.vocab))
		}
	}
}
