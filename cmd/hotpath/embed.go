package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"hotpath"
	"hotpath/internal/atomicfile"
	"hotpath/internal/builtin"
	"hotpath/internal/term"
)

// embedFlags are what embed knows besides the model and the texts.
type embedFlags struct {
	poolFlags
	quantize    string
	parallel    string
	batchTokens int
	out         string
	resume      bool
}

// poolFlags say how texts become vectors.
type poolFlags struct {
	pooling, task, prompt string
	normalize, truncate   bool
	dim                   int
	chunk                 bool
	chunkTokens, overlap  int
}

func (f *poolFlags) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.pooling, "pooling", "", "`POOLING`: mean, cls, last or another that models have; the model's own if not given")
	cmd.Flags().BoolVar(&f.normalize, "normalize", true, "make vectors unit length")
	cmd.Flags().IntVar(&f.dim, "dim", 0, "keep the first `N` dimensions, made unit length again; all if not given")
	cmd.Flags().StringVar(&f.task, "task", "", "put the model's prompt for `TASK` before each text: "+strings.Join(hotpath.Tasks(), ", "))
	cmd.Flags().StringVar(&f.prompt, "prompt", "", "put `PROMPT` before each text: the name of one of the model's own, or any text; \"\" for none")
	cmd.Flags().BoolVar(&f.truncate, "truncate", true, "cut texts that are too long; =false makes them an error")
	cmd.Flags().BoolVar(&f.chunk, "chunk", false, "split texts that are too long, and take the mean of the parts' vectors")
	cmd.Flags().IntVar(&f.chunkTokens, "chunk-tokens", 0, "split into parts of `N` tokens; 0 for as long as the model allows")
	cmd.Flags().IntVar(&f.overlap, "overlap", 0, "let neighbouring parts share `N` tokens")
}

// options holds flags against the model, and says what is unusual about them.
func (f *poolFlags) options(cmd *cobra.Command, m *hotpath.Model, std streams) (hotpath.EmbedOptions, error) {
	o := hotpath.EmbedOptions{
		Pooling: f.pooling, NoNormalize: !f.normalize, Dim: f.dim, Task: f.task,
		NoTruncate: !f.truncate, Chunk: f.chunk, ChunkTokens: f.chunkTokens, ChunkOverlap: f.overlap,
	}
	info, err := m.Info()
	if err != nil {
		return o, err
	}
	if cmd.Flags().Changed("prompt") {
		_, named := info.Prompts[f.prompt]
		switch {
		case f.prompt == "":
			o.NoPrompt = true
		case named:
			o.PromptName = f.prompt
		default:
			o.Prompt = f.prompt
			if len(info.Prompts) > 0 && !strings.ContainsAny(f.prompt, " :") {
				fmt.Fprintf(std.err, "hotpath: --prompt %q is no name of a prompt (the model has %s): it goes before each text as it stands\n", f.prompt, term.Printable(strings.Join(slices.Sorted(maps.Keys(info.Prompts)), ", ")))
			}
		}
	}
	if !cmd.Flags().Changed("dim") {
		return o, nil
	}
	switch trained := info.TrainedDims; {
	case f.dim > info.EmbedDim:
		return o, fmt.Errorf("--dim %d, expected 1 to %d, the model's dimension", f.dim, info.EmbedDim)
	case f.dim == m.Dim() || f.dim == info.EmbedDim || slices.Contains(trained, f.dim):
	case len(trained) > 0:
		fmt.Fprintf(std.err, "hotpath: the model was not trained for %d dimensions, but for %s\n", f.dim, strings.Trim(fmt.Sprint(trained), "[]"))
	default:
		fmt.Fprintf(std.err, "hotpath: nothing in the model's files says that it was trained for %d of its %d dimensions\n", f.dim, info.EmbedDim)
	}
	return o, nil
}

func (f *poolFlags) check(cmd *cobra.Command) error {
	switch {
	case cmd.Flags().Changed("dim") && f.dim < 1:
		return usagef("--dim %d, expected 1 or more", f.dim)
	case f.task != "" && f.prompt != "":
		return usagef("--task and --prompt exclude each other")
	case f.chunk && !f.truncate:
		return usagef("--chunk and --truncate=false exclude each other")
	case !f.chunk && (f.chunkTokens != 0 || f.overlap != 0):
		return usagef("--chunk-tokens and --overlap need --chunk")
	case f.chunkTokens < 0 || f.overlap < 0:
		return usagef("--chunk-tokens %d, --overlap %d, expected 0 or more", f.chunkTokens, f.overlap)
	}
	return nil
}

func (f *embedFlags) addFlags(cmd *cobra.Command) {
	f.poolFlags.addFlags(cmd)
	cmd.Flags().StringVar(&f.quantize, "quantize", "", "write vectors as `int8|binary|ubinary`")
	cmd.Flags().StringVar(&f.parallel, "parallel", "auto", "how threads share the work: `fine|coarse|auto`")
	cmd.Flags().IntVar(&f.batchTokens, "batch-tokens", 0, "`N` tokens per run; 0 chooses it")
	cmd.Flags().VarP(fileFlag(&f.out), "output", "o", "write to `FILE` atomically; its ending picks the format")
	cmd.Flags().BoolVar(&f.resume, "resume", false, "write FILE in place, and continue where an earlier run ended")
}

func (f *embedFlags) check(cmd *cobra.Command, format *vectorFormat) error {
	if err := f.poolFlags.check(cmd); err != nil {
		return err
	}
	switch {
	case findElement(f.quantize) == nil:
		return usagef("--quantize %q, expected int8, binary or ubinary", f.quantize)
	case !slices.Contains([]string{"auto", "fine", "coarse"}, f.parallel):
		return usagef("--parallel %q, expected fine, coarse or auto", f.parallel)
	case f.batchTokens < 0:
		return usagef("--batch-tokens %d, expected 0 or more", f.batchTokens)
	case f.resume && f.out == "":
		return usagef("--resume needs -o FILE")
	case f.resume && !format.lines && !format.rows:
		return usagef("--resume with --format %s, expected jsonl, csv, npy or bin", format.name)
	}
	return nil
}

// streams say whether somebody sees the vectors while they are made: -o names
// a file, or a terminal by its device.
func (f *embedFlags) streams(std streams) streams {
	if f.out == "" {
		return std
	}
	if info, err := os.Stat(f.out); err == nil && info.Mode()&os.ModeCharDevice != 0 && f.out != os.DevNull {
		return std
	}
	return std.resultsLater()
}

func newEmbed(std streams) *cobra.Command {
	var mf modelFlags
	var tf textFlags
	var ef embedFlags
	var format formatFlag
	cmd := &cobra.Command{
		Use:   "embed [-m MODEL] [TEXT...]",
		Short: "Texts to vectors",
		Long: `One vector per text, in input order. jsonl has one object per text; csv, npy and
bin (little-endian f32) have only numbers, one row per text. In jsonl a text that
cannot be embedded is an object with "error", and the others continue; in other
formats it ends the work. See docs/embedding.md.`,
		Example: `  hotpath embed -m MODEL "a sentence" "another one" --format jsonl
  hotpath embed -m MODEL -f texts.txt -o vectors.npy --resume
  printf 'one\ntwo\n' | hotpath embed -m MODEL -f - --format csv`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if ef.out != "" && !cmd.Flags().Changed("format") {
				ending := strings.TrimPrefix(filepath.Ext(ef.out), ".")
				if info, err := os.Stat(ef.out); err == nil && info.IsDir() {
					return fmt.Errorf("-o %w", atomicfile.Check(ef.out))
				}
				if !slices.Contains(formatNames(), ending) {
					return usagef("-o %s: its ending names no format, expected .%s, or --format", ef.out, strings.Join(formatNames()[1:], ", ."))
				}
				format.value = ending
			}
			if err := ef.check(cmd, findFormat(format.value)); err != nil {
				return err
			}
			in, err := tf.open(cmd.Context(), args, ef.streams(std), "index", "tokens", "chunks", "truncated", "scale", "embedding", "error")
			if err != nil {
				return err
			}
			defer in.close()
			if err := in.apart(ef.out); err != nil {
				return err
			}
			// A run that goes on must give the bits that one run would have given.
			mf.invariant = mf.invariant || ef.resume
			o := hotpath.Options{Parallel: ef.parallel, BatchTokens: ef.batchTokens}
			if !ef.resume { // the rest may be on another device than the beginning
				o.Expect = in.expect(0)
			}
			return mf.with(cmd.Context(), std, o, func(ctx context.Context, m *hotpath.Model) error {
				o, err := ef.options(cmd, m, std)
				if err != nil {
					return err
				}
				e := embedding{model: m, options: o, in: in}
				return e.embedTexts(ctx, &ef, findFormat(format.value), std)
			})
		},
	}
	mf.addModel(cmd, builtin.Embedder)
	tf.addFlags(cmd)
	format.addFlag(cmd, formatNames()...)
	ef.addFlags(cmd)
	mf.addCompute(cmd)
	return cmd
}

// embedding turns texts into written vectors.
type embedding struct {
	model   *hotpath.Model
	options hotpath.EmbedOptions
	in      *texts
	out     *vectorOutput
	resume  *resume // nil without --resume

	truncated int
	firstCut  string // where the first text that was cut stands
}

func (e *embedding) embedTexts(ctx context.Context, f *embedFlags, format *vectorFormat, std streams) (err error) {
	el := findElement(f.quantize)
	dim := e.model.Dim()
	if e.options.Dim > 0 {
		dim = e.options.Dim
	}
	var file outputFile
	switch {
	case f.resume:
		now, err := e.state(ctx, f, format)
		if err != nil {
			return err
		}
		row := el.width(dim)
		if el.descr == "<f4" {
			row *= 4
		}
		if e.resume, err = openResume(f.out, now, format, row); err != nil {
			return err
		}
		file = e.resume.file
	case f.out != "":
		if file, err = createOutput(ctx, f.out); err != nil {
			return fmt.Errorf("-o %w", err)
		}
	}
	if e.out, err = newVectorOutput(std.out, file, format, el, dim); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.out.close()) }()
	if e.resume != nil {
		e.out.n, e.out.failed = e.resume.skip, e.resume.state.Failed
	}
	defer e.in.progress.finish()
	if err := e.all(ctx); err != nil {
		if file == nil || e.resume != nil { // what came before is answered
			e.interrupted()
		}
		return err
	}
	if e.truncated > 0 { // nothing is cut in silence
		e.in.progress.finish()
		fmt.Fprintf(std.err, "hotpath: %d texts were too long and were cut, the first of them %s\n", e.truncated, e.firstCut)
	}
	return e.out.failures()
}

// all embeds what the input has and completes the output.
func (e *embedding) all(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var waiting fifo
	var skipped error
	source := func(yield func(string, error) bool) {
		for in := range e.in.each(ctx) {
			if e.resume != nil && in.index < e.resume.skip {
				if skipped = e.resume.addText(in); skipped != nil {
					return
				}
				e.in.progress.skip(in.size)
				e.in.progress.show()
				continue
			}
			if e.resume != nil && in.index == e.resume.skip {
				if skipped = e.resume.begin(); skipped != nil {
					return
				}
			}
			waiting.push(in)
			if !yield(in.body, in.err) {
				return
			}
		}
	}
	e.in.progress.begin()
	for v, err := range e.model.EmbedStream(ctx, source, e.options) {
		in, ok := waiting.pop()
		switch {
		case err != nil && !ok && errors.Is(err, hotpath.ErrInput):
			err = &usageError{err} // the options do not suit the model
		case err == nil || ok && ctx.Err() == nil && !errors.Is(err, hotpath.ErrUnsupported):
			err = e.write(in, v, err)
		}
		if err != nil {
			cancel() // the source may be waiting for input
			return err
		}
	}
	switch {
	case skipped != nil:
		return skipped
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case e.in.ended() != nil:
		return e.in.err
	}
	if e.resume == nil {
		return e.out.end()
	}
	return e.endResumed()
}

// write writes one answer, or the error in its place.
func (e *embedding) write(in text, v hotpath.Embedding, err error) error {
	if err != nil {
		err = e.out.fail(in, err)
	} else {
		err = e.out.write(in, v)
	}
	if err != nil {
		return err
	}
	e.in.progress.addDone(in.size, v.Tokens)
	if v.Truncated {
		if e.truncated++; e.truncated == 1 {
			e.firstCut = in.where
		}
	}
	if e.resume != nil {
		if err := e.resume.addText(in); err != nil {
			return err
		}
	}
	if v.Ready > 0 {
		return nil
	}
	e.in.progress.show()
	if err := e.out.flush(); err != nil || e.resume == nil {
		return err
	}
	return e.resume.checkpoint(e.out.n, e.out.failed)
}

// fifo holds texts between their way into the model and their answers.
type fifo struct {
	mu    sync.Mutex
	texts []text
}

func (f *fifo) push(t text) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.texts = append(f.texts, t)
}

func (f *fifo) pop() (t text, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.texts) == 0 {
		return t, false
	}
	t, f.texts[0] = f.texts[0], text{}
	f.texts = f.texts[1:]
	return t, true
}
