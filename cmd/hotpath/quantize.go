package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hotpath/internal/quant"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

func newQuantize(std streams) *cobra.Command {
	var f quantFlags
	cmd := &cobra.Command{
		Use:   "quantize IN OUT TYPE",
		Short: "Make a smaller GGUF file from a GGUF file",
		Long: `quantize writes the model IN, a GGUF file, the first one of a split set or the
name of a pulled model, to OUT with its matrices in the encodings of TYPE.
Norms, biases and other small tensors stay unchanged. Sensitive roles get more
bits, as in llama.cpp. Rows that are not whole blocks of 256 get an encoding with
blocks of 32. Start from F32, F16 or BF16: quantizing twice loses twice.

` + mixList(),
		Example: `  hotpath quantize model.gguf smaller.gguf Q4_K_M
  hotpath quantize model.gguf smaller.gguf Q8_0 --threads 2
  hotpath quantize model.gguf wider.gguf F32 --format json`,
		Args: fileArgs(cobra.ExactArgs(3), "IN", "OUT", ""),
		RunE: func(cmd *cobra.Command, given []string) (err error) {
			mix, opts, err := f.options(given[2])
			if err != nil {
				return err
			}
			in, err := openStore(cmd.Context(), given[0])
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, in.Close()) }()
			finish := showBytes(std, "quantizing", &opts)
			sum, err := quant.File(cmd.Context(), in, given[1], mix, opts)
			finish()
			if err != nil {
				return err
			}
			return f.report(std, given[1], sum)
		},
	}
	f.addFlags(cmd)
	cmd.Flags().BoolVar(&f.keepOutput, "keep-output", false, "keep the encoding of output.weight")
	return cmd
}

// openStore opens the files of a model, given by its path or its name.
func openStore(ctx context.Context, name string) (*weights.Store, error) {
	path, err := modelPath(ctx, name)
	if err != nil {
		return nil, err
	}
	in, err := weights.Open(path)
	if err != nil {
		return nil, notPulled(name, err)
	}
	return in, nil
}

// quantFlags are those of commands that write a GGUF file.
type quantFlags struct {
	importance, output, embedding string
	threads                       int
	pure, keepOutput              bool
	format                        formatFlag
}

func (f *quantFlags) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Var(fileFlag(&f.importance), "imatrix", "importance matrix `FILE`, as llama.cpp makes them")
	flags.Var(filledFlag{&f.output, "the name of an encoding"}, "output-type", "encoding `TYPE` of the output matrix")
	flags.Var(filledFlag{&f.embedding, "the name of an encoding"}, "embedding-type", "encoding `TYPE` of the token embedding")
	flags.BoolVar(&f.pure, "pure", false, "one encoding for all matrices, whatever their role")
	addThreads(cmd, &f.threads, "`N` threads, 0 for all processors")
	f.format.addFlag(cmd, "text", "json")
}

// options checks the flags and reads what they name.
func (f *quantFlags) options(name string) (mix quant.Mix, o quant.Options, err error) {
	if mix, err = quant.ParseMix(name); err != nil {
		return mix, o, &usageError{err}
	}
	o = quant.Options{Threads: f.threads, Pure: f.pure, KeepOutput: f.keepOutput}
	for _, t := range []struct {
		flag, name string
		to         **tensor.DType
	}{{"output-type", f.output, &o.Output}, {"embedding-type", f.embedding, &o.Embedding}} {
		if t.name == "" {
			continue
		}
		d, ok := tensor.ByName(t.name)
		if !ok || !slices.Contains(tensor.Codecs(), d) {
			return mix, o, usagef("--%s %s, expected one of %v", t.flag, t.name, tensor.Codecs())
		}
		*t.to = &d
	}
	if f.importance != "" {
		o.Importance, err = quant.ReadImportance(f.importance)
	}
	return mix, o, err
}

// report says what was written, and warns of what was lost.
func (f *quantFlags) report(std streams, path string, s quant.Summary) error {
	if s.Again > 0 {
		fmt.Fprintf(std.err, "hotpath: %d tensors were quantized before and lose twice; start from F32, F16 or BF16 where there is such a file\n", s.Again)
	}
	if s.Unimportant > 0 {
		fmt.Fprintf(std.err, "hotpath: the importance matrix does not know %d of the tensors\n", s.Unimportant)
	}
	if f.format.value == "json" {
		return document(std.out, s)
	}
	var types []string
	for _, name := range slices.Sorted(maps.Keys(s.Types)) {
		types = append(types, fmt.Sprintf("%d %s", s.Types[name], name))
	}
	_, err := fmt.Fprintf(std.out, "%s: %d tensors (%s), %s from %s, %.2f bits a weight\n", path, s.Tensors, strings.Join(types, ", "),
		size(s.After), size(s.Before), 8*float64(s.After)/float64(max(s.Elements, 1)))
	return err
}

// showBytes draws a bar of what is written, where somebody sees it.
func showBytes(std streams, what string, o *quant.Options) (finish func()) {
	bar := newBytes(-1, what, std.resultsLater())
	o.Progress = bar.set
	return bar.finish
}

// mixList is the table of types for the help text.
func mixList() string {
	var b strings.Builder
	io.WriteString(&b, "TYPE is one of\n")
	for _, m := range quant.Mixes() {
		fmt.Fprintf(&b, "  %-7s %s\n", m.Name, m.About)
	}
	return strings.TrimRight(b.String(), "\n")
}
