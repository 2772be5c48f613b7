package convert_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotpath/internal/testmodels"
	"hotpath/internal/weights"
)

// What added tokens do to their surroundings has no place in a file.
func TestWarnsOfAddedTokens(t *testing.T) {
	dir := with(t, fixtures(t)["llama"], nil)
	path := filepath.Join(dir, "tokenizer.json")
	var tokenizer map[string]any
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &tokenizer)
	}
	if err != nil {
		t.Fatal(err)
	}
	added := tokenizer["added_tokens"].([]any)
	for i, flag := range []string{"lstrip", "rstrip", "single_word"} {
		if _, r, err := convertTo(t, dir, "F32"); err != nil || strings.Contains(strings.Join(r.Warnings, "\n"), "lstrip") != (i > 0) {
			t.Errorf("before %s: %q, %v", flag, r.Warnings, err)
		}
		for _, a := range added {
			for _, f := range []string{"lstrip", "rstrip", "single_word"} {
				a.(map[string]any)[f] = f == flag
			}
		}
		data, err := json.Marshal(tokenizer)
		if err == nil {
			err = os.WriteFile(path, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	_, r, err := convertTo(t, dir, "F32")
	if err != nil || len(r.Warnings) == 0 || !strings.Contains(r.Warnings[0], added[0].(map[string]any)["content"].(string)) {
		t.Errorf("%q, %v", r.Warnings, err)
	}
}

// What changes answers and has no place in a file is refused, never dropped.
func TestRefusesWhatFilesCannotSay(t *testing.T) {
	type object = map[string]any
	dirs := fixtures(t)
	full := []string{"full_attention", "full_attention", "full_attention"}
	for _, c := range []struct {
		fixture, field string
		change         object
	}{
		{"qwen3-moe", "norm_topk_prob", object{"norm_topk_prob": false}},
		{"qwen2-moe", "norm_topk_prob", object{"norm_topk_prob": true}},
		{"gemma2", "layer_types", object{"layer_types": full, "query_pre_attn_scalar": 10}},
		{"gemma2", "attn_logit_softcapping", object{"attn_logit_softcapping": nil, "query_pre_attn_scalar": 10}},
		{"gemma2", "final_logit_softcapping", object{"final_logit_softcapping": nil, "query_pre_attn_scalar": 10}},
		{"gemma3", "layer_types", object{"layer_types": full, "query_pre_attn_scalar": 12}},
		{"modernbert", "layer_types", object{"layer_types": []string{"sliding_attention"}}},
		{"gpt2", "scale_attn_weights", object{"scale_attn_weights": false}},
		{"gpt2", "scale_attn_by_inverse_layer_idx", object{"scale_attn_by_inverse_layer_idx": true}},
		{"cohere", "use_qk_norm", object{"use_qk_norm": true}},
		{"nomic-bert", "causal", object{"causal": true}},
		{"nomic-bert", "rotary_emb_interleaved", object{"rotary_emb_interleaved": true}},
		{"gemma3", "rope_parameters.sliding_attention.rope_type", object{"query_pre_attn_scalar": 12, "rope_parameters": object{"full_attention": object{"rope_theta": 1e4},
			"sliding_attention": object{"rope_type": "linear", "factor": 2, "rope_theta": 1e4}}}},
		{"modernbert", "rope_type", object{"rope_parameters": nil, "rope_scaling": object{"rope_type": "linear", "factor": 2}}},
	} {
		dir, ok := dirs[c.fixture]
		if !ok {
			t.Errorf("no fixture %s", c.fixture)
			continue
		}
		if _, _, err := convertTo(t, with(t, dir, c.change), "F32"); !errors.Is(err, weights.ErrUnsupported) || !strings.Contains(err.Error(), "field "+c.field+":") {
			t.Errorf("%s with %v: %v, expected field %s to be refused", c.fixture, c.change, err, c.field)
		}
	}
}

// So are stages of sentence-transformers behind the pooling, and poolings side
// by side.
func TestRefusesStages(t *testing.T) {
	dir := with(t, fixtures(t)["sentence-dense"], map[string]any{"hidden_act": "gelu"})
	pooling := filepath.Join(dir, "1_Pooling", "config.json")
	for _, c := range []struct{ pooling, says string }{
		{`{"pooling_mode_mean_tokens": true}`, "modules.json: module 2_Dense: Dense"},
		{`{"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true}`, `"cls beside mean"`},
	} {
		if err := os.WriteFile(pooling, []byte(c.pooling), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := convertTo(t, dir, "F32"); !errors.Is(err, weights.ErrUnsupported) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, expected %s", err, c.says)
		}
		if err := os.WriteFile(filepath.Join(dir, "modules.json"), []byte(`[{"type":"models.Transformer","path":""},{"type":"models.Pooling","path":"1_Pooling"}]`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A file that hotpath reads and llama.cpp does not open comes with a warning.
func TestWarnsOfFilesThatLlamaDoesNotOpen(t *testing.T) {
	for _, c := range []struct {
		fixture, field string
		value          bool
	}{
		{"qwen3", "attention_bias", true},
		{"gemma", "tie_word_embeddings", false},
		{"modernbert", "norm_bias", true},
	} {
		_, r, err := convertTo(t, with(t, fixtures(t)[c.fixture], map[string]any{c.field: c.value}), "F32")
		if err != nil || len(r.Warnings) == 0 || !strings.Contains(r.Warnings[len(r.Warnings)-1], c.field) {
			t.Errorf("%s: %q, %v", c.fixture, r.Warnings, err)
		}
	}
}

// Where the directory cuts texts and its file does not, answers to long ones
// differ, and the command says so.
func TestWarnsOfTextsThatAreCut(t *testing.T) {
	for limit, told := range map[int]bool{50: true, 96: false, 4000: false} {
		dir := with(t, fixtures(t)["bert"], nil)
		if err := os.WriteFile(filepath.Join(dir, "sentence_bert_config.json"), fmt.Appendf(nil, `{"max_seq_length":%d}`, limit), 0o600); err != nil {
			t.Fatal(err)
		}
		_, r, err := convertTo(t, dir, "F32")
		if err != nil || strings.Contains(strings.Join(r.Warnings, "\n"), fmt.Sprintf("after %d tokens in this model, after 96", limit)) != told {
			t.Errorf("cut after %d tokens: %q, %v", limit, r.Warnings, err)
		}
	}
}

func TestRefuses(t *testing.T) {
	gguf := testmodels.Dir(t, "gguf/llama-q8_0.gguf")
	if _, _, err := convertTo(t, gguf, "F16"); !errors.Is(err, weights.ErrUnsupported) {
		t.Errorf("a GGUF file: %v", err)
	}
}

// What a directory does to texts and vectors unless asked otherwise, and its
// file cannot, is told.
func TestWarnsOfPromptsAndCutVectors(t *testing.T) {
	dir := with(t, fixtures(t)["bert"], nil)
	text := `{"prompts": {"query": "query: "}, "default_prompt_name": "query", "truncate_dim": 12}`
	if err := os.WriteFile(filepath.Join(dir, "config_sentence_transformers.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, r, err := convertTo(t, dir, "F32")
	if said := strings.Join(r.Warnings, "\n"); err != nil || !strings.Contains(said, `prompt "query"`) || !strings.Contains(said, "12 dimensions") {
		t.Errorf("%q, %v", said, err)
	}
}
