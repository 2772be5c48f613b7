//go:build unix

package train

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/format/safetensors"
	"hotpath/internal/graph/grad"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
	"hotpath/profile"
	"hotpath/profile/report"
)

// zeroDir writes a model of zeros, for weights to be drawn into.
func zeroDir(b *testing.B, config map[string]any, tensors func(add func(name string, dims ...int))) string {
	b.Helper()
	dir := b.TempDir()
	text, err := json.Marshal(config)
	must(b, err)
	must(b, os.WriteFile(filepath.Join(dir, "config.json"), text, 0o666))
	most := 0
	size := func(dims []int) int {
		n := 4
		for _, d := range dims {
			n *= d
		}
		return n
	}
	tensors(func(_ string, dims ...int) { most = max(most, size(dims)) })
	w, zeros := &safetensors.Writer{}, make([]byte, most)
	tensors(func(name string, dims ...int) { must(b, w.Add(name, tensor.F32, dims, zeros[:size(dims)])) })
	must(b, writeSynced(filepath.Join(dir, "model.safetensors"), w))
	return dir
}

func llamaDir(b *testing.B, dim, layers, heads, ffn, vocab int) string {
	return zeroDir(b, map[string]any{
		"model_type": "llama", "hidden_size": dim, "num_hidden_layers": layers, "num_attention_heads": heads,
		"intermediate_size": ffn, "vocab_size": vocab, "max_position_embeddings": 1024, "tie_word_embeddings": true,
	}, func(add func(name string, dims ...int)) {
		add("model.embed_tokens.weight", vocab, dim)
		add("model.norm.weight", dim)
		for i := range layers {
			key := fmt.Sprintf("model.layers.%d.", i)
			add(key+"input_layernorm.weight", dim)
			add(key+"post_attention_layernorm.weight", dim)
			for _, p := range []string{"q", "k", "v", "o"} {
				add(key+"self_attn."+p+"_proj.weight", dim, dim)
			}
			add(key+"mlp.gate_proj.weight", ffn, dim)
			add(key+"mlp.up_proj.weight", ffn, dim)
			add(key+"mlp.down_proj.weight", dim, ffn)
		}
	})
}

func gpt2Dir(b *testing.B, dim, layers, heads, vocab int) string {
	return zeroDir(b, map[string]any{
		"model_type": "gpt2", "n_embd": dim, "n_layer": layers, "n_head": heads, "vocab_size": vocab, "n_positions": 1024,
	}, func(add func(name string, dims ...int)) {
		both := func(name string, dims ...int) {
			add(name+".weight", dims...)
			add(name+".bias", dims[len(dims)-1])
		}
		add("wte.weight", vocab, dim)
		add("wpe.weight", 1024, dim)
		both("ln_f", dim)
		for i := range layers {
			key := fmt.Sprintf("h.%d.", i)
			both(key+"ln_1", dim)
			both(key+"ln_2", dim)
			both(key+"attn.c_attn", dim, 3*dim) // Hugging Face keeps them transposed
			both(key+"attn.c_proj", dim, dim)
			both(key+"mlp.c_fc", dim, 4*dim)
			both(key+"mlp.c_proj", 4*dim, dim)
		}
	})
}

// BenchmarkStep is one optimizer step of a small Llama and of GPT-2 124M. With
// HOTPATH_BENCH_PROFILE set it writes where the time of the steps went to that file.
func BenchmarkStep(b *testing.B) {
	for _, c := range []struct {
		name                        string
		dir                         func(b *testing.B) string
		layers, vocab, seqs, length int
	}{
		{"llama288x6", func(b *testing.B) string { return llamaDir(b, 288, 6, 6, 768, 4096) }, 6, 4096, 16, 256},
		{"gpt2", func(b *testing.B) string { return gpt2Dir(b, 768, 12, 12, 50257) }, 12, 50257, 4, 64},
	} {
		b.Run("model="+c.name, func(b *testing.B) {
			st, err := weights.Open(c.dir(b))
			must(b, err)
			defer func() { must(b, st.Close()) }()
			m, err := model.Open(st)
			must(b, err)
			for _, p := range []cpu.Precision{cpu.F32, cpu.BF16} {
				for _, workers := range []int{1, 2} {
					b.Run(fmt.Sprintf("precision=%s/workers=%d", p, workers), func(b *testing.B) {
						step(b, m, p, workers, c.layers, c.vocab, c.seqs, c.length)
					})
				}
			}
		})
	}
}

func step(b *testing.B, m *model.Model, p cpu.Precision, workers, layers, vocab, seqs, length int) {
	n := seqs * length
	var rec *profile.Recorder
	if os.Getenv("HOTPATH_BENCH_PROFILE") != "" {
		rec = profile.NewRecorder(profile.Options{})
	}
	be, err := cpu.New(cpu.Options{Workers: workers, Precision: p})
	must(b, err)
	defer func() { must(b, be.Close()) }()
	r, err := newRunner(b.Context(), m, Options{Backend: be}, tensor.Bind{T: n, S: seqs, R: n})
	must(b, err)
	defer func() { must(b, r.close()) }()
	must(b, r.randomize(1, layers))
	rng := rand.New(rand.NewPCG(1, 2))
	r.in.Reset()
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
	_, _, err = r.runStep(context.Background(), h, 1) // the first step touches the pages of moments and gradients
	must(b, err)
	must(b, r.sess.Attach(rec, plan.ProfileLabels{Model: m.Config().Name}))
	ctx := scoped(context.Background(), rec)
	b.ReportAllocs()
	start := cpuTime(b)
	for b.Loop() {
		if _, _, err := r.runStep(ctx, h, 1); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "tok/s")
	b.ReportMetric(float64(n)*float64(b.N)/(cpuTime(b)-start).Seconds(), "tok/cpu-s") // of all workers, whatever else runs
	if rec != nil {
		var text strings.Builder
		must(b, report.Text(&text, rec.Snapshot(), report.Options{}))
		must(b, os.WriteFile(os.Getenv("HOTPATH_BENCH_PROFILE"), []byte(text.String()), 0o666))
	}
}

func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	must(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
