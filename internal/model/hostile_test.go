package model

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/format/gguf"
	"hotpath/internal/tensor"
	"hotpath/internal/testmodels"
	"hotpath/internal/weights"
)

// header is the first part of a safetensors file.
type header map[string]*struct {
	DType   string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets [2]int `json:"data_offsets"`
}

// lose renames a tensor: without it, its bytes would belong to nobody, which is
// another fault.
func (h header) lose(name string) {
	h["lost."+name] = h[name]
	delete(h, name)
}

// changeJSON rewrites an object in a file field by field; a nil value removes
// one.
func changeJSON(t *testing.T, path string, fields map[string]any) {
	t.Helper()
	object := map[string]any{}
	if data, err := os.ReadFile(path); err == nil {
		if err := json.Unmarshal(data, &object); err != nil {
			t.Fatal(err)
		}
	}
	for k, v := range fields {
		if object[k] = v; v == nil {
			delete(object, k)
		}
	}
	write(t, path, encode(t, object))
}

// copyModel copies a Hugging Face fixture, changing its files on the way:
// objects field by field (a nil value removes one), tensors as a whole.
func copyModel(t *testing.T, name string, change map[string]map[string]any, tensors func(h header, data []byte) (header, []byte)) string {
	t.Helper()
	from, to := testmodels.Dir(t, name), filepath.Join(t.TempDir(), "model")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	for file, fields := range change {
		changeJSON(t, filepath.Join(to, file), fields)
	}
	if tensors == nil {
		return to
	}
	path := filepath.Join(to, "model.safetensors")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n, h := int(binary.LittleEndian.Uint64(data)), header{}
	raw := map[string]json.RawMessage{}
	if err := json.Unmarshal(data[8:8+n], &raw); err != nil {
		t.Fatal(err)
	}
	delete(raw, "__metadata__")
	if err := json.Unmarshal(encode(t, raw), &h); err != nil {
		t.Fatal(err)
	}
	h, body := tensors(h, data[8+n:])
	text := encode(t, h)
	write(t, path, slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text, body))
	return to
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// refused opens a broken model and looks for words in the one error.
func refused(t *testing.T, path string, kind error, words ...string) {
	t.Helper()
	st, err := weights.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	_, err = Open(st)
	if err == nil {
		t.Fatal("opened, expected an error")
	}
	if !errors.Is(err, kind) {
		t.Errorf("%v\nis not %q", err, kind)
	}
	said, ok := strings.CutPrefix(err.Error(), path)
	if !ok {
		t.Errorf("%v\ndoes not begin with %s", err, path)
	}
	for _, w := range words {
		if !says(said, w) {
			t.Errorf("%v\ndoes not say %q", err, w)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %v", err)
	}
}

// says reports whether w stands in the text by itself: 5 is not in 15, bert not
// in distilbert.
func says(text, w string) bool {
	inWord := func(b byte) bool {
		return b == '_' || '0' <= b && b <= '9' || 'a' <= b|' ' && b|' ' <= 'z'
	}
	for at := 0; ; at++ {
		next := strings.Index(text[at:], w)
		if next < 0 {
			return false
		}
		at += next
		end := at + len(w)
		if !(at > 0 && inWord(text[at-1]) && inWord(w[0])) && !(end < len(text) && inWord(text[end]) && inWord(w[len(w)-1])) {
			return true
		}
	}
}

func TestSays(t *testing.T) {
	const text = `expected a divisor of the width (32), found 5; one of distilbert, gemma3_text: "no_such"`
	for _, w := range []string{"expected", "32", "5", "distilbert", `"no_such"`, "(32)"} {
		if !says(text, w) {
			t.Errorf("%q is not found", w)
		}
	}
	for _, w := range []string{"3", "2", "bert", "gemma3", "text", "divis", "such"} {
		if says(text, w) {
			t.Errorf("%q is found", w)
		}
	}
}

func TestHostileConfigs(t *testing.T) {
	type object = map[string]any
	invalid, unsupported := weights.ErrInvalid, weights.ErrUnsupported
	for _, c := range []struct {
		name, model string
		change      object
		kind        error
		words       []string
	}{
		{"no heads", "llama", object{"num_attention_heads": 0}, invalid, []string{"num_attention_heads", "positive"}},
		{"half a head", "llama", object{"num_attention_heads": 2.5}, invalid, []string{"num_attention_heads", "2.5"}},
		{"heads do not divide", "bert", object{"num_attention_heads": 5}, invalid, []string{"num_attention_heads", "divisor", "32", "5"}},
		{"heads do not divide", "gpt2", object{"n_head": 7}, invalid, []string{"n_head", "divisor", "40", "7"}},
		{"head_dim from heads", "llama", object{"head_dim": nil, "num_attention_heads": 5}, invalid, []string{"num_attention_heads", "divisor"}},
		{"key heads do not divide", "llama", object{"num_key_value_heads": 3}, invalid, []string{"num_key_value_heads", "divisor", "4", "3"}},
		{"key heads do not divide", "embeddinggemma", object{"num_key_value_heads": 4}, invalid, []string{"num_key_value_heads", "divisor"}},
		{"negative layers", "bert", object{"num_hidden_layers": -1}, invalid, []string{"num_hidden_layers", "-1"}},
		{"a billion layers", "llama", object{"num_hidden_layers": 1_000_000_000}, invalid, []string{"num_hidden_layers", "1000000000"}},
		{"more layers than tensors", "llama", object{"num_hidden_layers": 1000}, weights.ErrNoTensor, []string{"layers.2."}},
		{"no width", "gpt2", object{"n_embd": nil}, invalid, []string{"n_embd", "missing"}},
		{"width of text", "bert", object{"hidden_size": "32"}, invalid, []string{"hidden_size"}},
		{"huge width", "bert", object{"hidden_size": 1 << 30}, invalid, []string{"hidden_size"}},
		{"another width", "llama", object{"hidden_size": 64}, invalid, []string{"embed_tokens", "[330 32]", "[330 64]"}},
		{"another vocabulary", "gpt2", object{"vocab_size": 331}, invalid, []string{"wte.weight", "[331 40]"}},
		{"more positions than rows", "bert", object{"max_position_embeddings": 97}, invalid, []string{"position_embeddings", "[97 32]"}},
		{"negative epsilon", "llama", object{"rms_norm_eps": -1}, invalid, []string{"rms_norm_eps", "-1"}},
		{"unknown activation", "bert", object{"hidden_act": "no_such"}, unsupported, []string{"hidden_act", `"no_such"`}},
		{"relative positions", "bert", object{"position_embedding_type": "relative_key"}, unsupported, []string{"position_embedding_type"}},
		{"decoder", "bert", object{"is_decoder": true}, unsupported, []string{"is_decoder"}},
		{"unknown rope", "llama", object{"rope_parameters": object{"rope_type": "no_such", "factor": 4}}, unsupported, []string{"rope_parameters.rope_type", `"no_such"`}},
		{"unknown old rope", "llama-odd", object{"rope_scaling": object{"type": "no_such", "factor": 4}}, unsupported, []string{"rope_scaling.type", `"no_such"`}},
		{"rope is a number", "llama", object{"rope_parameters": 3}, invalid, []string{"rope_parameters", "object"}},
		{"half a rope", "llama", object{"rope_parameters": object{"rope_type": "linear", "factor": 2, "partial_rotary_factor": 0.5}}, unsupported, []string{"rope_parameters.partial_rotary_factor"}},
		{"odd head", "embeddinggemma", object{"head_dim": 23}, invalid, []string{"head_dim", "even"}},
		{"layer types", "embeddinggemma", object{"layer_types": []string{"full_attention"}}, invalid, []string{"layer_types", "7"}},
		{"unknown layer type", "embeddinggemma", object{"layer_types": slices.Repeat([]string{"no_such"}, 7)}, unsupported, []string{"layer_types", `"no_such"`}},
		{"quantized", "llama", object{"quantization_config": object{"bits": 4}}, unsupported, []string{"quantization_config"}},
		{"unknown architecture", "llama", object{"model_type": "no_such"}, unsupported,
			[]string{"model_type", `"no_such"`, "expected one of " + supported(func(a *architecture) []string { return a.hf })}},
		{"no architecture", "llama", object{"model_type": nil}, invalid, []string{"model_type"}},
	} {
		t.Run(c.model+" "+c.name, func(t *testing.T) {
			refused(t, copyModel(t, c.model, map[string]map[string]any{"config.json": c.change}, nil), c.kind, c.words...)
		})
	}
}

func TestHostileTensors(t *testing.T) {
	for _, c := range []struct {
		name, model string
		change      func(h header)
		kind        error
		words       []string
	}{
		{"missing matrix", "llama", func(h header) { h.lose("model.layers.1.mlp.up_proj.weight") }, weights.ErrNoTensor,
			[]string{"model.layers.1.mlp.up_proj.weight", "[96 32]"}},
		{"missing segments", "bert", func(h header) { h.lose("embeddings.token_type_embeddings.weight") }, weights.ErrNoTensor,
			[]string{"embeddings.token_type_embeddings.weight", "[32]"}},
		{"missing bias", "bert", func(h header) { h.lose("encoder.layer.0.output.dense.bias") }, weights.ErrNoTensor,
			[]string{"encoder.layer.0.output.dense.bias"}},
		{"missing table", "gpt2", func(h header) { h.lose("transformer.wte.weight") }, weights.ErrNoTensor, []string{"wte.weight", "transformer."}},
		{"turned matrix", "llama", func(h header) { h["model.layers.0.mlp.down_proj.weight"].Shape = []int{96, 32} }, weights.ErrInvalid,
			[]string{"model.layers.0.mlp.down_proj.weight", "[96 32]", "[32 96]"}},
		{"matrix for a vector", "bert", func(h header) { h["embeddings.LayerNorm.weight"].Shape = []int{1, 32} }, weights.ErrInvalid,
			[]string{"embeddings.LayerNorm.weight", "[1 32]", "[32]"}},
		{"vector for a table", "bert", func(h header) { h["embeddings.token_type_embeddings.weight"].Shape = []int{64} }, weights.ErrInvalid,
			[]string{"embeddings.token_type_embeddings.weight", "[64]"}},
		{"parts", "gpt2", func(h header) { h["transformer.h.0.attn.c_attn.weight"].Shape = []int{48, 100} }, weights.ErrInvalid,
			[]string{"transformer.h.0.attn.c_attn.weight", "3 equal parts"}},
	} {
		t.Run(c.model+" "+c.name, func(t *testing.T) {
			path := copyModel(t, c.model, nil, func(h header, data []byte) (header, []byte) {
				c.change(h)
				return h, data
			})
			refused(t, path, c.kind, c.words...)
		})
	}
}

func TestHostileModules(t *testing.T) {
	module := func(kind, path string) map[string]string {
		return map[string]string{"type": "sentence_transformers.models." + kind, "path": path}
	}
	for _, c := range []struct {
		name    string
		modules any
		pooling map[string]any
		words   []string
	}{
		{"another kind", []any{module("Transformer", ""), module("Pooling", "1_Pooling"), module("CNN", "")}, nil, []string{"CNN", "modules.json"}},
		{"pooling twice", []any{module("Transformer", ""), module("Pooling", "1_Pooling"), module("Pooling", "1_Pooling")}, nil, []string{"module 2 is sentence_transformers.models.Pooling", "then Pooling", "modules.json"}},
		{"nine at once", nil, map[string]any{"pooling_mode": strings.Split("cls max mean cls max mean cls max mean", " ")}, []string{"pooling_mode", "9"}},
		{"a new name", nil, map[string]any{"pooling_mode": "no_such"}, []string{"pooling_mode", "no_such"}},
		{"without the prompt", nil, map[string]any{"include_prompt": false}, []string{"include_prompt"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := copyModel(t, "bert", map[string]map[string]any{"1_Pooling/config.json": c.pooling}, nil)
			if c.modules != nil {
				write(t, filepath.Join(path, "modules.json"), encode(t, c.modules))
			}
			refused(t, path, weights.ErrUnsupported, c.words...)
		})
	}
}

// TestDenseModule: a dense layer before the pooling concerns tokens, which must
// not be left out in silence.
func TestDenseModule(t *testing.T) {
	path := copyModel(t, "embeddinggemma", map[string]map[string]any{"2_Dense/config.json": {"in_features": 32, "out_features": 32}}, nil)
	data, err := os.ReadFile(filepath.Join(path, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(path, "2_Dense", "model.safetensors"), data)
	write(t, filepath.Join(path, "modules.json"), []byte(`[{"type":"sentence_transformers.models.Transformer","path":""},
		{"type":"sentence_transformers.models.Dense","path":"2_Dense"}]`))
	refused(t, path, weights.ErrUnsupported, "Dense", "modules.json")
}

// copyGGUF copies a GGUF fixture with other metadata, of which nil removes a key,
// and other tensors: data is what edit, where there is one, makes of a tensor's
// bytes, and nil removes it.
func copyGGUF(t *testing.T, name string, change map[string]any, edit func(name string, data []byte) []byte) string {
	t.Helper()
	data, err := os.ReadFile(testmodels.Dir(t, name))
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(name, data)
	if err != nil {
		t.Fatal(err)
	}
	w, left := new(gguf.Writer), maps.Clone(change)
	for _, key := range f.Keys() {
		v, _ := f.Value(key)
		set := v.Any()
		if other, ok := left[key]; ok {
			delete(left, key)
			if set = other; other == nil {
				continue
			}
		}
		if err := w.Set(key, set); err != nil {
			t.Fatal(err)
		}
	}
	for key, v := range left {
		if err := w.Set(key, v); err != nil {
			t.Fatal(err)
		}
	}
	for _, tensor := range f.Tensors() {
		d, raw, err := f.Data(tensor.Name)
		if err == nil && edit != nil {
			if raw = edit(tensor.Name, raw); raw == nil {
				continue
			}
		}
		if err == nil {
			err = w.Add(tensor.Name, d, tensor.Dims(), raw)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if _, err := w.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	write(t, path, out.Bytes())
	return path
}

func TestHostileMetadata(t *testing.T) {
	type object = map[string]any
	invalid, unsupported := weights.ErrInvalid, weights.ErrUnsupported
	for _, c := range []struct {
		name, file string
		change     object
		kind       error
		words      []string
	}{
		{"no heads", "llama-f32", object{"llama.attention.head_count": uint32(0)}, invalid, []string{"llama.attention.head_count"}},
		{"heads by layer", "llama-f32", object{"llama.attention.head_count_kv": []int32{2, 2}}, invalid, []string{"llama.attention.head_count_kv"}},
		{"a billion layers", "llama-f32", object{"llama.block_count": uint32(1_000_000_000)}, invalid, []string{"llama.block_count", "1000000000"}},
		{"negative layers", "bert-f16", object{"bert.block_count": int32(-1)}, invalid, []string{"bert.block_count"}},
		{"more layers than tensors", "gpt2-f16", object{"gpt2.block_count": uint32(3)}, weights.ErrNoTensor, []string{"blk.2."}},
		{"heads do not divide", "bert-f16", object{"bert.attention.head_count": uint32(5)}, invalid, []string{"bert.attention.head_count", "divisor"}},
		{"odd rope", "llama-f32", object{"llama.rope.dimension_count": uint32(15)}, invalid, []string{"llama.rope.dimension_count", "even"}},
		{"wide rope", "llama-f32", object{"llama.rope.dimension_count": uint32(18)}, invalid, []string{"llama.rope.dimension_count", "16"}},
		{"unknown rope", "llama-f32", object{"llama.rope.scaling.type": "no_such"}, unsupported, []string{"llama.rope.scaling.type", `"no_such"`}},
		{"experts", "llama-f32", object{"llama.expert_count": uint32(8)}, invalid, []string{"llama.expert_used_count", "positive"}},
		{"narrow values", "llama-f32", object{"llama.attention.value_length": uint32(8)}, unsupported, []string{"llama.attention.value_length"}},
		{"ranking", "bert-f16", object{"bert.pooling_type": uint32(4)}, unsupported, []string{"bert.pooling_type", "4"}},
		{"causal", "bert-f16", object{"bert.attention.causal": true}, unsupported, []string{"bert.attention.causal"}},
		{"no window", "embeddinggemma-f16", object{"gemma-embedding.attention.sliding_window": nil}, invalid, []string{"gemma-embedding.attention.sliding_window"}},
		{"unknown architecture", "llama-f32", object{"general.architecture": "no_such"}, unsupported,
			[]string{"general.architecture", `"no_such"`, "expected one of " + supported(func(a *architecture) []string { return a.gguf })}},
		{"other architecture", "llama-f32", object{"general.architecture": "bert"}, invalid, []string{"bert.block_count"}},
	} {
		t.Run(c.file+" "+c.name, func(t *testing.T) {
			refused(t, copyGGUF(t, "gguf/"+c.file+".gguf", c.change, nil), c.kind, c.words...)
		})
	}
}

func TestHostileArguments(t *testing.T) {
	m, kv := open(t, testmodels.Dir(t, "llama")), KVLayout{Blocks: 1, MaxBlocksPerSeq: 1}
	for _, b := range []tensor.Bind{{}, {T: 1, S: 1}, {T: -1, S: 1, R: 1}} {
		if _, _, err := m.BuildGenerate(b, kv); err == nil {
			t.Errorf("built for %v", b)
		}
	}
	for _, kv := range []KVLayout{{}, {Blocks: 1}, {Blocks: -1, MaxBlocksPerSeq: 1}, {Blocks: 1 << 40, MaxBlocksPerSeq: 1}} {
		if _, _, err := m.BuildScore(tensor.Bind{T: 1, S: 1, R: 1}, kv); err == nil {
			t.Errorf("built for %v", kv)
		}
	}
	if _, err := m.Weight("blk.7.attn_q.weight"); !errors.Is(err, weights.ErrNoTensor) {
		t.Errorf("a weight of a layer that is not there: %v", err)
	}
	if _, _, err := open(t, testmodels.Dir(t, "bert")).BuildGenerate(tensor.Bind{T: 1, S: 1, R: 1}, kv); err == nil {
		t.Error("BERT generates")
	}
}

func FuzzConfig(f *testing.F) {
	for _, name := range testmodels.Directories(testmodels.All(f)) {
		data, err := os.ReadFile(filepath.Join(testmodels.Dir(f, name), "config.json"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	variants, err := filepath.Glob("testdata/*/config.json")
	if err != nil || len(variants) < 30 {
		f.Fatalf("%d configurations under testdata: %v", len(variants), err)
	}
	for _, path := range variants {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"model_type":"llama","rope_parameters":{"rope_type":"llama3","factor":8}}`))
	f.Add([]byte(`{"model_type":"bert","num_hidden_layers":1e300}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := weights.ParseConfig("config.json", data)
		if err != nil {
			return
		}
		d, err := describeHF(c)
		if err != nil {
			return
		}
		cfg := d.config()
		if cfg.Layers < 1 || cfg.Layers > maxLayers || cfg.Heads%cfg.KVHeads != 0 || cfg.HeadDim < 1 || cfg.MaxSeq < 1 {
			t.Fatalf("accepted %+v", cfg)
		}
		d.names(weights.HuggingFace)
	})
}
