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
	var truncate bool
	cmd := &cobra.Command{
		Use:   "rerank -m MODEL QUERY [DOCUMENT...]",
		Short: "Documents ranked by a cross-encoder, best first",
		Long: `Scores from a model that reads the query and a document together, which is
slower and more exact than comparing vectors. Scores are from 0 to 1 unless the
model's files say otherwise.`,
		Example: `  hotpath rerank -m RERANKER "where is the harbour" "by the sea" "on the hill"
  hotpath rerank -m RERANKER "a question" -f texts.jsonl --top 3 --format jsonl`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := rf.check(args); err != nil {
				return err
			}
			in, err := tf.open(cmd.Context(), args[1:], std.resultsLater(), rankedFields...)
			if err != nil {
				return err
			}
			defer in.close()
			return mf.with(cmd.Context(), std, hotpath.Options{}, func(ctx context.Context, m *hotpath.Model) error {
				r := ranking{top: rf.top}
				cut := cutTexts{refuse: !truncate}
				if err := rerankAll(ctx, m, args[0], in, &r, &cut); err != nil {
					return err
				}
				if cut.n > 0 { // nothing is cut in silence
					fmt.Fprintf(std.err, "hotpath: %d documents were too long with the query and were cut, the first of them %s\n", cut.n, cut.first)
				}
				return r.write(std.out, format.value)
			})
		},
	}
	mf.addModel(cmd, "")
	tf.addFlags(cmd)
	rf.addFlags(cmd)
	format.addFlag(cmd, "text", "json", "jsonl")
	cmd.Flags().BoolVar(&truncate, "truncate", true, "cut documents that are too long with the query; =false makes them an error")
	mf.addCompute(cmd)
	return cmd
}

// cutTexts counts documents that are too long, or refuses them.
type cutTexts struct {
	refuse bool
	n      int
	first  string // where the first of them is
}

// rerankAll scores everything that the input has.
func rerankAll(ctx context.Context, m *hotpath.Model, query string, in *texts, r *ranking, cut *cutTexts) error {
	in.progress.begin()
	defer in.progress.finish()
	scores, truncated := make([]float32, rerankBatch), []int(nil)
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
		err = m.RerankInto(ctx, scores, query, bodies(batch), hotpath.RerankOptions{NoTruncate: cut.refuse, Truncated: &truncated})
		if long := (*hotpath.TooLongError)(nil); errors.As(err, &long) {
			return fmt.Errorf("%s: %w: %d tokens with the query, expected at most %d", batch[long.Index].where, hotpath.ErrTooLong, long.Tokens, long.Max)
		}
		if err != nil {
			if errors.Is(err, hotpath.ErrUnsupported) || ctx.Err() != nil {
				return err
			}
			return fmt.Errorf("from %s on: %w", batch[0].where, err)
		}
		if len(truncated) > 0 && cut.n == 0 {
			cut.first = batch[truncated[0]].where
		}
		cut.n += len(truncated)
		for i, t := range batch {
			r.addScore(t, scores[i])
		}
	}
}
