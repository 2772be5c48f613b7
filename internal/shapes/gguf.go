package shapes

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"

	"hotpath/internal/format/gguf"
	"hotpath/internal/tensor"
)

// ggufNames turns Llama's names of Hugging Face into those of GGUF.
var ggufNames = strings.NewReplacer("model.layers.", "blk.", "model.embed_tokens", "token_embd", "model.norm", "output_norm",
	"self_attn.q_proj", "attn_q", "self_attn.k_proj", "attn_k", "self_attn.v_proj", "attn_v", "self_attn.o_proj", "attn_output",
	"mlp.gate_proj", "ffn_gate", "mlp.up_proj", "ffn_up", "mlp.down_proj", "ffn_down",
	"input_layernorm", "attn_norm", "post_attention_layernorm", "ffn_norm")

// randomRows is how many rows of a matrix differ; the others repeat them.
const randomRows = 64

// WriteGGUF makes a GGUF file without a tokenizer, of a shape of Llama, whose matrices
// have a storage type. It takes about a second per GB.
func (s Shape) WriteGGUF(path string, d tensor.DType) error {
	if !s.llama {
		return fmt.Errorf("%s: only shapes of Llama are written as GGUF", path)
	}
	var w gguf.Writer
	for _, f := range []struct {
		key   string
		value any
	}{
		{"general.architecture", "llama"},
		{"llama.block_count", uint32(s.layers)},
		{"llama.context_length", uint32(8192)},
		{"llama.embedding_length", uint32(s.dim)},
		{"llama.feed_forward_length", uint32(s.ffn)},
		{"llama.attention.head_count", uint32(s.heads)},
		{"llama.attention.head_count_kv", uint32(s.kv)},
		{"llama.attention.layer_norm_rms_epsilon", float32(1e-5)},
		{"llama.rope.freq_base", float32(100000)},
	} {
		if err := w.Set(f.key, f.value); err != nil {
			return err
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	err := s.tensors(func(name string, dims ...int) error {
		name = ggufNames.Replace(name)
		if len(dims) == 1 {
			data := make([]byte, tensor.F32.RowBytes(dims[0]))
			if err := tensor.Quantize(data, tensor.F32, ones(dims[0])); err != nil {
				return err
			}
			return w.Add(name, tensor.F32, dims, data)
		}
		rows, row := min(dims[0], randomRows), d.RowBytes(dims[1])
		values := make([]float32, rows*dims[1])
		for i := range values {
			values[i] = float32(r.NormFloat64()) * deviation
		}
		data := make([]byte, rows*row)
		if err := tensor.Quantize(data, d, values); err != nil {
			return err
		}
		return w.AddStream(name, d, dims, func(out io.Writer) error {
			for at := 0; at < dims[0]; at += rows {
				if _, err := out.Write(data[:min(rows, dims[0]-at)*row]); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	return w.WriteFile(path)
}

func ones(n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = 1
	}
	return out
}
