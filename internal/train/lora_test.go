package train

import (
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/model"
	"hotpath/internal/tensor"
	"hotpath/internal/testmodels"
	"hotpath/internal/weights"
)

// TestLoRA: over plain and quantized files only the adapters are trained, a
// resumed run goes on exactly, and the merged checkpoint computes what base and
// adapters compute together.
func TestLoRA(t *testing.T) {
	for _, name := range []string{"llama", "gguf/llama-q8_0.gguf", "gpt2"} {
		t.Run(strings.ReplaceAll(name, "/", "-"), func(t *testing.T) {
			c := fixture(t, name)
			c.LoRA = LoRAConfig{Rank: 3, Roles: []string{"q", "v", "o", "down"}}
			c.CheckpointEvery, c.Keep, c.LR, c.Steps = 4, 0, 3e-2, 24
			be := cpuBackend(t, 2)
			var whole, rest losses
			res, err := Run(t.Context(), c, Options{Backend: be, OnStep: whole.add})
			must(t, err)
			if first, last := whole[:4].mean(), whole[20:].mean(); !(last < first) {
				t.Errorf("loss %g became %g", first, last)
			}

			again := c
			again.Out = t.TempDir()
			_, err = Run(t.Context(), again, Options{Backend: be, Resume: checkpointDir(c.Out, 4), OnStep: rest.add})
			must(t, err)
			if !slices.Equal(rest, whole[4:]) {
				t.Errorf("a resumed run has steps\n%+v, want\n%+v", rest, whole[4:])
			}

			// One batch by the base with its adapters, and by the merged checkpoint.
			tr, err := New(t.Context(), c, Options{Backend: be, Resume: res.Checkpoint})
			must(t, err)
			defer func() { must(t, tr.Close()) }()
			for _, p := range tr.runner.parts.Params {
				if !p.Fresh {
					t.Errorf("%s is trained", p.Key)
				}
			}
			tr.cfg.Steps++
			want, err := tr.Step(t.Context())
			must(t, err)
			merged := c
			merged.Model, merged.Out, merged.LoRA = res.Checkpoint, t.TempDir(), LoRAConfig{}
			m, err := New(t.Context(), merged, Options{Backend: be})
			must(t, err)
			defer func() { must(t, m.Close()) }()
			m.data.at = st(t, res.Checkpoint)
			got, err := m.Step(t.Context())
			must(t, err)
			if d := math.Abs(float64(got.Loss/want.Loss - 1)); !(d <= 1e-4) {
				t.Errorf("the merged model has loss %g, base and adapters %g", got.Loss, want.Loss)
			}
			base := open(t, c.Model)
			changed := 0
			for _, key := range []string{"blk.0.attn_q.weight", "blk.1.ffn_down.weight", "blk.0.ffn_up.weight", "token_embd.weight"} {
				if !slices.Equal(values(t, base, key), values(t, open(t, res.Checkpoint), key)) {
					changed++
				}
			}
			if changed != 2 {
				t.Errorf("%d of four weights changed, want the two with adapters", changed)
			}
		})
	}
	c := fixture(t, "llama")
	c.LoRA = LoRAConfig{Rank: 1000}
	if _, err := New(t.Context(), c, Options{Backend: cpuBackend(t, 1)}); err == nil || !strings.Contains(err.Error(), "a rank of 1000 for blk.0.attn_q.weight") {
		t.Errorf("error %v of a rank beyond the weight", err)
	}
}

func (l losses) mean() (sum float32) {
	for _, s := range l {
		sum += s.Loss / float32(len(l))
	}
	return sum
}

// st is the position of a checkpoint.
func st(t *testing.T, dir string) Position {
	t.Helper()
	s, err := readState(dir)
	must(t, err)
	defer func() { must(t, s.close()) }()
	return s.At
}

func open(t *testing.T, path string) *model.Model {
	t.Helper()
	st, err := weights.Open(path)
	must(t, err)
	t.Cleanup(func() { must(t, st.Close()) })
	m, err := model.Open(st)
	must(t, err)
	return m
}

func values(t *testing.T, m *model.Model, key string) []float32 {
	t.Helper()
	w, err := m.Weight(key)
	must(t, err)
	f, err := w.F32()
	must(t, err)
	return f
}

// encoderExamples are examples of random ids for an encoder.
func encoderExamples(n, seqs int) []Example {
	es := make([]Example, n)
	for i := range es {
		for j := range seqs {
			ids := make([]int32, 5+(i+3*j)%7)
			for k := range ids {
				ids[k] = int32(20 + (i*31+j*7+k*13)%300)
			}
			es[i].Seqs = append(es[i].Seqs, Sequence{IDs: ids})
		}
		es[i].Label, es[i].Score = int32(i%3), float32(i%3)/2
	}
	return es
}

// TestEncodersTrain: encoders train by every objective that is for them, their
// checkpoints open, and a resumed run goes on exactly.
func TestEncodersTrain(t *testing.T) {
	for _, k := range []struct {
		model string
		obj   ObjectiveConfig
		kind  Kind
		seqs  int
		lora  LoRAConfig
	}{
		{"bert", ObjectiveConfig{Type: "mlm"}, Text, 1, LoRAConfig{}},
		{"modernbert", ObjectiveConfig{Type: "mlm"}, Text, 1, LoRAConfig{}},
		{"mpnet", ObjectiveConfig{Type: "contrastive", Dims: []int{32, 8}, Batch: 6}, Pairs, 3, LoRAConfig{}},
		{"bert", ObjectiveConfig{Type: "contrastive", Symmetric: true, Batch: 6}, Pairs, 2, LoRAConfig{Rank: 4}},
		{"../../model/testdata/encoders/sentence-dense", ObjectiveConfig{Type: "contrastive", Batch: 6}, Pairs, 2, LoRAConfig{}},
		{"../../model/testdata/encoders/sentence-residual", ObjectiveConfig{Type: "contrastive", Batch: 6}, Pairs, 2, LoRAConfig{}},
		{"gguf/bert-q8_0.gguf", ObjectiveConfig{Type: "contrastive", Batch: 6}, Pairs, 2, LoRAConfig{}},
		{"../../model/testdata/encoders/static", ObjectiveConfig{Type: "contrastive", Batch: 6}, Pairs, 2, LoRAConfig{}},
		{"../../model/testdata/encoders/static-dense", ObjectiveConfig{Type: "contrastive", Batch: 6}, Pairs, 2, LoRAConfig{}},
		{"../../model/testdata/encoders/static-model2vec", ObjectiveConfig{Type: "contrastive", Batch: 6}, Pairs, 2, LoRAConfig{}},
		{"bert", ObjectiveConfig{Type: "classify", Labels: 3}, Labelled, 1, LoRAConfig{}},
		{"distilbert", ObjectiveConfig{Type: "classify", Labels: 3}, Labelled, 1, LoRAConfig{}},
		{"llama", ObjectiveConfig{Type: "classify", Labels: 3}, Labelled, 1, LoRAConfig{}},
		{"gguf/llama-f16.gguf", ObjectiveConfig{Type: "classify", Labels: 3}, Labelled, 1, LoRAConfig{Rank: 2}},
		{"roberta", ObjectiveConfig{Type: "regress"}, Scored, 2, LoRAConfig{}},
		{"nomic-bert", ObjectiveConfig{Type: "distill_embedding", Teacher: testmodels.Dir(t, "bert")}, Text, 1, LoRAConfig{}},
	} {
		t.Run(strings.ReplaceAll(k.model, "/", "-")+"-"+k.obj.Type, func(t *testing.T) {
			c := fixture(t, k.model)
			c.Steps, c.BatchTokens, c.LR, c.Objective, c.LoRA, c.CheckpointEvery, c.Keep = 12, 300, 3e-3, k.obj, k.lora, 5, 0
			src, err := NewMemory(k.kind, encoderExamples(12, k.seqs))
			must(t, err)
			o := Options{Backend: cpuBackend(t, 2), Source: src}
			var whole, rest losses
			o.OnStep = whole.add
			res, err := Run(t.Context(), c, o)
			must(t, err)
			if first, last := whole[:3].mean(), whole[9:].mean(); !(last < first) {
				t.Errorf("loss %g became %g", first, last)
			}
			again := c
			again.Out = t.TempDir()
			o.OnStep, o.Resume = rest.add, checkpointDir(c.Out, 5)
			_, err = Run(t.Context(), again, o)
			must(t, err)
			if !slices.Equal(rest, whole[5:]) {
				t.Errorf("a resumed run has steps\n%+v, want\n%+v", rest, whole[5:])
			}
			m := open(t, res.Checkpoint)
			if n := k.obj.Labels; m.Config().Labels != n || (n > 0) != m.Config().CanRerank {
				t.Errorf("the checkpoint scores %d labels, want %d", m.Config().Labels, n)
			}
			if _, _, err := m.BuildEmbed(tensor.Bind{T: 8, S: 1, R: 1}, model.EmbedOptions{Pooling: m.Config().Pooling}); err != nil {
				t.Error(err)
			}
		})
	}
	c := fixture(t, "llama")
	c.Objective.Type = "contrastive"
	src, err := NewMemory(Labelled, encoderExamples(3, 1))
	must(t, err)
	if _, err := New(t.Context(), c, Options{Backend: cpuBackend(t, 1), Source: src}); err == nil || !strings.Contains(err.Error(), "examples of kind labelled, expected one of [pairs]") {
		t.Errorf("error %v of the wrong kind", err)
	}
	c = fixture(t, "bert")
	c.Objective.Type, c.MicroTokens = "contrastive", 32
	if src, err = NewMemory(Pairs, encoderExamples(9, 7)); err != nil {
		t.Fatal(err)
	}
	if _, err := New(t.Context(), c, Options{Backend: cpuBackend(t, 1), Source: src}); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "field micro_tokens: expected at least 49") {
		t.Errorf("error %v of an example that is longer than a run", err)
	}
	c = fixture(t, "bert")
	c.Model, c.Objective = filepath.Join("..", "model", "testdata", "mixtral"), ObjectiveConfig{}
	if src, err = NewMemory(Text, encoderExamples(3, 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := New(t.Context(), c, Options{Backend: cpuBackend(t, 1), Source: src}); err == nil || !strings.Contains(err.Error(), "mixtures of experts cannot be trained") {
		t.Errorf("error %v of a mixture of experts", err)
	}
}

// TestFreeze: weights of the named roles stay as they are.
func TestFreeze(t *testing.T) {
	c := fixture(t, "llama")
	c.Steps, c.Warmup, c.Objective.Freeze = 2, 0, []string{"embedding", "q", "norm"}
	res, err := Run(t.Context(), c, Options{Backend: cpuBackend(t, 1)})
	must(t, err)
	before, after := open(t, c.Model), open(t, res.Checkpoint)
	for key, stays := range map[string]bool{"token_embd.weight": true, "blk.0.attn_q.weight": true, "output_norm.weight": true, "blk.0.attn_v.weight": false, "output.weight": false} {
		if slices.Equal(values(t, before, key), values(t, after, key)) != stays {
			t.Errorf("%s stays: %v, want %v", key, !stays, stays)
		}
	}
	c.Objective.Freeze = []string{"queries"}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), `field objective.freeze: expected one of embedding, position, q`) {
		t.Errorf("error %v", err)
	}
}
