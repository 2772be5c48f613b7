package model

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/format/safetensors"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// variant copies a model of testdata with another config.json; a nil value
// removes a field.
func variant(t *testing.T, name string, change map[string]any) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	if err := os.CopyFS(dir, os.DirFS("testdata/"+name)); err != nil {
		t.Fatal(err)
	}
	changeJSON(t, filepath.Join(dir, "config.json"), change)
	return dir
}

// What is not there is refused by name, never ignored.
func TestDecodersRefuse(t *testing.T) {
	type object = map[string]any
	invalid, unsupported := weights.ErrInvalid, weights.ErrUnsupported
	for _, c := range []struct {
		model  string
		change object
		kind   error
		words  []string
	}{
		{"stablelm", object{"qk_layernorm": true}, weights.ErrNoTensor, []string{"q_layernorm.norms.0.weight", "32"}},
		{"phi2", object{"qk_layernorm": true}, weights.ErrNoTensor, []string{"q_layernorm.weight", "8"}},
		{"cohere", object{"use_qk_norm": true}, weights.ErrNoTensor, []string{"q_norm.weight", "16"}},
		{"gemma2", object{"use_bidirectional_attention": true}, unsupported, []string{"use_bidirectional_attention"}},
		{"starcoder2", object{"norm_type": "rms_norm"}, unsupported, []string{"norm_type", "rms_norm"}},
		{"qwen2", object{"layer_types": []string{"full_attention"}}, invalid, []string{"layer_types", "3"}},
		{"qwen3", object{"hidden_act": "no_such"}, unsupported, []string{"hidden_act", "no_such"}},
		{"mistral", object{"sliding_window": -1}, invalid, []string{"sliding_window", "-1"}},
		{"granite", object{"residual_multiplier": 0}, invalid, []string{"residual_multiplier"}},
		{"granite", object{"attention_multiplier": -1}, invalid, []string{"attention_multiplier", "-1"}},
		{"smollm3", object{"no_rope_layers": []int{1}}, invalid, []string{"no_rope_layers", "4"}},
		{"mixtral", object{"num_experts_per_tok": 6}, invalid, []string{"num_experts_per_tok", "5", "6"}},
		{"mixtral", object{"num_local_experts": 6}, invalid, []string{"gate.weight", "[5 16]", "[6 16]"}},
		{"qwen3-moe", object{"moe_intermediate_size": 13}, invalid, []string{"experts", "[72 16]", "[78 16]"}},
		{"llama-longrope", object{"rope_parameters": object{"rope_type": "longrope", "original_max_position_embeddings": 32, "short_factor": []float64{1}, "long_factor": []float64{1, 2, 3, 4}}},
			invalid, []string{"rope_parameters.short_factor", "4"}},
		{"llama-longrope", object{"rope_parameters": object{"rope_type": "longrope", "original_max_position_embeddings": 32, "short_factor": []float64{1, 1, 1, 0}, "long_factor": []float64{1, 2, 3, 4}}},
			invalid, []string{"rope_parameters.short_factor", "above 0"}},
		{"llama-yarn", object{"rope_parameters": object{"rope_type": "yarn", "factor": 0}}, invalid, []string{"rope_parameters.factor"}},
		{"gpt-neox", object{"rope_parameters": object{"partial_rotary_factor": 0.4}}, invalid, []string{"partial_rotary_factor", "even"}},
		{"phi3", object{"num_key_value_heads": 4}, invalid, []string{"qkv_proj", "[80 40]", "120 rows"}},
		// Too many rows are as wrong as too few: they belong to another model.
		{"phi3", object{"num_key_value_heads": 1}, invalid, []string{"qkv_proj", "[80 40]", "60 rows"}},
		{"falcon-sequential", object{"multi_query": true}, invalid, []string{"query_key_value", "[48 16]", "24 rows"}},
		{"falcon-new", object{"num_kv_heads": 1}, invalid, []string{"query_key_value", "[32 16]", "24 rows"}},
	} {
		t.Run(c.model, func(t *testing.T) {
			refused(t, variant(t, c.model, c.change), c.kind, c.words...)
		})
	}
}

// Weights that are cut out of fused tensors, or put together of several, go
// back to where they were.
func TestExportOfFusedTensors(t *testing.T) {
	for _, name := range []string{"phi3", "gpt-neox", "gpt-neox-sequential", "falcon", "falcon-new", "falcon-sequential", "stablelm-heads", "mixtral"} {
		m := open(t, "testdata/"+name)
		names := 0
		err := m.Export(func(key string) ([]float32, error) {
			w, err := m.Weight(key)
			if err != nil {
				return nil, err
			}
			return w.F32()
		}, func(w weights.Tensor) error {
			names++
			was, err := m.store.Get(w.Name)
			if err == nil && !slices.Equal(w.Data, was.Data) {
				t.Errorf("%s: %s is another one", name, w.Name)
			}
			return err
		})
		if err != nil || names == 0 {
			t.Errorf("%s: %d tensors, %v", name, names, err)
		}
	}
}

// Every family can be trained, but for mixtures of experts, which say why not.
func TestEveryFamilyTrains(t *testing.T) {
	dirs, err := filepath.Glob("testdata/*/reference.json")
	if err != nil || len(dirs) < 30 {
		t.Fatalf("%d models, %v", len(dirs), err)
	}
	for _, dir := range dirs {
		m := open(t, filepath.Dir(dir))
		_, _, parts, err := m.BuildTrain(tensor.Bind{T: 8, S: 2, R: 8}, TrainOptions{})
		switch {
		case m.cfg.Experts > 0:
			if err == nil || !strings.Contains(err.Error(), "cannot be trained") {
				t.Errorf("%s: %v", dir, err)
			}
		case err != nil || len(parts.Params) < 10:
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// A field that is null asks for none of what a missing one asks for: Mistral's
// later models see all tokens.
func TestNullIsNotMissing(t *testing.T) {
	null := json.RawMessage("null")
	for _, name := range []string{"mistral", "mixtral", "qwen2", "gemma2", "phi3"} {
		m := open(t, variant(t, name, map[string]any{"sliding_window": null, "use_sliding_window": true}))
		if w := m.Config().Windows; slices.Max(append(w, 0)) != 0 {
			t.Errorf("%s: windows %v", name, w)
		}
	}
	m := open(t, variant(t, "gemma2", map[string]any{"attn_logit_softcapping": null, "final_logit_softcapping": null}))
	if d := m.desc.(gemma); d.scoreCap != 0 || d.logitCap != 0 {
		t.Errorf("caps %g and %g", d.scoreCap, d.logitCap)
	}
}

// Where rounding changes answers more than elsewhere, models say so.
func TestDelicate(t *testing.T) {
	type object = map[string]any
	for _, c := range []struct {
		model  string
		change object
		want   bool
	}{
		{"granite", object{"attention_multiplier": 0.3}, false},
		{"granite", object{"attention_multiplier": 1.2}, true},
		{"gpt2-scaled", object{"scale_attn_weights": false, "scale_attn_by_inverse_layer_idx": false}, true},
		{"llama3", object{}, false},
		{"llama-yarn", object{}, false},
		{"llama-yarn", object{"rope_parameters": object{"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 32, "attention_factor": 1.5}}, true},
		{"mixtral", object{}, true},
	} {
		if m := open(t, variant(t, c.model, c.change)); m.cfg.Delicate != c.want {
			t.Errorf("%s %v: delicate %v", c.model, c.change, m.cfg.Delicate)
		}
	}
}

// A text is no longer than a dynamic rope stretches.
func TestDynamicRopeStretchesTheContext(t *testing.T) {
	if c := open(t, "testdata/llama-dynamic").Config(); c.MaxSeq != 120 || c.RopeContext != 40 || c.RopeRestarts {
		t.Errorf("%d tokens, context %d, restarts %v", c.MaxSeq, c.RopeContext, c.RopeRestarts)
	}
}

// Experts stacked into one tensor, gate and up together, as transformers 5 has
// them in memory, are the same model.
func TestStackedExperts(t *testing.T) {
	m := open(t, "testdata/qwen3-moe")
	dir := variant(t, "qwen3-moe", nil)
	var w safetensors.Writer
	stack := func(name string, dims []int, parts ...string) {
		var data []byte
		for _, part := range parts {
			x, err := m.store.Get(part)
			if err != nil {
				t.Fatal(err)
			}
			data = append(data, x.Data...)
		}
		if err := w.Add(name, tensor.F32, dims, data); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range m.store.Names() {
		x, err := m.store.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(name, ".experts.") {
			continue
		}
		if err := w.Add(name, x.DType, x.Dims, x.Data); err != nil {
			t.Fatal(err)
		}
	}
	for _, layer := range []int{0, 2} { // the other has no experts
		at := fmt.Sprintf("model.layers.%d.mlp.experts.", layer)
		var both, down []string
		for e := range 6 {
			one := fmt.Sprintf("%s%d.", at, e)
			both = append(both, one+"gate_proj.weight", one+"up_proj.weight")
			down = append(down, one+"down_proj.weight")
		}
		stack(at+"gate_up_proj", []int{6, 24, 16}, both...)
		stack(at+"down_proj", []int{6, 16, 12}, down...)
	}
	f, err := os.Create(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteTo(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	seqs := [][]int{{1, 2, 3, 4, 5, 6, 7, 8, 9}}
	want, got := scoreAll(t, m, seqs, 16), scoreAll(t, open(t, dir), seqs, 16)
	if !slices.Equal(got[0], want[0]) {
		t.Errorf("scores %v, want %v", got[0], want[0])
	}
}
