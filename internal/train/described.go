package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hotpath/internal/tokenizer"
	"hotpath/internal/tokenizer/learn"
	"hotpath/internal/weights"
)

// describedName is what errors call a model that has no files.
const describedName = "model of the configuration"

// open is the described model with its tokenizer, all weights zero. data are
// the texts of a tokenizer that is made of them.
func (s Shape) open(ctx context.Context, data []string) (*weights.Store, error) {
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
	files["config.json"] = config
	return weights.Blank(describedName, files, dims)
}

// tokenizerFiles are the tokenizer's files by name.
func (s Shape) tokenizerFiles(ctx context.Context, data []string) (map[string][]byte, error) {
	if s.Tokenizer == charTokenizer {
		text, err := charJSON(ctx, data)
		return map[string][]byte{"tokenizer.json": text, "tokenizer_config.json": []byte(`{"tokenizer_class":"PreTrainedTokenizerFast"}`)}, err
	}
	if slices.Contains(learntKinds, s.Tokenizer) {
		made, err := learn.Train(ctx, data, learn.Options{Kind: s.Tokenizer, VocabSize: s.Vocab})
		if err != nil {
			return nil, fmt.Errorf("field model.tokenizer: %w", err)
		}
		return made.Files(), nil
	}
	dir, files := s.Tokenizer, map[string][]byte{}
	if strings.HasSuffix(dir, ".json") {
		dir = filepath.Dir(dir)
	}
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"} {
		text, err := readSmall(filepath.Join(dir, name))
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

// charJSON is the tokenizer.json of one token per character of the data: bytes
// as byte-level BPE spells them, and merges that make one token of the bytes of
// each longer character. Ids follow the order of bytes, then of characters.
func charJSON(ctx context.Context, data []string) ([]byte, error) {
	var seen [256]bool
	long := map[string]bool{} // characters of several bytes
	for _, path := range data {
		err := readPath(ctx, path, func(_, text string) error {
			for _, r := range text {
				if r < 0x80 {
					seen[r] = true
				} else {
					long[string(r)] = true
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for char := range long {
		for i := range len(char) {
			seen[char[i]] = true
		}
	}
	vocab, merges := map[string]int{}, [][2]string{}
	for b, ok := range seen {
		if ok {
			vocab[spelt(string([]byte{byte(b)}))] = len(vocab)
		}
	}
	for size := 2; size <= 4; size++ { // beginnings come before what is made of them
		for _, char := range sortedKeys(long) {
			if len(char) < size {
				continue
			}
			whole := spelt(char[:size])
			if _, made := vocab[whole]; !made {
				vocab[whole] = len(vocab)
				merges = append(merges, [2]string{spelt(char[:size-1]), spelt(char[size-1 : size])})
			}
		}
	}
	level := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}
	return json.Marshal(map[string]any{
		"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": []any{}, "normalizer": nil,
		"pre_tokenizer": level, "post_processor": nil, "decoder": level,
		"model": map[string]any{
			"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil, "end_of_word_suffix": nil,
			"fuse_unk": false, "byte_fallback": false, "ignore_merges": false, "vocab": vocab, "merges": merges,
		},
	})
}

func sortedKeys(set map[string]bool) []string {
	keys := make([]string, 0, len(set))
	for key := range set {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// spelt is how byte-level BPE writes bytes: printable ones of Latin-1 as they
// are, the others as letters from U+0100 on.
func spelt(bytes string) string {
	var b strings.Builder
	for i := range len(bytes) {
		b.WriteRune(letters[bytes[i]])
	}
	return b.String()
}

var letters = func() (table [256]rune) {
	next := rune(0x100)
	for b := range table {
		if b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae {
			table[b] = rune(b)
			continue
		}
		table[b] = next
		next++
	}
	return table
}()
