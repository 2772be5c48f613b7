package convert_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotpath"
	"hotpath/internal/convert"
	"hotpath/internal/quant"
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
	"gpt2-scaled": "activation_function", "gpt-neox-sequential": "hidden_act", "starcoder2-plain": "hidden_act", "llama-dynamic": "rope_type", "falcon-new": "bias", "falcon-sequential": "because a GGUF file cannot store it",
	"distilbert-relu": "activation", "rerank-distilbert": "classifier", "sentence-residual": "hidden_act", "sentence-dense": "hidden_act",
	"sentence-poolings": "pooling_mode", "rerank-mpnet": "model_type", "nomic-own-code": "activation_function", "modernbert-biased": "hidden_activation", "rerank-modernbert": "classifier",
	"static-model2vec": "model_type", "gte": "model_type", "sentence-lower": "do_lower_case", "rerank-qwen3-score": "score.weight", "phi2-heads": "layernorm.bias", "cohere-heads": "use_qk_norm",
}

// Every fixture answers the same from its directory and from its file.
func TestFilesAnswerAsDirectories(t *testing.T) {
	for name, dir := range fixtures(t) {
		t.Run(name, func(t *testing.T) {
			dir := complete(t, dir)
			out, _, err := convertTo(t, dir, "F32")
			if err != nil {
				if errors.Is(err, weights.ErrUnsupported) && strings.Contains(err.Error(), unsaid[name]) && unsaid[name] != "" {
					return
				}
				t.Fatal(err)
			}
			compare(t, open(t, dir), open(t, out), 20, 1e-4) // beyond the windows
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
			answersAlike(t, with(t, fixtures(t)["llama-longrope"], fields))
		})
	}
}

// answersAlike converts a directory and holds the file against it.
func answersAlike(t *testing.T, dir string) convert.Result {
	t.Helper()
	out, r, err := convertTo(t, dir, "F32")
	if err != nil {
		t.Fatal(err)
	}
	compare(t, open(t, dir), open(t, out), 20, 1e-4)
	return r
}

// A rope that is stretched by factors is so in files of every family, and
// where llama.cpp does not open them a warning says so.
func TestEveryFamilyKeepsItsRope(t *testing.T) {
	type object = map[string]any
	llama3 := object{"rope_type": "llama3", "rope_theta": 50.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}
	part := maps.Clone(llama3)
	part["partial_rotary_factor"] = 0.5
	yarn := object{"rope_type": "yarn", "rope_theta": 50.0, "factor": 4.0, "original_max_position_embeddings": 8}
	for _, c := range []struct {
		fixture string
		rope    object
		opens   bool // in llama.cpp
	}{
		{"llama3", llama3, true}, {"granite", llama3, true}, {"qwen3", llama3, false}, {"olmo2", llama3, false}, {"stablelm", part, false},
		{"nomic-bert", yarn, true},
	} {
		t.Run(c.fixture, func(t *testing.T) {
			r := answersAlike(t, with(t, fixtures(t)[c.fixture], object{"rope_parameters": c.rope, "attention_bias": nil}))
			if warned := strings.Contains(strings.Join(r.Warnings, "\n"), "rope_freqs.weight"); warned == c.opens {
				t.Errorf("warnings %q", r.Warnings)
			}
		})
	}
}

// What a missing field means is in the file.
func TestMissingFields(t *testing.T) {
	gone := map[string]any{}
	for _, key := range []string{"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps", "rope_theta", "rotary_emb_base",
		"attention_multiplier", "embedding_multiplier", "residual_multiplier", "logits_scaling", "logit_scale", "max_window_layers"} {
		gone[key] = nil
	}
	for _, name := range []string{"llama", "mistral", "mixtral", "granite", "qwen2", "qwen3", "olmo2", "gemma", "phi2", "stablelm", "starcoder2", "cohere", "gpt2", "gpt-neox", "falcon", "phi3",
		"bert", "roberta", "distilbert", "nomic-bert", "modernbert"} {
		t.Run(name, func(t *testing.T) {
			fields := maps.Clone(gone)
			if name != "phi3" && !strings.Contains(name, "bert") && name != "gpt-neox" && name != "stablelm" && name != "phi2" {
				fields["rope_parameters"] = nil
			}
			answersAlike(t, with(t, fixtures(t)[name], fields))
		})
	}
	out, _, err := convertTo(t, with(t, fixtures(t)["granite"], gone), "F32")
	if err != nil {
		t.Fatal(err)
	}
	st, err := weights.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if _, ok := st.GGUF().Value("granite.logit_scale"); !ok {
		t.Error("no granite.logit_scale, without which llama.cpp does not open the file")
	}
	// A window that nobody says is there for long texts, and so is the other rope.
	_, _, err = convertTo(t, with(t, fixtures(t)["gemma3-capped"], map[string]any{"query_pre_attn_scalar": nil}), "F32")
	if !errors.Is(err, weights.ErrUnsupported) || !strings.Contains(err.Error(), "field query_pre_attn_scalar: 256") {
		t.Error(err)
	}
}

// llama.cpp wants a head in files of some families even where it is the token
// table.
func TestFilesHaveTheHeadThatLlamaWants(t *testing.T) {
	for name, want := range map[string]bool{"stablelm-parallel": true, "qwen2": false} { // both are tied
		out, _, err := convertTo(t, complete(t, fixtures(t)[name]), "F32")
		if err != nil {
			t.Fatal(err)
		}
		st, err := weights.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		if st.Has("output.weight") != want {
			t.Errorf("%s: a head of its own: %v, want %v", name, !want, want)
		}
		_ = st.Close()
	}
}

// Positions of RoBERTa count what is no padding. A padding that begins every
// text has the row of its id; one that may stand anywhere is refused.
func TestPaddingInTexts(t *testing.T) {
	for pad, ok := range map[int]bool{0: true, 1: true, 2: false, 3: false} { // <s>, <pad>, </s>, <unk>
		dir := with(t, fixtures(t)["roberta"], map[string]any{"pad_token_id": pad})
		if ok {
			answersAlike(t, dir)
		} else if _, _, err := convertTo(t, dir, "F32"); !errors.Is(err, weights.ErrUnsupported) || !strings.Contains(err.Error(), "field pad_token_id: ") {
			t.Errorf("padding %d: %v", pad, err)
		}
	}
}

// A rope that longer texts stretch bounds the texts that a file takes.
func TestFilesTakeNoTextsThatStretchTheRope(t *testing.T) {
	dir := with(t, fixtures(t)["nomic-own-code"], map[string]any{"activation_function": "swiglu", "rotary_scaling_factor": 2, "max_trained_positions": 16})
	out, r, err := convertTo(t, dir, "F32")
	if err != nil || len(r.Warnings) == 0 || !strings.Contains(r.Warnings[0], "16 tokens") {
		t.Fatalf("%q, %v", r.Warnings, err)
	}
	if info, err := open(t, out).Info(); err != nil || info.MaxTokens != 16 {
		t.Errorf("%d tokens, %v", info.MaxTokens, err)
	}
}

// Rerankers score pairs alike from a directory and from a file, whether or not
// the tokenizer tells the two texts apart; what is lost is warned of.
func TestRerankersScoreAlike(t *testing.T) {
	docs := []string{"the king of france", "a sea of troubles"}
	for _, c := range []struct {
		tokenizer, activation, warns string
	}{
		{"BertTokenizer", "", "llama.cpp takes both texts"},
		{"TokenizersBackend", "", ""},
		{"TokenizersBackend", "torch.nn.modules.linear.Identity", "Identity"},
	} {
		fields := map[string]any{}
		if c.activation != "" {
			fields["sbert_ce_default_activation_function"] = c.activation
		}
		dir := with(t, fixtures(t)["rerank-bert"], fields)
		if err := os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), []byte(`{"tokenizer_class":"`+c.tokenizer+`"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		out, r, err := convertTo(t, dir, "F32")
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(r.Warnings, "\n"); !strings.Contains(text, c.warns) || c.warns == "" && text != "" {
			t.Errorf("%+v: warnings %q", c, r.Warnings)
		}
		if c.activation != "" {
			continue
		}
		a, err := open(t, dir).Rerank(t.Context(), "to be or not", docs)
		if err != nil {
			t.Fatal(err)
		}
		b, err := open(t, out).Rerank(t.Context(), "to be or not", docs)
		if err != nil {
			t.Fatal(err)
		}
		for i := range a {
			if a[i].Index != b[i].Index || math.Abs(float64(a[i].Score-b[i].Score)) > 1e-5 {
				t.Errorf("%+v: %v from the file, %v from the directory", c, b, a)
			}
		}
	}
}

// Fields that mean nothing to a family do not come into its file either.
func TestForeignFieldsAreLeftOut(t *testing.T) {
	dirs := fixtures(t)
	for name, fields := range map[string]map[string]any{
		"gpt-neox": {"num_key_value_heads": 1},
		"mistral":  {"rope_parameters": map[string]any{"rope_type": "default", "rope_theta": 700.0, "partial_rotary_factor": 0.5}},
	} {
		answersAlike(t, with(t, dirs[name], fields))
	}
}
