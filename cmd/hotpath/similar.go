package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"hotpath"
	"hotpath/internal/builtin"
)

// rankFlags are those of the commands that rank texts against a query.
type rankFlags struct{ top int }

func (f *rankFlags) addFlags(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.top, "top", 10, "show the best `N`")
}

func (f *rankFlags) check(args []string) error {
	switch {
	case len(args) == 0:
		return usagef("no query: it is the first argument")
	case f.top < 1:
		return usagef("--top %d, expected 1 or more", f.top)
	}
	return nil
}

func newSimilar(std streams) *cobra.Command {
	var mf modelFlags
	var tf textFlags
	var rf rankFlags
	var format formatFlag
	var prompts bool
	var dim int
	cmd := &cobra.Command{
		Use:   "similar [-m MODEL] QUERY [TEXT...]",
		Short: "Texts ranked by similarity to a query",
		Long: `The texts that are most similar to a query, best first, by the cosine of their
vectors. A file of any length is read once, in bounded memory. The model's
prompts for queries and documents are used if it has any.`,
		Example: `  hotpath similar -m MODEL "where is the harbour" -f texts.txt --top 3
  hotpath similar -m MODEL "a question" -f texts.jsonl --format jsonl
  hotpath similar -m MODEL "rain" "it pours" "the sun is out"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := rf.check(args); err != nil {
				return err
			}
			if cmd.Flags().Changed("dim") && dim < 1 {
				return usagef("--dim %d, expected 1 or more", dim)
			}
			in, err := tf.open(cmd.Context(), args[1:], std.resultsLater(), rankedFields...)
			if err != nil {
				return err
			}
			defer in.close()
			return mf.with(cmd.Context(), std, hotpath.Options{}, func(ctx context.Context, m *hotpath.Model) error {
				if cmd.Flags().Changed("dim") {
					info, err := m.Info()
					if err != nil {
						return err
					}
					if dim > info.EmbedDim {
						return fmt.Errorf("--dim %d, expected 1 to %d, the model's dimension", dim, info.EmbedDim)
					}
				}
				s := similarity{model: m, in: in, ranking: ranking{top: rf.top}, prompts: prompts, dim: dim}
				if err := s.rankTexts(ctx, args[0]); err != nil {
					return err
				}
				if s.truncated > 0 {
					fmt.Fprintf(std.err, "hotpath: %d texts were too long and were cut\n", s.truncated)
				}
				return s.ranking.write(std.out, format.value)
			})
		},
	}
	mf.addModel(cmd, builtin.Embedder)
	tf.addFlags(cmd)
	rf.addFlags(cmd)
	format.addFlag(cmd, "text", "json", "jsonl")
	cmd.Flags().BoolVar(&prompts, "prompts", true, "use the model's prompts for queries and documents, if it has any")
	cmd.Flags().IntVar(&dim, "dim", 0, "compare the first `N` dimensions; all if not given")
	mf.addCompute(cmd)
	return cmd
}

// similarity ranks texts against a query.
type similarity struct {
	model     *hotpath.Model
	in        *texts
	ranking   ranking
	prompts   bool
	dim       int
	truncated int
}

func (s *similarity) rankTexts(ctx context.Context, query string) error {
	info, err := s.model.Info()
	if err != nil {
		return err
	}
	asked := hotpath.EmbedOptions{Dim: s.dim, NoPrompt: !s.prompts}
	given := asked
	if s.prompts {
		asked.Task, given.Task = taskOf(info, "query"), taskOf(info, "document")
	}
	vs, err := s.model.Embed(ctx, []string{query}, asked)
	if err != nil {
		return queryError(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var waiting fifo
	source := func(yield func(string, error) bool) {
		for in := range s.in.each(ctx) {
			waiting.push(in)
			if !yield(in.body, in.err) {
				return
			}
		}
	}
	s.in.progress.begin()
	defer s.in.progress.finish()
	for v, err := range s.model.EmbedStream(ctx, source, given) {
		in, ok := waiting.pop()
		if err != nil {
			cancel() // the source may be waiting for input
			if ok && !errors.Is(err, hotpath.ErrUnsupported) {
				err = fmt.Errorf("%s: %w", in.where, err)
			}
			return err
		}
		s.in.progress.addDone(in.size, v.Tokens)
		if v.Ready == 0 {
			s.in.progress.show()
		}
		if v.Truncated {
			s.truncated++
		}
		s.ranking.addScore(in, dot(vs[0], v.Vector))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.in.ended()
}

// queryError says that it is the query that a model cannot embed. The query is
// the only text of its call, so its number says nothing.
func queryError(err error) error {
	if errors.Is(err, hotpath.ErrUnsupported) { // whatever the query is
		return err
	}
	if inner := errors.Unwrap(err); inner != nil && strings.HasPrefix(err.Error(), "text 1: ") {
		err = inner
	}
	return fmt.Errorf("query: %w", err)
}

// taskOf is the task, where the model has a prompt for it.
func taskOf(info hotpath.Info, task string) string {
	if _, ok := info.TaskPrompts[task]; ok {
		return task
	}
	return ""
}

// dot is the cosine of vectors of unit length.
func dot(a, b []float32) float32 {
	var sum float64
	for i, x := range a {
		sum += float64(x) * float64(b[i])
	}
	return float32(math.Max(-1, math.Min(1, sum)))
}
