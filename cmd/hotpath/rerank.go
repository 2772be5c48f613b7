package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"hotpath"
)

// rerankBatch is how many documents are scored in one call: few enough that
// memory stays bounded and an interrupt is noticed.
const rerankBatch = 64

func newRerank(std streams) *cobra.Command {
	var mf modelFlags
	var tf textFlags
	var rf rankFlags
	var format formatFlag
	cmd := &cobra.Command{
		Use:   "rerank -m MODEL QUERY [DOCUMENT...]",
		Short: "Documents ranked by a cross-encoder, best first",
		Long: `Scores from a model that reads the query and a document together, which is
slower and finer than comparing vectors. Scores are from 0 to 1 unless the
model's files say otherwise.`,
		Example: `  hotpath rerank -m RERANKER "where is the harbour" "by the sea" "on the hill"
  hotpath rerank -m RERANKER "a question" -f texts.jsonl --top 3 --format jsonl`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := rf.check(args); err != nil {
				return err
			}
			in, err := tf.open(args[1:], std, rankedFields...)
			if err != nil {
				return err
			}
			defer in.close()
			return mf.with(cmd.Context(), std, hotpath.Options{}, func(ctx context.Context, m *hotpath.Model) error {
				r := ranking{top: rf.top}
				if err := rerankAll(ctx, m, args[0], in, &r); err != nil {
					return err
				}
				return r.write(std.out, format.value)
			})
		},
	}
	mf.addModel(cmd)
	tf.add(cmd)
	rf.add(cmd)
	format.add(cmd, "text", "json", "jsonl")
	mf.addCompute(cmd)
	return cmd
}

// rerankAll scores everything that the input has.
func rerankAll(ctx context.Context, m *hotpath.Model, query string, in *texts, r *ranking) error {
	scores := make([]float32, rerankBatch)
	var batch []text
	for {
		var err error
		if batch, err = in.next(ctx, batch[:0], rerankBatch, batchBytes); err != nil || len(batch) == 0 {
			return err
		}
		for _, t := range batch {
			if t.err != nil {
				return fmt.Errorf("%s: %w", t.where, t.err)
			}
		}
		if err := m.RerankInto(ctx, scores, query, bodies(batch)); err != nil {
			if errors.Is(err, hotpath.ErrUnsupported) || ctx.Err() != nil {
				return err
			}
			return fmt.Errorf("from %s on: %w", batch[0].where, err)
		}
		for i, t := range batch {
			r.add(t, scores[i])
		}
	}
}
