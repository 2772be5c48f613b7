package convert_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/weights"
)

// Tokens that tokenizer_config.json adds to rows that tokenizer.json leaves free
// are in the file; those beyond the table cannot be and are told.
func TestCarriesTokensOfTheConfig(t *testing.T) {
	dir := with(t, fixtures(t)["mistral"], nil)
	path := filepath.Join(dir, "tokenizer.json")
	var file struct {
		Model map[string]any `json:"model"`
		Pre   any            `json:"pre_tokenizer"`
	}
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	vocab := file.Model["vocab"].(map[string]any)
	delete(vocab, string(rune('!'+len(vocab)-1))) // the last row is free
	if data, err = json.Marshal(file); err == nil {
		err = os.Remove(path)
	}
	if err == nil {
		err = errors.Join(os.WriteFile(path, data, 0o600),
			os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), []byte(`{"additional_special_tokens": ["<tool>", "<more>"]}`), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	out, r, err := convertTo(t, dir, "F32")
	if said := strings.Join(r.Warnings, "\n"); err != nil || strings.Contains(said, "<tool>") || !strings.Contains(said, `"<more>" are tokens of the tokenizer without a row`) {
		t.Fatalf("%q, %v", said, err)
	}
	const text = "a<tool>b"
	want, got := open(t, dir).Tokenize(text, false), open(t, out).Tokenize(text, false)
	if !slices.Contains(want, int32(len(vocab))) || !slices.Equal(got, want) {
		t.Errorf("the file gives %v, the directory %v", got, want)
	}
}

// Ends of generation that are no tokens of the model are told.
func TestEndsThatAreNoTokens(t *testing.T) {
	for ends, want := range map[string]string{
		"[0, 5]":         "",
		"[0, 5, 100000]": "ends at the tokens [100000]",
	} {
		dir := with(t, fixtures(t)["llama"], nil)
		if err := os.WriteFile(filepath.Join(dir, "generation_config.json"), []byte(`{"eos_token_id": `+ends+`}`), 0o600); err != nil {
			t.Fatal(err)
		}
		_, r, err := convertTo(t, dir, "F32")
		if said := strings.Join(r.Warnings, "\n"); err != nil || strings.Contains(said, "generation") != (want != "") || !strings.Contains(said, want) {
			t.Errorf("%s: %q, %v", ends, said, err)
		}
	}
}

// A chat template in a file of its own comes into the GGUF file, before that of
// tokenizer_config.json.
func TestChatTemplateOfItsOwnFile(t *testing.T) {
	const template = "{% for m in messages %}<{{ m['role'] }}> {{ m['content'] }}{% endfor %}"
	dir := with(t, fixtures(t)["llama"], nil)
	if err := os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte(template), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, err := convertTo(t, dir, "F32")
	if err != nil {
		t.Fatal(err)
	}
	st, err := weights.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if got, _ := st.GGUF().String("tokenizer.chat_template"); got != template {
		t.Errorf("the file has %q", got)
	}
}
