package train

import (
	"fmt"
	"math/rand/v2"

	"hotpath/internal/graph"
	"hotpath/internal/model"
	"hotpath/internal/tensor"
)

// lm predicts the next token. Where the data mark answers, only their tokens
// are targets: that is supervised fine-tuning.
type lm struct{ alone }

func newLM(s setting) (objective, error) {
	if c := s.model.Config(); !c.CanGenerate {
		return nil, fmt.Errorf("type %s: this %s model predicts no next tokens and cannot be trained for it, expected a decoder: %w", s.cfg.Objective.name(), c.Arch, ErrConfig)
	}
	return &lm{}, nil
}

// sft is lm on answers only: data that mark none are refused.
type sft struct{ lm }

func newSFT(s setting) (objective, error) {
	if _, err := newLM(s); err != nil {
		return nil, err
	}
	return &sft{}, nil
}

func (*sft) kinds() []Kind { return []Kind{Answer} }

func (*lm) kinds() []Kind { return []Kind{Text, Answer} }

func (*lm) build(t *model.Trainee) *graph.Value { return t.NextToken() }

// most: the last token of an example is a target only.
func (*lm) most(tokens int, s Stats) tensor.Bind {
	n := int(min(int64(tokens), s.Tokens-int64(s.Examples)))
	return tensor.Bind{T: n, S: min(n, s.Examples), R: n}
}

func (*lm) size(e *Example) (tensor.Bind, int) {
	n, terms := len(e.Seqs[0].IDs)-1, 0
	for i := range n {
		if learns(e.Seqs[0].Learn, i+1) {
			terms++
		}
	}
	return tensor.Bind{T: n, S: 1, R: terms}, terms
}

// learns reports whether token i is a target.
func learns(marks []bool, i int) bool { return marks == nil || marks[i] }

func (*lm) put(in *inputs, e *Example, _ *rand.Rand) {
	s := &e.Seqs[0]
	at := in.sequence(s, len(s.IDs)-1)
	for i, id := range s.IDs[1:] {
		if learns(s.Learn, i+1) {
			in.Target(at+i, id)
		}
	}
}
