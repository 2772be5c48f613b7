package train

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"hotpath/internal/format/safetensors"
	"hotpath/internal/graph/grad"
	"hotpath/internal/model"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// llamaDir writes a Llama of a shape, all zeros, for weights to be drawn into.
func llamaDir(b *testing.B, dim, layers, heads, ffn, vocab int) string {
	b.Helper()
	dir := b.TempDir()
	config, err := json.Marshal(map[string]any{
		"model_type": "llama", "hidden_size": dim, "num_hidden_layers": layers, "num_attention_heads": heads,
		"intermediate_size": ffn, "vocab_size": vocab, "max_position_embeddings": 1024, "tie_word_embeddings": true,
	})
	must(b, err)
	must(b, os.WriteFile(filepath.Join(dir, "config.json"), config, 0o666))
	w := &safetensors.Writer{}
	zeros := make([]byte, 4*max(vocab, ffn)*dim)
	add := func(name string, dims ...int) {
		n := 4
		for _, d := range dims {
			n *= d
		}
		must(b, w.Add(name+".weight", tensor.F32, dims, zeros[:n]))
	}
	add("model.embed_tokens", vocab, dim)
	add("model.norm", dim)
	for i := range layers {
		key := fmt.Sprintf("model.layers.%d.", i)
		add(key+"input_layernorm", dim)
		add(key+"post_attention_layernorm", dim)
		for _, p := range []string{"q", "k", "v", "o"} {
			add(key+"self_attn."+p+"_proj", dim, dim)
		}
		add(key+"mlp.gate_proj", ffn, dim)
		add(key+"mlp.up_proj", ffn, dim)
		add(key+"mlp.down_proj", dim, ffn)
	}
	must(b, writeSynced(filepath.Join(dir, "model.safetensors"), w))
	return dir
}

// BenchmarkStep is one optimizer step of a small Llama on 16 sequences of 256.
func BenchmarkStep(b *testing.B) {
	const vocab, seqs, length = 4096, 16, 256
	st, err := weights.Open(llamaDir(b, 288, 6, 6, 768, vocab))
	must(b, err)
	defer func() { must(b, st.Close()) }()
	m, err := model.Open(st)
	must(b, err)
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprintf("model=llama288x6/workers=%d", workers), func(b *testing.B) {
			n := seqs * length
			r, err := newRunner(b.Context(), m, Options{Backend: cpuBackend(b, workers)}, tensor.Bind{T: n, S: seqs, R: n})
			must(b, err)
			defer func() { must(b, r.close()) }()
			must(b, r.randomize(1, 6))
			rng := rand.New(rand.NewPCG(1, 2))
			r.in.reset()
			ids := make([]int32, length+1)
			for range seqs {
				for i := range ids {
					ids[i] = int32(rng.IntN(vocab))
				}
				if !r.in.add(ids) {
					b.Fatal("no room for a sequence")
				}
			}
			h := grad.Hyper{LR: 1e-3, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Clip: 1}
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := r.run(context.Background(), h, 1); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "tok/s")
		})
	}
}
