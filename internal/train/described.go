package train

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"hotpath/internal/tokenizer"
	"hotpath/internal/tokenizer/learn"
	"hotpath/internal/weights"
)

// describedName is what errors call a model that has no files.
const describedName = "model of the configuration"

// open is the described model with its tokenizer, all weights zero. data are
// the texts of a tokenizer that is made of them.
func (s Shape) open(ctx context.Context, data []string, o Options) (*weights.Store, error) {
	files, err := s.tokenizerFiles(ctx, data)
	if err != nil {
		return nil, err
	}
	tok, err := tokenizer.FromJSON("tokenizer.json", files["tokenizer.json"], files["tokenizer_config.json"])
	if err != nil {
		return nil, fmt.Errorf("field model.tokenizer: %s: %w", s.Tokenizer, err)
	}
	if s, err = s.complete(tok.Size()); err != nil {
		return nil, err
	}
	ids := map[string]any{}
	for name, of := range map[string]func() (int32, bool){"bos_token_id": tok.BOS, "eos_token_id": tok.EOS, "pad_token_id": tok.PAD} {
		if id, ok := of(); ok {
			ids[name] = id
		}
	}
	config, dims, err := s.layout(ids)
	if err != nil {
		return nil, err
	}
	for _, d := range dims { // weights.Blank makes room for the largest
		if err := o.fits(4 * int64(weights.Tensor{Dims: d}.Len())); err != nil {
			return nil, err
		}
	}
	files["config.json"] = config
	return weights.Blank(describedName, files, dims)
}

// tokenizerFiles are the tokenizer's files by name.
func (s Shape) tokenizerFiles(ctx context.Context, data []string) (map[string][]byte, error) {
	if slices.Contains(learn.KindNames(), s.Tokenizer) {
		made, err := learn.Train(ctx, data, learn.Options{Kind: s.Tokenizer, VocabSize: s.Vocab})
		if errors.Is(err, learn.ErrOptions) {
			return nil, fmt.Errorf("field model.vocab: %w: %w", err, ErrConfig)
		}
		if err != nil {
			return nil, fmt.Errorf("field data: %w", err)
		}
		return made.Files(), nil
	}
	dir, own, files := s.Tokenizer, "", map[string][]byte{}
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		dir, own = filepath.Dir(dir), dir
	}
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"} {
		path := filepath.Join(dir, name)
		if own != "" && name == "tokenizer.json" { // it may have another name
			path = own
		}
		text, err := readSmall(path)
		if errors.Is(err, fs.ErrNotExist) && name != "tokenizer.json" {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("field model.tokenizer: %w", err)
		}
		files[name] = text
	}
	return files, nil
}

// maxTokenizer is the largest file of a tokenizer in bytes.
const maxTokenizer = 256 << 20

func readSmall(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxTokenizer {
		return nil, fmt.Errorf("%s: expected a regular file of at most %d bytes: %w", path, maxTokenizer, ErrConfig)
	}
	return os.ReadFile(path)
}
