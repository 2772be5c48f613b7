package engine

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/format/safetensors"
	"hotpath/internal/tensor"
	"hotpath/internal/testmodels"
)

// wideLlama writes a model of random weights whose sizes tiles take: the
// fixtures' heads are too narrow for some of the ways that real models go.
func wideLlama(t *testing.T) string {
	const hidden, heads, kv, width, ffn, vocab, layers = 128, 4, 2, 32, 352, 256, 2
	config, err := os.ReadFile(filepath.Join(testmodels.Dir(t, "llama"), "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	wide := strings.NewReplacer(`"head_dim": 16`, `"head_dim": 32`, `"hidden_size": 32`, `"hidden_size": 128`,
		`"intermediate_size": 96`, `"intermediate_size": 352`, `"vocab_size": 330`, `"vocab_size": 256`).Replace(string(config))
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(wide), 0o644); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var w safetensors.Writer
	add := func(name string, scale float64, dims ...int) {
		n := 1
		for _, d := range dims {
			n *= d
		}
		data := make([]byte, 0, 4*n)
		for range n {
			v := 1.0
			if scale > 0 {
				v = scale * rng.NormFloat64()
			}
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(v)))
		}
		if err := w.Add(name, tensor.F32, dims, data); err != nil {
			t.Fatal(err)
		}
	}
	add("model.embed_tokens.weight", 1, vocab, hidden)
	add("lm_head.weight", 0.3, vocab, hidden)
	add("model.norm.weight", 0, hidden)
	for i := range layers {
		at := "model.layers." + string(rune('0'+i)) + "."
		add(at+"input_layernorm.weight", 0, hidden)
		add(at+"post_attention_layernorm.weight", 0, hidden)
		add(at+"self_attn.q_proj.weight", 0.15, heads*width, hidden)
		add(at+"self_attn.k_proj.weight", 0.15, kv*width, hidden)
		add(at+"self_attn.v_proj.weight", 0.15, kv*width, hidden)
		add(at+"self_attn.o_proj.weight", 0.15, hidden, heads*width)
		add(at+"mlp.gate_proj.weight", 0.1, ffn, hidden)
		add(at+"mlp.up_proj.weight", 0.1, ffn, hidden)
		add(at+"mlp.down_proj.weight", 0.1, hidden, ffn)
	}
	f, err := os.Create(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := w.WriteTo(f); err != nil {
		t.Fatal(err)
	}
	return dir
}

// At the default precision one sequence alone, which has plans of its own for
// one token, and several at once decode as f32 does, but where it hardly leads.
func TestDefaultPrecisionDecodesAsF32(t *testing.T) {
	dir := wideLlama(t)
	const texts, tokens = 24, 6
	rng := rand.New(rand.NewPCG(3, 4))
	var prompts [texts][]int32
	for i := range prompts {
		for range 5 + i {
			prompts[i] = append(prompts[i], rng.Int32N(256))
		}
	}
	answers := func(precision cpu.Precision, together bool) (out [texts][]int32) {
		be, err := cpu.New(cpu.Options{Workers: 2, Precision: precision})
		if err != nil {
			t.Fatal(err)
		}
		defer be.Close()
		e := openOn(t, dir, be, Options{Ctx: 128})
		defer e.Close()
		var wg sync.WaitGroup
		for i, p := range prompts {
			one := func() { out[i], _ = generate(t, e, Request{Prompt: p, MaxTokens: tokens}) }
			if together {
				wg.Go(one)
			} else {
				one()
			}
		}
		wg.Wait()
		return out
	}
	want := answers(cpu.F32, false)
	for name, got := range map[string][texts][]int32{"alone": answers(cpu.Auto, false), "together": answers(cpu.Auto, true)} {
		equal := 0
		for i := range got {
			if slices.Equal(got[i], want[i]) {
				equal++
			}
		}
		if equal < texts*3/4 {
			t.Errorf("%s: %d of %d answers are those of f32", name, equal, texts)
		}
	}
}
