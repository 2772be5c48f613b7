// Package shapes makes models with random weights in the shapes of known ones, for
// measurements on machines without their files.
//
// Only programs that measure import it. Errors are those of writing files.
package shapes

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"hotpath/internal/format/safetensors"
	"hotpath/internal/tensor"
)

// Shape is the sizes of a model, of Llama's architecture or of BERT's.
type Shape struct {
	dim, ffn, layers, heads, kv, vocab int
	dtype                              tensor.DType // of weights in a folder
	llama                              bool
}

// deviation of random weights: so small that answers stay finite.
const deviation = 0.02

// Known are shapes by name.
var Known = map[string]Shape{
	"minilm":   {dim: 384, ffn: 1536, layers: 6, heads: 12, kv: 12, vocab: 30522, dtype: tensor.F32},
	"smollm2":  {dim: 576, ffn: 1536, layers: 30, heads: 9, kv: 3, vocab: 49152, dtype: tensor.BF16, llama: true},
	"llama-1b": {dim: 2048, ffn: 8192, layers: 16, heads: 32, kv: 8, vocab: 128256, dtype: tensor.BF16, llama: true},
}

// Vocab is the number of tokens.
func (s Shape) Vocab() int { return s.vocab }

// config is what config.json says of the shape.
func (s Shape) config() map[string]any {
	c := map[string]any{"model_type": "bert", "architectures": []string{"BertModel"}, "hidden_act": "gelu", "layer_norm_eps": 1e-12, "max_position_embeddings": 512, "type_vocab_size": 2, "pad_token_id": 0}
	if s.llama {
		c = map[string]any{"model_type": "llama", "architectures": []string{"LlamaForCausalLM"}, "hidden_act": "silu", "rms_norm_eps": 1e-5, "max_position_embeddings": 8192,
			"rope_theta": 100000.0, "tie_word_embeddings": true, "num_key_value_heads": s.kv, "bos_token_id": 0, "eos_token_id": 0}
	}
	for k, v := range map[string]any{"hidden_size": s.dim, "intermediate_size": s.ffn, "num_hidden_layers": s.layers, "num_attention_heads": s.heads, "vocab_size": s.vocab} {
		c[k] = v
	}
	return c
}

// tensors calls f with every tensor of the model.
func (s Shape) tensors(f func(name string, dims ...int) error) error {
	linear := func(name string, out, in int) error {
		if err := f(name+".weight", out, in); err != nil || s.llama {
			return err
		}
		return f(name+".bias", out)
	}
	norm := func(name string) error {
		if err := f(name+".weight", s.dim); err != nil || s.llama {
			return err
		}
		return f(name+".bias", s.dim)
	}
	type matrix struct {
		name    string
		out, in int
	}
	kv := s.dim / s.heads * s.kv
	embeddings := []matrix{{"embeddings.word_embeddings", s.vocab, s.dim}, {"embeddings.position_embeddings", 512, s.dim}, {"embeddings.token_type_embeddings", 2, s.dim}}
	prefix, norms, first := "encoder.layer.", []string{"attention.output.LayerNorm", "output.LayerNorm"}, "embeddings.LayerNorm"
	parts := []matrix{{"attention.self.query", s.dim, s.dim}, {"attention.self.key", s.dim, s.dim}, {"attention.self.value", s.dim, s.dim}, {"attention.output.dense", s.dim, s.dim}, {"intermediate.dense", s.ffn, s.dim}, {"output.dense", s.dim, s.ffn}}
	if s.llama {
		embeddings = []matrix{{"model.embed_tokens", s.vocab, s.dim}}
		prefix, norms, first = "model.layers.", []string{"input_layernorm", "post_attention_layernorm"}, "model.norm"
		parts = []matrix{{"self_attn.q_proj", s.dim, s.dim}, {"self_attn.k_proj", kv, s.dim}, {"self_attn.v_proj", kv, s.dim}, {"self_attn.o_proj", s.dim, s.dim}, {"mlp.gate_proj", s.ffn, s.dim}, {"mlp.up_proj", s.ffn, s.dim}, {"mlp.down_proj", s.dim, s.ffn}}
	}
	for _, m := range embeddings {
		if err := f(m.name+".weight", m.out, m.in); err != nil {
			return err
		}
	}
	if err := norm(first); err != nil {
		return err
	}
	for l := range s.layers {
		at := fmt.Sprintf("%s%d.", prefix, l)
		for _, m := range parts {
			if err := linear(at+m.name, m.out, m.in); err != nil {
				return err
			}
		}
		for _, n := range norms {
			if err := norm(at + n); err != nil {
				return err
			}
		}
	}
	return nil
}

// WriteDir makes a Hugging Face directory without a tokenizer. Weights are small, so that answers stay finite;
// those of norms are 1.
func (s Shape) WriteDir(folder string) error {
	config, err := json.Marshal(s.config())
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "config.json"), config, 0o666); err != nil {
		return err
	}
	w := safetensors.Writer{Metadata: map[string]string{"format": "pt"}}
	r := rand.New(rand.NewPCG(1, 2))
	err = s.tensors(func(name string, dims ...int) error {
		n := dims[0]
		if len(dims) > 1 {
			n *= dims[1]
		}
		values := make([]float32, n)
		for i := range values {
			if values[i] = float32(r.NormFloat64()) * deviation; len(dims) == 1 && filepath.Ext(name) == ".weight" {
				values[i] = 1
			}
		}
		data := make([]byte, s.dtype.RowBytes(n))
		if err := tensor.Quantize(data, s.dtype, values); err != nil {
			return err
		}
		return w.Add(name, s.dtype, dims, data)
	})
	if err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(folder, "model.safetensors"))
	if err != nil {
		return err
	}
	if _, err := w.WriteTo(out); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// FLOPs are those of embedding one token of a text of some tokens.
func (s Shape) FLOPs(tokens int) float64 {
	d, f := float64(s.dim), float64(s.ffn)
	return float64(s.layers) * (8*d*d + 4*d*f + 4*d*float64(tokens))
}
