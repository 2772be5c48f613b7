package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hotpath/internal/tokenizer/learn"
)

func newTokenizer(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tokenizer",
		Short: "Make tokenizers",
		Example: `  hotpath tokenizer train corpus.txt -o my-tokenizer --vocab-size 300
  hotpath tokenize -m my-tokenizer "hello world"`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTokenizerTrain(std))
	return cmd
}

func newTokenizerTrain(std streams) *cobra.Command {
	var o learn.Options
	var out string
	var format formatFlag
	var special []string
	cmd := &cobra.Command{
		Use:   "train -o FOLDER TEXTS...",
		Short: "Make a tokenizer from texts",
		Long: `Make a tokenizer from text files, .jsonl files and folders of both, with the
merges that Hugging Face's trainers find. Of an object in a .jsonl file the
field "text" counts; without it all strings count, if there are at least two.
FOLDER gets tokenizer.json, which their library and hotpath read,
tokenizer_config.json and, for wordpiece, vocab.txt; the vocab.txt of an earlier
wordpiece tokenizer is deleted. Lines of text files are read one by one, as their
trainers do.

--type is one of
` + learn.Kinds() + `
--pre-tokenizer is one of
` + learn.PreTokenizers(),
		Example: `  hotpath tokenizer train corpus.txt -o my-tokenizer --vocab-size 300
  hotpath tokenizer train texts.jsonl corpus.txt -o my-bert --type wordpiece --vocab-size 200
  hotpath tokenizer train corpus.txt -o my-chars --type char`,
		Args: fileArgs(cobra.MinimumNArgs(1), "TEXTS"),
		RunE: func(cmd *cobra.Command, paths []string) error {
			if out == "" {
				return usagef("-o FOLDER is missing")
			}
			if cmd.Flags().Changed("special") {
				o.Special = special
				if slices.Equal(special, []string{""}) {
					o.Special = []string{} // not nil, which means the usual ones
				}
			}
			if o.LimitAlphabet < -1 {
				return usagef("--limit-alphabet %d, expected 0 or more, or -1 for all", o.LimitAlphabet)
			}
			for flag, value := range map[string]int{"vocab-size": o.VocabSize, "min-frequency": o.MinFrequency} {
				if value < 1 {
					return usagef("--%s %d, expected 1 or more", flag, value)
				}
			}
			var bar *progress
			var stage learn.Stage
			o.Progress = func(s learn.Stage, done, total int64) {
				if s != stage {
					bar.finish()
					stage = s
					if s == learn.Counting {
						bar = newBytes(total, string(s), std.resultsLater())
					} else {
						bar = newCount(int(total), std.resultsLater())
					}
				}
				bar.set(done)
			}
			start := time.Now()
			res, err := learn.Train(cmd.Context(), paths, o)
			bar.finish()
			if errors.Is(err, learn.ErrOptions) {
				return &usageError{err}
			}
			if err != nil {
				return err
			}
			if err := res.Write(out); err != nil {
				return err
			}
			return reportTokenizer(std, format.value, out, res, time.Since(start))
		},
	}
	flags := cmd.Flags()
	flags.VarP(folderFlag(&out), "output", "o", "`FOLDER` of the tokenizer")
	flags.StringVar(&o.Kind, "type", "bpe", "kind of tokenizer: `bpe|wordpiece|char`")
	flags.StringVar(&o.PreTokenizer, "pre-tokenizer", "", "how texts are cut into words: `NAME`, see above (default: the first of the type)")
	flags.IntVar(&o.VocabSize, "vocab-size", 32000, "`N` tokens at most, special ones included")
	flags.IntVar(&o.MinFrequency, "min-frequency", 2, "a pair becomes a token if it occurs `N` times")
	flags.IntVar(&o.LimitAlphabet, "limit-alphabet", 0, "keep the `N` most frequent characters, -1 for all, 0 for the default (1000 for wordpiece, else all); of bytes all are kept")
	flags.StringArrayVar(&special, "special", nil, "special `TOKEN`, may be repeated, in the order of ids from 0; --special= for none (default: those usual for the type)")
	flags.BoolVar(&o.Cased, "cased", false, "wordpiece: keep upper case and accents")
	addThreads(cmd, &o.Threads, "`N` threads, 0 for all processors")
	format.addFlag(cmd, "text", "json")
	return cmd
}

// reportTokenizer says what was made.
func reportTokenizer(std streams, format, out string, res *learn.Result, took time.Duration) error {
	if format == "json" {
		return encodeJSON(std.out, map[string]any{
			"path": out, "tokens": len(res.Tokens), "merges": len(res.Merges), "words": res.Words, "bytes": res.Bytes, "seconds": took.Seconds(),
		})
	}
	_, err := fmt.Fprintf(std.out, "%s: %d tokens from %d words, %s in %.1f s\n", strings.TrimRight(out, "/"), len(res.Tokens), res.Words, size(res.Bytes), took.Seconds())
	return err
}
