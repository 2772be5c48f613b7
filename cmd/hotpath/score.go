package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"hotpath"
	"hotpath/internal/builtin"
)

// scored is one answer of score.
type scored struct {
	Index int       `json:"index"`
	IDs   []int32   `json:"ids"`
	NLL   []float32 `json:"nll"`
	PPL   *float64  `json:"ppl"` // null for texts of fewer than two tokens
}

func newScore(std streams) *cobra.Command {
	var mf modelFlags
	var tf textFlags
	var format formatFlag
	var o hotpath.ScoreOptions
	var ctxTokens int
	cmd := &cobra.Command{
		Use:   "score [-m MODEL] [TEXT...]",
		Short: "Log likelihood of given texts",
		Long: `How likely a model finds each token of a text, given those before it:
nll[i] = -log p(ids[i+1] | ids[..i]), natural logarithm, and the perplexity,
exp of their mean. They do not depend on other texts. In jsonl a text that cannot
be scored is an object with "error", and the others continue; in other formats it
ends the work.`,
		Example: `  hotpath score -m MODEL "the cat sat on the mat" "mat the on sat cat the"
  hotpath score -m MODEL -f texts.jsonl --format jsonl
  printf 'one\ntwo\n' | hotpath score -m MODEL -f - --format jsonl`,
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := tf.open(cmd.Context(), args, std, "index", "ids", "nll", "ppl", "error")
			if err != nil {
				return err
			}
			defer in.close()
			if ctxTokens < 0 {
				return usagef("--ctx %d, expected 0 or more", ctxTokens)
			}
			return mf.with(cmd.Context(), std, hotpath.Options{Ctx: ctxTokens}, func(ctx context.Context, m *hotpath.Model) error {
				return answerAll(ctx, std.out, format.value, in, func(batch []text) ([]answer, error) {
					scores, err := m.Score(ctx, bodies(batch), o)
					if err != nil {
						return nil, err
					}
					out := make([]answer, len(batch))
					for i, s := range scores {
						out[i] = score(batch[i], s)
					}
					return out, nil
				})
			})
		},
	}
	mf.addModel(cmd, builtin.Generator)
	tf.addFlags(cmd)
	format.addFlag(cmd, "text", "json", "jsonl")
	mf.addCompute(cmd)
	fixInvariant(cmd)
	cmd.Flags().BoolVar(&o.Special, "special", false, "add the special tokens that the model's tokenizer adds")
	cmd.Flags().IntVar(&ctxTokens, "ctx", 0, "most `TOKENS` of a text; 0 for what the model has, at most 4096")
	return cmd
}

func score(t text, s hotpath.Score) answer {
	out := scored{Index: t.index, IDs: s.IDs, NLL: s.NLL}
	if out.IDs == nil {
		out.IDs = []int32{}
	}
	if out.NLL == nil {
		out.NLL = []float32{}
	}
	line := fmt.Sprintf("%d: no likelihood, %d tokens  %s", t.index, len(s.IDs), excerpt(t.body, 50))
	if len(s.NLL) > 0 {
		ppl := s.Perplexity()
		out.PPL = &ppl
		line = fmt.Sprintf("%d: perplexity %.3f, %d tokens  %s", t.index, ppl, len(s.IDs), excerpt(t.body, 50))
	}
	return answer{record: out, line: line}
}
