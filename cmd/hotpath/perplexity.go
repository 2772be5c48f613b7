package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"hotpath"
	"hotpath/internal/builtin"
)

// maxCorpus bounds the text of perplexity, which is tokenized as a whole.
const maxCorpus = 1 << 30 // bytes

// perplexityResult is the answer of perplexity.
type perplexityResult struct {
	PPL     float64 `json:"ppl"`
	Tokens  int     `json:"tokens"` // in the windows
	Windows int     `json:"windows"`
	Ctx     int     `json:"ctx"`
	Scored  int     `json:"scored"` // tokens that the perplexity is of
}

func newPerplexity(std streams) *cobra.Command {
	var mf modelFlags
	var format formatFlag
	var file string
	var o hotpath.PerplexityOptions
	cmd := &cobra.Command{
		Use:   "perplexity [-m MODEL] -f FILE",
		Short: "Perplexity of a corpus, windowed",
		Long: `How well a model predicts a long text: exp of the mean of -log p of its tokens.

The text is cut into windows of --ctx tokens, and the second half of each is
scored, as llama.cpp does, so that every token scored has half a window before
it. With --stride windows overlap, and each token is scored once, in the first
window that has it.`,
		Example: `  hotpath perplexity -m MODEL -f corpus.txt --ctx 64
  hotpath perplexity -m MODEL -f corpus.txt --ctx 64 --stride 32 --format json`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case file == "":
				return usagef("-f FILE is missing")
			case o.Ctx < 4:
				return usagef("--ctx %d, expected at least 4", o.Ctx)
			case o.Stride < 0 || o.Stride >= o.Ctx:
				return usagef("--stride %d, expected 0 or fewer than the %d tokens of a window", o.Stride, o.Ctx)
			case o.Windows < 0:
				return usagef("--windows %d, expected 0 or more", o.Windows)
			}
			text, err := waitFor(cmd.Context(), func() (string, error) { return readCorpus(file, std.in) })
			if err != nil {
				return err
			}
			err = mf.with(cmd.Context(), std, hotpath.Options{Ctx: o.Ctx}, func(ctx context.Context, m *hotpath.Model) error {
				var bar *progress
				tokens, start := 0, time.Now()
				o.Progress = func(p hotpath.Perplexity) {
					if bar == nil {
						if bar = newCount(p.Of, std.resultsLater()); bar != nil {
							bar.start = start // the first window is done
						}
					}
					bar.addDone(1, p.Tokens-tokens)
					bar.show()
					tokens = p.Tokens
				}
				p, err := m.Perplexity(ctx, text, o)
				bar.finish()
				if err != nil {
					return fmt.Errorf("%s: %w", file, err)
				}
				if format.value == "json" {
					return encodeJSON(std.out, perplexityResult{p.PPL, p.Tokens, p.Windows, p.Ctx, p.Scored})
				}
				_, err = fmt.Fprintf(std.out, "perplexity %.4f, %d tokens scored in %d windows of %d\n", p.PPL, p.Scored, p.Windows, p.Ctx)
				return err
			})
			if errors.Is(err, hotpath.ErrInput) {
				return cmp.Or(noLikelihoods(mf.model), err)
			}
			return err
		},
	}
	mf.addModel(cmd, builtin.Generator)
	cmd.Flags().VarP(fileFlag(&file), "file", "f", "the text is in `FILE`, - for standard input")
	cmd.Flags().IntVar(&o.Ctx, "ctx", 512, "windows of `TOKENS`")
	cmd.Flags().IntVar(&o.Stride, "stride", 0, "windows begin `TOKENS` apart and overlap; 0 for windows side by side, the second half of each scored")
	cmd.Flags().IntVar(&o.Windows, "windows", 0, "at most `N` windows; 0 for all")
	format.addFlag(cmd, "text", "json")
	mf.addCompute(cmd)
	fixInvariant(cmd)
	return cmd
}

// noLikelihoods is the error of a model that computes none. Its context does not
// matter then: a model is opened with --ctx, and may have fewer positions.
func noLikelihoods(model string) error {
	about, err := describe(model)
	if err != nil || about.Generates {
		return nil
	}
	return fmt.Errorf("%s: %w: %s models compute no likelihoods", model, hotpath.ErrUnsupported, about.Arch)
}

// readCorpus reads a text as a whole.
func readCorpus(file string, stdin io.Reader) (string, error) {
	from := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", err
		}
		defer f.Close()
		from = f
	}
	data, err := io.ReadAll(io.LimitReader(from, maxCorpus+1))
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	if len(data) > maxCorpus {
		return "", fmt.Errorf("%s: more than %d bytes, expected a smaller file", file, maxCorpus)
	}
	return string(data), nil
}
