package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"hotpath"
)

// embedFlags are what embed knows besides the model and the texts.
type embedFlags struct {
	pooling, parallel string
	normalize         bool
	truncate          bool
	batchTokens       int
}

func (f *embedFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.pooling, "pooling", "", "`POOLING`: mean, cls or last; the model's own if not given")
	cmd.Flags().BoolVar(&f.normalize, "normalize", true, "make vectors unit length")
	cmd.Flags().BoolVar(&f.truncate, "truncate", true, "cut texts that are too long; =false makes them an error")
	cmd.Flags().StringVar(&f.parallel, "parallel", "auto", "how threads share the work: `fine|coarse|auto`")
	cmd.Flags().IntVar(&f.batchTokens, "batch-tokens", 0, "tokens of one run; 0 for a good `N`")
}

func (f *embedFlags) check() error {
	switch {
	case !slices.Contains([]string{"", "mean", "cls", "last"}, f.pooling):
		return usagef("--pooling %q, expected mean, cls or last", f.pooling)
	case !slices.Contains([]string{"auto", "fine", "coarse"}, f.parallel):
		return usagef("--parallel %q, expected fine, coarse or auto", f.parallel)
	case f.batchTokens < 0:
		return usagef("--batch-tokens %d, expected 0 or more", f.batchTokens)
	}
	return nil
}

func newEmbed(std streams) *cobra.Command {
	var mf modelFlags
	var tf textFlags
	var ef embedFlags
	var format formatFlag
	cmd := &cobra.Command{
		Use:   "embed -m MODEL [TEXT...]",
		Short: "Texts to vectors",
		Long: `One vector a text, in input order. jsonl has an object a text; csv, npy and bin
(little-endian f32) have the numbers only, one row a text.`,
		Example: `  hotpath embed -m MODEL "a sentence" "another one" --format jsonl
  hotpath embed -m MODEL -f texts.txt --format npy > vectors.npy
  printf 'one\ntwo\n' | hotpath embed -m MODEL -f - --format csv`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := ef.check(); err != nil {
				return err
			}
			in, err := tf.open(args, std, "index", "tokens", "embedding")
			if err != nil {
				return err
			}
			defer in.close()
			o := hotpath.Options{Parallel: ef.parallel, BatchTokens: ef.batchTokens}
			return mf.with(cmd.Context(), std, o, func(ctx context.Context, m *hotpath.Model) error {
				w, err := newVectorWriter(std.out, format.value)
				if err != nil {
					return err
				}
				e := embedding{model: m, options: hotpath.EmbedOptions{
					Pooling: ef.pooling, NoNormalize: !ef.normalize, NoTruncate: !ef.truncate,
				}}
				if err := e.all(ctx, in, w); err != nil {
					return err
				}
				return e.warn(std.err)
			})
		},
	}
	mf.addModel(cmd)
	tf.add(cmd)
	format.add(cmd, vectorFormats...)
	ef.add(cmd)
	mf.addCompute(cmd)
	return cmd
}

// embedding turns batches of texts into written vectors.
type embedding struct {
	model     *hotpath.Model
	options   hotpath.EmbedOptions
	truncated int
	firstCut  string // where the first text that was cut stands
}

// embedded is a batch with its vectors.
type embedded struct {
	in      []text
	vectors []vector
	err     error // what came after them
}

type vector struct {
	values []float32
	tokens int
}

// all writes one batch while the next one is computed, so that printing
// numbers costs no time where there is a second core.
func (e *embedding) all(ctx context.Context, in *texts, w vectorWriter) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan embedded)
	go func() {
		defer close(done)
		for {
			batch, err := in.next(ctx, nil, batchTexts, batchBytes)
			if err == nil && len(batch) == 0 {
				return
			}
			out := embedded{in: batch, err: err}
			if err == nil {
				out.vectors, out.err = eachWhereNeeded(ctx, batch, func(b []text) ([]vector, error) { return e.embed(ctx, b) })
			}
			done <- out
			if out.err != nil {
				return
			}
		}
	}()
	var failed error
	for out := range done {
		if failed == nil {
			failed = errors.Join(writeBatch(w, out), out.err)
			if failed != nil {
				cancel(failed)
			}
		}
	}
	if failed != nil {
		return failed
	}
	return w.end()
}

func writeBatch(w vectorWriter, out embedded) error {
	for i, v := range out.vectors {
		if err := w.write(out.in[i], v.tokens, v.values); err != nil {
			return err
		}
	}
	return w.flush()
}

func (e *embedding) embed(ctx context.Context, batch []text) ([]vector, error) {
	var usage hotpath.EmbedUsage
	o := e.options
	o.Usage = &usage
	values, err := e.model.Embed(ctx, bodies(batch), o)
	if err != nil {
		return nil, err
	}
	out := make([]vector, len(batch))
	for i := range out {
		out[i] = vector{values[i], usage.Tokens[i]}
	}
	if n := len(usage.Truncated); n > 0 {
		if e.truncated == 0 {
			e.firstCut = batch[usage.Truncated[0]].where
		}
		e.truncated += n
	}
	return out, nil
}

// warn says that texts were cut: nothing is cut in silence.
func (e *embedding) warn(w io.Writer) error {
	if e.truncated == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "hotpath: %d texts were too long and were cut, the first of them %s\n", e.truncated, e.firstCut)
	return err
}
