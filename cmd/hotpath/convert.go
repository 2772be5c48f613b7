package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"hotpath/internal/convert"
)

func newConvert(std streams) *cobra.Command {
	var f quantFlags
	var out, kind string
	cmd := &cobra.Command{
		Use:   "convert DIR -o FILE.gguf",
		Short: "Make a GGUF file from a Hugging Face directory",
		Long: `convert writes the model in DIR (config.json, *.safetensors, tokenizer.json) as
one GGUF file, with names, metadata and tokenizer as llama.cpp reads them.
Matrices get the encodings of --type; norms, biases and other small tensors are
written in F32.`,
		Example: `  hotpath convert MODEL -o model-f16.gguf
  hotpath convert all-MiniLM-L6-v2 -o minilm.gguf --type q8_0
  hotpath convert MODEL -o small.gguf --type Q4_K_M --format json`,
		Args: fileArgs(cobra.ExactArgs(1), "DIR"),
		RunE: func(cmd *cobra.Command, given []string) (err error) {
			if out == "" {
				return usagef("-o FILE is missing")
			}
			mix, opts, err := f.options(kind)
			if err != nil {
				return err
			}
			in, err := openStore(cmd.Context(), given[0])
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, in.Close()) }()
			finish := showBytes(std, "converting", &opts)
			result, err := convert.Directory(cmd.Context(), in, out, mix, opts)
			finish()
			if err != nil {
				return err
			}
			for _, w := range result.Warnings {
				fmt.Fprintf(std.err, "hotpath: %s\n", oneLine(w))
			}
			if f.format.value == "json" {
				return document(std.out, result)
			}
			return f.report(std, out, result.Summary)
		},
	}
	cmd.Flags().VarP(fileFlag(&out), "output", "o", "write to `FILE`")
	cmd.Flags().StringVar(&kind, "type", "F16", "encodings `TYPE`: F32, F16, BF16, Q8_0, or any that quantize knows")
	f.addFlags(cmd)
	return cmd
}
