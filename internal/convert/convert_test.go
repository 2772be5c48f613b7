package convert_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotpath"
	"hotpath/internal/convert"
	"hotpath/internal/quant"
	"hotpath/internal/testmodels"
	"hotpath/internal/weights"
)

// fixtures are the directories of small models, with a tokenizer where they
// lack one.
func fixtures(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"../testmodels/testdata/*/config.json", "../model/testdata/*/config.json", "../model/testdata/encoders/*/config.json"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			dir := filepath.Dir(file)
			out[filepath.Base(dir)] = dir
		}
	}
	if len(out) < 8 {
		t.Fatalf("%d fixtures", len(out))
	}
	return out
}

// complete is a directory with a tokenizer: that of another fixture beside
// links to its own files.
func complete(t *testing.T, dir string) string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, "tokenizer.json")); err == nil {
		return dir
	}
	temp := t.TempDir()
	link := func(from string) {
		abs, err := filepath.Abs(from)
		if err == nil {
			err = os.Symlink(abs, filepath.Join(temp, filepath.Base(from)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		link(filepath.Join(dir, e.Name()))
	}
	st, err := weights.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	n, err := st.HF().Config.Int("vocab_size")
	if err != nil {
		t.Fatal(err)
	}
	vocab := map[string]int{}
	for i := range n {
		vocab[string(rune('!'+i))] = i
	}
	data, err := json.Marshal(map[string]any{
		"model":         map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{}},
		"pre_tokenizer": map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
		"decoder":       map[string]any{"type": "ByteLevel"},
	})
	if err == nil {
		err = os.WriteFile(filepath.Join(temp, "tokenizer.json"), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return temp
}

func convertTo(t *testing.T, dir, kind string) (string, convert.Result, error) {
	t.Helper()
	mix, err := quant.ParseMix(kind)
	if err != nil {
		t.Fatal(err)
	}
	in, err := weights.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out := filepath.Join(t.TempDir(), "out.gguf")
	r, err := convert.Directory(t.Context(), in, out, mix, quant.Options{Threads: 1})
	return out, r, err
}

func open(t *testing.T, path string) *hotpath.Model {
	t.Helper()
	m, err := hotpath.Open(path, hotpath.Options{Threads: 1, Precision: "f32"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// unsaid are fixtures whose configuration GGUF files cannot express.
var unsaid = map[string]string{
	"mpnet": "model_type", "gemma2": "query_pre_attn_scalar", "gemma3": "query_pre_attn_scalar", "gemma3-capped": "query_pre_attn_scalar", "falcon-alibi": "alibi", "falcon-alibi-new": "alibi", "embeddinggemma": "query_pre_attn_scalar",
	"smollm3": "no_rope_layers", "qwen3-moe": "mlp_only_layers", "qwen2-moe": "mlp_only_layers", "llama-yarn-given": "truncate",
	"gpt2-scaled": "activation_function", "gpt-neox-sequential": "hidden_act", "starcoder2-plain": "hidden_act", "llama-dynamic": "rope_type", "falcon-new": "bias", "falcon-sequential": "since GGUF files cannot say",
	"distilbert-relu": "activation", "rerank-distilbert": "classifier", "sentence-residual": "hidden_act", "sentence-dense": "hidden_act",
	"sentence-poolings": "pooling_mode", "rerank-mpnet": "model_type", "nomic-own-code": "activation_function", "modernbert-biased": "hidden_activation", "rerank-modernbert": "classifier",
	"static-model2vec": "model_type", "gte": "model_type", "sentence-lower": "do_lower_case", "rerank-qwen3-score": "score.weight", "phi2-heads": "layernorm.bias", "cohere-heads": "use_qk_norm",
}

// Every fixture answers the same from its directory and from its file.
func TestFilesAnswerAsDirectories(t *testing.T) {
	for name, dir := range fixtures(t) {
		t.Run(name, func(t *testing.T) {
			dir := complete(t, dir)
			out, r, err := convertTo(t, dir, "F32")
			if err != nil {
				if errors.Is(err, weights.ErrUnsupported) && strings.Contains(err.Error(), unsaid[name]) && unsaid[name] != "" {
					return
				}
				t.Fatal(err)
			}
			tokens := 12
			if len(r.Warnings) > 0 && strings.Contains(r.Warnings[0], "attention sees") {
				tokens = 4 // before a window ends, which the file cannot say
			}
			compare(t, open(t, dir), open(t, out), tokens, 1e-4)
		})
	}
}

func compare(t *testing.T, a, b *hotpath.Model, tokens int, tol float64) {
	t.Helper()
	ctx := context.Background()
	ia, err := a.Info()
	if err != nil {
		t.Fatal(err)
	}
	if ia.CanGenerate {
		seqs := make([][]int32, 3)
		for i := range seqs {
			for k := range tokens + i {
				seqs[i] = append(seqs[i], int32((7*k*k+13*i+3)%ia.Vocab))
			}
		}
		x, err := a.ScoreIDs(ctx, seqs)
		if err != nil {
			t.Fatal(err)
		}
		y, err := b.ScoreIDs(ctx, seqs)
		if err != nil {
			t.Fatal(err)
		}
		for i := range x {
			for k, v := range x[i].NLL {
				if d := math.Abs(float64(v - y[i].NLL[k])); !(d <= tol*(1+math.Abs(float64(v)))) {
					t.Fatalf("text %d: nll[%d] = %g, expected %g", i, k, y[i].NLL[k], v)
				}
			}
		}
		return
	}
	texts := []string{"the king of france and his men went to the sea", "To be, or not to be", "12 345 x"}
	x, err := a.Embed(ctx, texts, hotpath.EmbedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	y, err := b.Embed(ctx, texts, hotpath.EmbedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range x {
		var dot, xx, yy float64
		for k := range x[i] {
			dot += float64(x[i][k]) * float64(y[i][k])
			xx += float64(x[i][k]) * float64(x[i][k])
			yy += float64(y[i][k]) * float64(y[i][k])
		}
		if c := dot / math.Sqrt(xx*yy); !(c > 1-tol*tol*10) {
			t.Fatalf("text %d: cosine %.9f", i, c)
		}
	}
}

// with is a fixture with other fields in its config.json.
func with(t *testing.T, dir string, fields map[string]any) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "model")
	if err := os.CopyFS(to, os.DirFS(complete(t, dir))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(to, "config.json")
	config := map[string]any{}
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &config)
	}
	maps.Copy(config, fields)
	if err == nil {
		data, err = json.Marshal(config)
	}
	if err == nil {
		err = os.Remove(path) // it may be a link to the fixture's
	}
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// A stretched rope is as wide as its factor says, or as the lengths of texts.
func TestRopesAreStretchedAlike(t *testing.T) {
	type object = map[string]any
	factors := func(x float64) []float64 { return []float64{x, 1.5 * x, 2 * x, 3 * x} }
	for name, fields := range map[string]object{
		"longrope with a factor": {"rope_parameters": object{"rope_type": "longrope", "rope_theta": 500.0, "factor": 3.0,
			"original_max_position_embeddings": 8, "short_factor": factors(1), "long_factor": factors(2)}},
		"longrope beside a length": {"original_max_position_embeddings": 8, "rope_parameters": object{"rope_type": "longrope", "rope_theta": 500.0,
			"original_max_position_embeddings": 200, "short_factor": factors(1), "long_factor": factors(2)}},
		"yarn without a factor": {"rope_parameters": object{"rope_type": "yarn", "rope_theta": 500.0, "original_max_position_embeddings": 32}},
		"yarn beside a length":  {"original_max_position_embeddings": 16, "rope_parameters": object{"rope_type": "yarn", "rope_theta": 500.0, "original_max_position_embeddings": 64}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := with(t, fixtures(t)["llama-longrope"], fields)
			out, _, err := convertTo(t, dir, "F32")
			if err != nil {
				t.Fatal(err)
			}
			compare(t, open(t, dir), open(t, out), 12, 1e-4)
		})
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
		{"gemma3", "layer_types", object{"layer_types": full, "query_pre_attn_scalar": nil}},
		{"modernbert", "layer_types", object{"layer_types": []string{"sliding_attention"}}},
		{"gpt2", "scale_attn_weights", object{"scale_attn_weights": false}},
		{"gpt2", "scale_attn_by_inverse_layer_idx", object{"scale_attn_by_inverse_layer_idx": true}},
		{"cohere", "use_qk_norm", object{"use_qk_norm": true}},
		{"nomic-bert", "causal", object{"causal": true}},
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
	_, r, err := convertTo(t, with(t, fixtures(t)["qwen3"], map[string]any{"attention_bias": true}), "F32")
	if err != nil || len(r.Warnings) == 0 || !strings.Contains(r.Warnings[len(r.Warnings)-1], "attention_bias") {
		t.Errorf("%q, %v", r.Warnings, err)
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
