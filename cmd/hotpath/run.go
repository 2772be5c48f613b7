package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"hotpath"
	"hotpath/internal/builtin"
)

// completion is one answer of run.
type completion struct {
	Index            *int    `json:"index,omitempty"` // of jsonl
	Text             string  `json:"text"`
	IDs              []int32 `json:"ids"`
	PromptTokens     int     `json:"prompt_tokens"`
	CompletionTokens int     `json:"completion_tokens"`
	FinishReason     string  `json:"finish_reason"` // stop or length
	Seed             uint64  `json:"seed"`
	Timing           timing  `json:"timing"`
}

type timing struct {
	Load        float64 `json:"load_ms"`
	Prefill     float64 `json:"prefill_ms"`
	Decode      float64 `json:"decode_ms"`
	PrefillRate float64 `json:"prefill_tok_s"`
	DecodeRate  float64 `json:"decode_tok_s"`
}

// runFlags are what run knows besides the model and the prompt.
type runFlags struct {
	prompt  string
	options hotpath.GenerateOptions
	ctx     int
	kvType  string
}

func (f *runFlags) addFlags(cmd *cobra.Command) {
	o := &f.options
	cmd.Flags().StringVarP(&f.prompt, "prompt", "p", "", "the `PROMPT`; arguments and -f FILE work too")
	cmd.Flags().IntVarP(&o.MaxTokens, "tokens", "n", 256, "generate at most `N` tokens; 0 until the context is full")
	cmd.Flags().Float32Var(&o.Temperature, "temp", 0.8, "`TEMPERATURE`; 0 takes the most probable token each time")
	cmd.Flags().IntVar(&o.TopK, "top-k", 40, "draw from the `K` most probable tokens; 0 for all")
	cmd.Flags().Float32Var(&o.TopP, "top-p", 0.95, "draw from the tokens that make up this share `P` of the probability; 1 for all")
	cmd.Flags().Float32Var(&o.MinP, "min-p", 0.05, "leave out tokens less probable than this share `P` of the best; 0 for none")
	cmd.Flags().Float32Var(&o.RepeatPenalty, "repeat-penalty", 1, "divide the logits of tokens that occur by `R`; 1 for none")
	cmd.Flags().Float32Var(&o.PresencePenalty, "presence-penalty", 0, "subtract `P` from the logits of tokens that occur")
	cmd.Flags().Float32Var(&o.FrequencyPenalty, "frequency-penalty", 0, "subtract `F` from the logit of a token as often as it occurs")
	cmd.Flags().IntVar(&o.PenaltyTokens, "repeat-last-n", 64, "penalties count the last `N` tokens, prompt included; -1 for all")
	cmd.Flags().Uint64Var(&o.Seed, "seed", 0, "equal `SEED`s draw equal tokens from equal logits (see --invariant); a random one if not given")
	cmd.Flags().StringArrayVar(&o.Stop, "stop", nil, "end at this `STRING`; may be given several times")
	cmd.Flags().BoolVar(&o.IgnoreEOS, "ignore-eos", false, "continue where the model would end")
	cmd.Flags().IntVar(&f.ctx, "ctx", 0, "`TOKENS` of context, prompt included; 0 for what the model has, at most 4096")
	cmd.Flags().StringVar(&f.kvType, "kv-type", "", "keep keys and values as `f32|f16|q8_0`; f16 unless --precision is f32")
	cmd.Flags().BoolVar(&o.Raw, "raw", false, "use the prompt without the model's chat template")
}

func (f *runFlags) check() error {
	o := &f.options
	for _, c := range []struct {
		bad      bool
		flag     string
		value    any
		expected string
	}{
		{o.MaxTokens < 0, "-n", o.MaxTokens, "0 or more"},
		{!(o.Temperature >= 0 && o.Temperature <= 100), "--temp", o.Temperature, "0 to 100"},
		{o.TopK < 0, "--top-k", o.TopK, "0 or more"},
		{!(o.TopP >= 0 && o.TopP <= 1), "--top-p", o.TopP, "0 to 1"},
		{!(o.MinP >= 0 && o.MinP <= 1), "--min-p", o.MinP, "0 to 1"},
		{!(o.RepeatPenalty >= 0.01 && o.RepeatPenalty <= 100), "--repeat-penalty", o.RepeatPenalty, "0.01 to 100"},
		{!(o.PresencePenalty >= -100 && o.PresencePenalty <= 100), "--presence-penalty", o.PresencePenalty, "-100 to 100"},
		{!(o.FrequencyPenalty >= -100 && o.FrequencyPenalty <= 100), "--frequency-penalty", o.FrequencyPenalty, "-100 to 100"},
		{o.PenaltyTokens < -1 || o.PenaltyTokens == 0, "--repeat-last-n", o.PenaltyTokens, "1 or more, or -1 for all"},
		{f.ctx < 0, "--ctx", f.ctx, "0 or more"},
		{!slices.Contains([]string{"", "f32", "f16", "q8_0"}, f.kvType), "--kv-type", f.kvType, "f32, f16 or q8_0"},
	} {
		if c.bad {
			return usagef("%s %v, expected %s", c.flag, c.value, c.expected)
		}
	}
	return nil
}

func newRun(std streams) *cobra.Command {
	var mf modelFlags
	var tf textFlags
	var rf runFlags
	var format formatFlag
	cmd := &cobra.Command{
		Use:   "run [-m MODEL] -p PROMPT",
		Short: "A completion, streamed",
		Long: `Continue a prompt. An instruct model gets it through its chat template, unless
--raw is set. Text is streamed as it comes. Several prompts (arguments, or -f FILE)
are computed as one batch and answered in input order. A prompt joins the batch
when it is read and leaves it when its answer ends. Other prompts of the batch
can change the last bits of its logits, unless --invariant is set. Equal files of
up to 256 prompts make equal batches; longer ones may differ from run to run.`,
		Example: `  hotpath run -m MODEL -p "Why is the sky blue?"
  hotpath run -m MODEL --raw --temp 0 -n 20 -p "Once upon a time"
  hotpath run -m MODEL -f prompts.jsonl --seed 7 --format jsonl`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := rf.check(); err != nil {
				return err
			}
			if cmd.Flags().Changed("prompt") {
				if len(args) > 0 {
					return usagef("a prompt comes from -p or from arguments, not from both")
				}
				args = []string{rf.prompt}
			}
			in, err := tf.open(cmd.Context(), args, std, "index", "text", "ids", "prompt_tokens", "completion_tokens", "finish_reason", "seed", "timing", "error")
			if err != nil {
				return err
			}
			defer in.close()
			if !cmd.Flags().Changed("seed") {
				rf.options.Seed = rand.Uint64() >> 11 // JSON readers keep 53 bits
			}
			return mf.with(cmd.Context(), std, hotpath.Options{Ctx: rf.ctx, KVType: rf.kvType, Prepare: true, Expect: in.expect(rf.longest())}, func(ctx context.Context, m *hotpath.Model) error {
				if format.value == "text" {
					return streamAll(ctx, std, m, in, rf.options)
				}
				return completeAll(ctx, std.out, m, in, rf.options, format.value)
			})
		},
	}
	mf.addModel(cmd, builtin.Generator)
	tf.addFlags(cmd)
	format.addFlag(cmd, "text", "json", "jsonl")
	rf.addFlags(cmd)
	mf.addCompute(cmd)
	return cmd
}

// longest is the number of tokens of the longest answer that may come.
func (f *runFlags) longest() int {
	switch {
	case f.options.MaxTokens > 0:
		return f.options.MaxTokens
	case f.ctx > 0:
		return f.ctx
	}
	return usualContext
}

// usualContext is about what models have.
const usualContext = 4096

// streamAll writes text as it comes, and what it cost to standard error.
func streamAll(ctx context.Context, std streams, m *hotpath.Model, in *texts, o hotpath.GenerateOptions) error {
	w := bufio.NewWriter(std.out)
	return eachAnswer(ctx, m, in, o, func(g *generating) error {
		for tok := range g.tokens {
			w.WriteString(tok.Text)
			if err := w.Flush(); err != nil {
				return err
			}
		}
		if g.err != nil {
			return fmt.Errorf("%s: %w", g.where, g.err)
		}
		w.WriteByte('\n')
		if err := w.Flush(); err != nil {
			return err
		}
		in.progress.clear()
		c := &g.answer
		_, err := fmt.Fprintf(std.err, "prompt %d tokens, %.0f tok/s; answer %d tokens, %.1f tok/s; %s\n",
			c.PromptTokens, c.PrefillRate(), c.CompletionTokens, c.DecodeRate(), c.FinishReason)
		return err
	})
}

// completeAll writes an object a prompt. One document has one prompt's object,
// or an array of them.
func completeAll(ctx context.Context, w io.Writer, m *hotpath.Model, in *texts, o hotpath.GenerateOptions, format string) error {
	out := newAnswers(w, format)
	out.rec.array = out.rec.array && in.several
	err := eachAnswer(ctx, m, in, o, func(g *generating) error {
		for range g.tokens { // to its end
		}
		if g.err != nil && g.text.err == nil && !ofOneText(ctx, g.err) {
			return fmt.Errorf("%s: %w", g.where, g.err)
		}
		record := completed(g.answer, o.Seed)
		if format == "jsonl" || in.several {
			record.Index = &g.index
		}
		return errors.Join(out.write(g.text, answer{record: record, err: g.err}), out.rec.flush())
	})
	if err != nil {
		return err
	}
	return out.end()
}

func completed(c hotpath.Completion, seed uint64) *completion {
	out := &completion{
		Text: c.Text, IDs: c.IDs, PromptTokens: c.PromptTokens, CompletionTokens: c.CompletionTokens,
		FinishReason: c.FinishReason, Seed: seed,
		Timing: timing{
			Load: milliseconds(c.Timing.Load), Prefill: milliseconds(c.Timing.Prefill), Decode: milliseconds(c.Timing.Decode),
			PrefillRate: c.PrefillRate(), DecodeRate: c.DecodeRate(),
		},
	}
	if out.IDs == nil {
		out.IDs = []int32{}
	}
	return out
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
