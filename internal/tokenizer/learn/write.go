package learn

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hotpath/internal/atomicfile"
)

// JSON is the tokenizer as a tokenizer.json.
func (r *Result) JSON() []byte {
	o, way := &r.options, cuts[r.options.PreTokenizer]
	var b bytes.Buffer
	b.WriteString("{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n  \"added_tokens\": [")
	for i, s := range o.Special {
		fmt.Fprintf(&b, "%s\n    {\"id\":%d,\"content\":%s,\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true}", comma(i), i, quoted(s))
	}
	decoder := way.decoder
	if r.wordPiece() {
		decoder = `{"type":"WordPiece","prefix":"##","cleanup":true}`
	}
	fmt.Fprintf(&b, "\n  ],\n  \"normalizer\": %s,\n  \"pre_tokenizer\": %s,\n  \"post_processor\": %s,\n  \"decoder\": %s,\n  \"model\": {\n",
		o.normalizer(), way.preTokenizer, o.frame(r.bytes), decoder)
	unknown := "null"
	if u := o.unknown(); u != "" && !r.bytes {
		unknown = quoted(u)
	}
	if r.wordPiece() {
		fmt.Fprintf(&b, "    \"type\": \"WordPiece\",\n    \"unk_token\": %s,\n    \"continuing_subword_prefix\": \"##\",\n    \"max_input_chars_per_word\": 100,\n", unknown)
	} else {
		fmt.Fprintf(&b, "    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": %s,\n    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n    \"byte_fallback\": false,\n    \"ignore_merges\": false,\n", unknown)
	}
	b.WriteString("    \"vocab\": {")
	for id, token := range r.Tokens {
		fmt.Fprintf(&b, "%s\n      %s: %d", comma(id), quoted(token), id)
	}
	b.WriteString("\n    }")
	if !r.wordPiece() {
		b.WriteString(",\n    \"merges\": [")
		for i, m := range r.Merges {
			fmt.Fprintf(&b, "%s\n      [%s, %s]", comma(i), quoted(r.Tokens[m[0]]), quoted(r.Tokens[m[1]]))
		}
		b.WriteString("\n    ]")
	}
	b.WriteString("\n  }\n}\n")
	return b.Bytes()
}

func (r *Result) wordPiece() bool { return recipes[r.options.Kind].model == "WordPiece" }

func comma(i int) string {
	if i == 0 {
		return ""
	}
	return ","
}

func quoted(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always has an encoding
	return strings.TrimSuffix(b.String(), "\n")
}

// roles are the usual names of special tokens.
var roles = []struct {
	name   string
	tokens []string
}{
	{"bos_token", []string{"<s>", "<|begin_of_text|>", "<|startoftext|>"}},
	{"eos_token", []string{"</s>", "<|endoftext|>", "<|end_of_text|>"}},
	{"unk_token", []string{"[UNK]", "<unk>"}},
	{"pad_token", []string{"[PAD]", "<pad>"}},
	{"cls_token", []string{"[CLS]"}},
	{"sep_token", []string{"[SEP]"}},
	{"mask_token", []string{"[MASK]", "<mask>"}},
}

// config is the tokenizer_config.json: which special token has which role.
func (r *Result) config() []byte {
	fields := map[string]any{"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": false}
	if r.wordPiece() {
		fields["tokenizer_class"] = "BertTokenizerFast"
		fields["do_lower_case"] = !r.options.Cased
	}
	for _, role := range roles {
		for _, t := range role.tokens {
			if slices.Contains(r.options.Special, t) {
				fields[role.name] = t
				break
			}
		}
	}
	data, _ := json.MarshalIndent(fields, "", "  ") // strings and flags always have an encoding
	return append(data, '\n')
}

// Files are the tokenizer's files by name.
func (r *Result) Files() map[string][]byte {
	files := map[string][]byte{"tokenizer.json": r.JSON(), "tokenizer_config.json": r.config()}
	if r.wordPiece() {
		files["vocab.txt"] = []byte(strings.Join(r.Tokens, "\n") + "\n")
	}
	return files
}

// Write writes tokenizer.json, tokenizer_config.json and, for WordPiece,
// vocab.txt into a folder, which it makes where it is missing. The vocab.txt of an
// earlier WordPiece tokenizer is deleted. tokenizer.json comes last: it is whole by
// itself, so no reader takes a new one with a vocab.txt of another.
func (r *Result) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	files := r.Files()
	for _, name := range []string{"vocab.txt", "tokenizer_config.json", "tokenizer.json"} {
		if files[name] == nil {
			if err := removeVocab(dir); err != nil {
				return err
			}
			continue
		}
		if err := atomicfile.WriteFile(filepath.Join(dir, name), files[name]); err != nil {
			return err
		}
	}
	return nil
}

// removeVocab deletes vocab.txt if the tokenizer.json beside it is of WordPiece.
// Any other vocab.txt is not of a tokenizer that was trained here.
func removeVocab(dir string) error {
	vocab := filepath.Join(dir, "vocab.txt")
	if info, err := os.Lstat(vocab); err != nil || info.IsDir() {
		return nil
	}
	data, err := os.ReadFile(filepath.Join(dir, "tokenizer.json"))
	if err != nil {
		return nil
	}
	var earlier struct{ Model struct{ Type string } }
	if json.Unmarshal(data, &earlier) != nil || earlier.Model.Type != "WordPiece" {
		return nil
	}
	return os.Remove(vocab)
}
