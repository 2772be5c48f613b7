package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"hotpath"
	"hotpath/internal/builtin"
	"hotpath/internal/term"
)

// tokenized is one answer of tokenize.
type tokenized struct {
	Index  int      `json:"index"`
	IDs    []int32  `json:"ids"`
	Tokens []string `json:"tokens"` // as the vocabulary spells them
}

// detokenized is one answer of tokenize --decode.
type detokenized struct {
	Index int     `json:"index"`
	IDs   []int32 `json:"ids"`
	Text  string  `json:"text"`
}

func newTokenize(std streams) *cobra.Command {
	var model string
	var tf textFlags
	var format formatFlag
	var special bool
	cmd := &cobra.Command{
		Use:   "tokenize [-m MODEL] [TEXT...]",
		Short: "Texts to token ids and back",
		Long: `Texts to token ids, as the model's own tokenizer makes them, and back.

With --decode the inputs are ids: numbers separated by spaces or commas, or
objects with "ids". What follows a tab is ignored, so that the text output of
tokenize can be decoded again.

In jsonl an invalid input is an object with "error", and the others continue; in
other formats it ends the work.`,
		Example: `  hotpath tokenize -m MODEL "hello world"
  hotpath tokenize -m MODEL -f texts.jsonl --format jsonl
  hotpath tokenize -m MODEL --decode "101 103 102"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if model == "" {
				return usagef("-m MODEL is missing")
			}
			in, err := tf.open(cmd.Context(), args, std, "index", "ids", "tokens", "text", "error")
			if err != nil {
				return err
			}
			defer in.close()
			tok, err := hotpath.OpenTokenizer(model)
			if err != nil {
				return err
			}
			all := encode
			if tf.ids {
				all = decode
			}
			return answerAll(cmd.Context(), std.out, format.value, in, func(batch []text) ([]answer, error) {
				return all(cmd.Context(), tok, batch, special)
			})
		},
	}
	cmd.Flags().VarP(modelFlag(&model, builtin.Embedder), "model", "m", modelUsage+"; a .gguf file without weights is enough")
	tf.addFlags(cmd)
	format.addFlag(cmd, "text", "json", "jsonl")
	cmd.Flags().BoolVar(&tf.ids, "decode", false, "ids to texts")
	cmd.Flags().BoolVar(&special, "special", true, "add the special tokens that the model's tokenizer adds; with --decode, show them")
	return cmd
}

func encode(ctx context.Context, m *hotpath.Tokenizer, batch []text, special bool) ([]answer, error) {
	out := make([]answer, len(batch))
	var line []byte
	all, err := m.TokenizeAllContext(ctx, bodies(batch), special)
	for i, ids := range all {
		tokens := make([]string, len(ids))
		line = line[:0]
		for k, id := range ids {
			if k > 0 {
				line = append(line, ' ')
			}
			line = strconv.AppendInt(line, int64(id), 10)
			tokens[k] = m.Token(id)
		}
		out[i] = answer{record: tokenized{batch[i].index, ids, tokens}, line: string(line) + "\t" + term.Printable(strings.Join(tokens, " "))}
	}
	return out, err
}

func decode(_ context.Context, m *hotpath.Tokenizer, batch []text, special bool) ([]answer, error) {
	out := make([]answer, len(batch))
	for i, t := range batch {
		ids, err := parseIDList(t.body)
		if err == nil {
			err = known(m, ids)
		}
		if err != nil {
			out[i].err = err
			continue
		}
		body := m.Detokenize(ids, special)
		out[i] = answer{record: detokenized{t.index, ids, body}, line: body}
	}
	return out, nil
}

// known refuses ids that the vocabulary does not have.
func known(m *hotpath.Tokenizer, ids []int32) error {
	for _, id := range ids {
		if !m.Valid(id) {
			return fmt.Errorf("id %d is not in the vocabulary, expected 0 to %d", id, m.Size()-1)
		}
	}
	return nil
}

// parseIDList reads "[1, 2]", "1,2" or "1 2"; a tab ends the list.
func parseIDList(s string) ([]int32, error) {
	s, _, _ = strings.Cut(s, "\t")
	s = strings.TrimSpace(s)
	if strings.HasPrefix(s, "[") {
		var ids []int32
		if json.Unmarshal([]byte(s), &ids) != nil {
			return nil, fmt.Errorf("ids %q, expected a list of integers", excerpt(s, 40))
		}
		return ids, nil
	}
	ids := []int32{}
	for word := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == ',' || r == ' ' }) {
		id, err := strconv.ParseInt(word, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("id %q, expected an integer", excerpt(word, 20))
		}
		ids = append(ids, int32(id))
	}
	return ids, nil
}
