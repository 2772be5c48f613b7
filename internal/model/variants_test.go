package model

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/graph"
	"hotpath/internal/tensor"
	"hotpath/internal/testmodels"
	"hotpath/internal/weights"
)

// Models under testdata are of every family of decoders and use the less common
// options of a configuration; scripts/goldens_variants.py and goldens_decoders.py
// made them and what transformers answers. Those under gguf were converted by
// llama.cpp.
func TestVariantsMatchTransformers(t *testing.T) {
	found, err := filepath.Glob("testdata/*/reference.json")
	files, also := filepath.Glob("testdata/gguf/*.json")
	if err != nil || also != nil || len(found) < 30 || len(files) < 20 {
		t.Fatalf("%d directories and %d files under testdata, expected at least 30 and 20: %v %v", len(found), len(files), err, also)
	}
	for _, reference := range append(found, files...) {
		name, file := strings.CutSuffix(filepath.ToSlash(reference), ".json")
		dir := filepath.Dir(reference)
		if file && strings.Contains(name, "/gguf/") {
			dir = strings.TrimSuffix(reference, ".json") + ".gguf"
		}
		t.Run(filepath.ToSlash(dir), func(t *testing.T) {
			var want testmodels.Reference
			data, err := os.ReadFile(reference)
			if err == nil {
				err = json.Unmarshal(data, &want)
			}
			if err != nil {
				t.Fatal(err)
			}
			if want.Kind != "lm" {
				t.Fatalf("%s: kind %q, expected lm; an encoder belongs into testmodels", reference, want.Kind)
			}
			m := open(t, dir)
			be, err := cpu.New(cpu.Options{Workers: 2, Precision: cpu.F32})
			if err != nil {
				t.Fatal(err)
			}
			defer be.Close()
			for _, step := range []int{5, 128} {
				worst := [2]float64{}
				for k, got := range [][][]float64{scoreAll(t, m, idsOf(want), step), scoreOn(t, be, m, idsOf(want), step)} {
					for i, nll := range got {
						for j, x := range nll {
							worst[k] = max(worst[k], math.Abs(x-want.Cases[i].NLL[j]))
						}
					}
				}
				if !(worst[0] <= 2e-5) || !(worst[1] <= 2e-5) {
					t.Errorf("pieces of %d: nll off by %.2e, on the CPU by %.2e", step, worst[0], worst[1])
				}
				t.Logf("pieces of %d: worst difference of nll %.1e, on the CPU %.1e", step, worst[0], worst[1])
			}
		})
	}
}

// The prefix that a class of transformers puts before every name changes
// nothing.
func TestPrefixes(t *testing.T) {
	for name, prefix := range map[string]string{"bert": "bert.", "embeddinggemma": "model."} {
		path := copyModel(t, name, nil, func(h header, data []byte) (header, []byte) {
			renamed := header{}
			for key, v := range h {
				renamed[prefix+key] = v
			}
			return renamed, data
		})
		seqs := [][]int{{2, 5, 7, 3}}
		o := EmbedOptions{Normalize: true}
		want := embedAll(t, open(t, testmodels.Dir(t, name)), seqs, o)
		if got := embedAll(t, open(t, path), seqs, o); !slices.Equal(got[0], want[0]) {
			t.Errorf("%s: another embedding with prefix %s", name, prefix)
		}
	}
}

// A GGUF file of BERT may lack the segment table, as DistilBERT does: the model
// is the one whose table is all zeros.
func TestWithoutSegments(t *testing.T) {
	const segments = "token_types.weight"
	change := func(to func(data []byte) []byte) *Model {
		return open(t, copyGGUF(t, "gguf/bert-f16", nil, func(name string, data []byte) []byte {
			if name == segments {
				return to(data)
			}
			return data
		}))
	}
	none := change(func([]byte) []byte { return nil })
	zero := change(func(data []byte) []byte { return make([]byte, len(data)) })
	if none.store.Has(segments) || !zero.store.Has(segments) {
		t.Fatal("the copies are not what they should be")
	}
	seqs, o := [][]int{{2, 5, 7, 3}, {2, 9, 3}}, EmbedOptions{Normalize: true}
	got, want := embedAll(t, none, seqs, o), embedAll(t, zero, seqs, o)
	plain := embedAll(t, open(t, testmodels.Dir(t, "gguf/bert-f16")), seqs, o)
	for i := range want {
		if !slices.Equal(got[i], want[i]) || slices.Equal(got[i], plain[i]) {
			t.Errorf("text %d: %v, expected %v", i, got[i], want[i])
		}
	}
	if got, want := none.Config().ParamCount, zero.Config().ParamCount; got >= want {
		t.Errorf("%d parameters without the table, %d with it", got, want)
	}
}

// Without a head of its own a model uses its token table, whatever
// tie_word_embeddings says.
func TestHeadIsTokenTable(t *testing.T) {
	path := copyModel(t, "llama-odd", map[string]map[string]any{"config.json": {"tie_word_embeddings": nil}}, nil)
	want := scoreAll(t, open(t, testmodels.Dir(t, "llama-odd")), [][]int{{1, 2, 3, 4}}, 8)
	got := scoreAll(t, open(t, path), [][]int{{1, 2, 3, 4}}, 8)
	if !slices.Equal(got[0], want[0]) {
		t.Errorf("scores %v, want %v", got, want)
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []struct {
		path string
		want Config
	}{
		{"llama", Config{Arch: "llama", Name: "llama", Layers: 2, Dim: 32, Heads: 4, KVHeads: 2, HeadDim: 16, FFN: 96, Vocab: 330, MaxSeq: 512,
			Causal: true, CanEmbed: true, CanGenerate: true, Pooling: graph.PoolLast}},
		{"gguf/gpt2-f16.gguf", Config{Arch: "gpt2", Name: "gpt2 fixture", Layers: 2, Dim: 40, Heads: 5, KVHeads: 5, HeadDim: 8, FFN: 160, Vocab: 330, MaxSeq: 240,
			Causal: true, CanEmbed: true, CanGenerate: true, Pooling: graph.PoolLast, Normalize: true}},
		{"bert-odd", Config{Arch: "bert", Name: "bert-odd", Layers: 2, Dim: 36, Heads: 3, KVHeads: 3, HeadDim: 12, FFN: 88, Vocab: 360, MaxSeq: 96,
			CanEmbed: true, Pooling: graph.PoolCLS, Normalize: true}},
		{"gguf/embeddinggemma-f16.gguf", Config{Arch: "gemma3", Name: "embeddinggemma fixture", Layers: 7, Dim: 32, Heads: 2, KVHeads: 1, HeadDim: 24, FFN: 56, Vocab: 430, MaxSeq: 96,
			Windows: []int{5, 5, 5, 5, 5, 0, 5}, CanEmbed: true, Normalize: true}},
	} {
		got := *open(t, testmodels.Dir(t, c.path)).Config()
		if !slices.Equal(got.Windows, c.want.Windows) || got.ParamCount == 0 || got.BytesOnDisk < 2*got.ParamCount {
			t.Errorf("%s: %+v", c.path, got)
		}
		got.Windows, c.want.Windows = nil, nil
		if c.want.EmbedDim == 0 {
			c.want.EmbedDim = c.want.Dim
		}
		got.ParamCount, got.BytesOnDisk = 0, 0
		if got.text() != c.want.text() {
			t.Errorf("%s:\n%s, want\n%s", c.path, got.text(), c.want.text())
		}
	}
	// 330 tokens and 330 rows of a head, 2 layers, one norm: the file has
	// nothing else.
	m := open(t, testmodels.Dir(t, "llama"))
	if want := int64(2*330*32 + 2*(64*32+2*32*32+32*64+3*32*96+2*32) + 32); m.cfg.ParamCount != want || m.cfg.BytesOnDisk != 4*want {
		t.Errorf("%d parameters in %d bytes, want %d", m.cfg.ParamCount, m.cfg.BytesOnDisk, want)
	}
}

// text is a Config for comparison.
func (c Config) text() string {
	data, err := json.Marshal(c)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func TestMaxSeq(t *testing.T) {
	for _, c := range []struct {
		model           string
		sentence, limit any
		want            int
	}{
		{"bert", nil, nil, 96},
		{"bert", 50, 70, 50},
		{"bert", 70, 50, 50},
		{"bert", nil, 1e30, 96},
		{"llama", nil, 70, 512}, // a generator has all its positions
		{"llama", 70, nil, 70},
	} {
		path := copyModel(t, c.model, map[string]map[string]any{
			"sentence_bert_config.json": {"max_seq_length": c.sentence}, "tokenizer_config.json": {"model_max_length": c.limit}}, nil)
		if got := open(t, path).Config().MaxSeq; got != c.want {
			t.Errorf("%s %v %v: %d tokens, want %d", c.model, c.sentence, c.limit, got, c.want)
		}
	}
	none := copyModel(t, "bert", map[string]map[string]any{"sentence_bert_config.json": {"max_seq_length": 0}}, nil)
	refused(t, none, weights.ErrInvalid, "max_seq_length: expected a positive integer, found 0")
}

// Transposed matrices are made once, shared by what is cut out of them, and
// given up once all of it has been dropped.
func TestTransposedCopies(t *testing.T) {
	m := open(t, testmodels.Dir(t, "gpt2"))
	raw, err := m.store.Get("transformer.h.0.attn.c_attn.weight")
	if err != nil {
		t.Fatal(err)
	}
	file, err := raw.F32()
	if err != nil {
		t.Fatal(err)
	}
	var parts []weights.Tensor
	for i, key := range []string{"blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight"} {
		w, err := m.Weight(key)
		if err != nil {
			t.Fatal(err)
		}
		got, err := w.F32()
		if err != nil {
			t.Fatal(err)
		}
		for r := range 40 {
			for c := range 40 {
				if got[r*40+c] != file[c*120+i*40+r] {
					t.Fatalf("%s: element %d,%d differs", key, r, c)
				}
			}
		}
		parts = append(parts, w)
	}
	if again, _ := m.Weight("blk.0.attn_k.weight"); &again.Data[0] != &parts[1].Data[0] {
		t.Error("made twice")
	}
	for i, w := range parts {
		if len(m.made) != 1 {
			t.Fatalf("%d copies before drop %d", len(m.made), i)
		}
		m.Drop(w)
	}
	if len(m.made) != 0 {
		t.Error("the copy is kept after the last drop")
	}
}

func TestTokenizer(t *testing.T) {
	for _, name := range testmodels.All(t) {
		m := open(t, testmodels.Dir(t, name))
		tok, err := m.Tokenizer()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if tok.Size() != m.Config().Vocab {
			t.Errorf("%s: %d tokens, want %d", name, tok.Size(), m.Config().Vocab)
		}
	}
	path := copyModel(t, "llama", nil, nil)
	if err := os.Remove(filepath.Join(path, "tokenizer.json")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(path, "tokenizer.json")
	if _, err := open(t, path).Tokenizer(); !errors.Is(err, weights.ErrUnsupported) || !strings.HasPrefix(err.Error(), file+": no such file: expected ") {
		t.Errorf("without %s: %v", file, err)
	}
}

// MiniLM, where it was fetched: what sentence-transformers answers.
func TestMiniLM(t *testing.T) {
	m, want := open(t, testmodels.Real(t, "all-MiniLM-L6-v2")), testmodels.Load(t, "real/minilm")
	if m.Config().MaxSeq != want.MaxTokens {
		t.Errorf("%d tokens, want %d", m.Config().MaxSeq, want.MaxTokens)
	}
	cases := slices.DeleteFunc(want.Cases, func(c testmodels.Case) bool { return len(c.IDs) > 8 })
	got := embedAll(t, m, idsOf(testmodels.Reference{Cases: cases}), EmbedOptions{m.Config().Pooling, m.Config().Normalize})
	for i, c := range cases {
		sameVector(t, c.Text, got[i], c.Embedding, 1)
	}
}

// SmolLM2, where it was fetched: every tensor is found.
func TestSmolLM2(t *testing.T) {
	m := open(t, testmodels.Real(t, "SmolLM2-135M-Instruct.Q4_1.gguf"))
	if m.Config().ParamCount != 134515008 {
		t.Errorf("%d parameters", m.Config().ParamCount)
	}
	g, _, err := m.BuildGenerate(tensor.Bind{T: 64, S: 1, R: 1}, KVLayout{Blocks: 1, MaxBlocksPerSeq: 1})
	if err != nil {
		t.Fatal(err)
	}
	if g.Outputs[0].Shape.RowLen() != 49152 {
		t.Errorf("logits %s", g.Outputs[0].Shape)
	}
}

// refusable fields ask for what no model has that transformers computes, or
// contradict the tensors, and are errors where they are seen.
var refusable = map[string]bool{
	"mlp_type": true, "norm_type": true, "add_cross_attention": true, "use_bidirectional_attention": true, "head_dim": true, "num_experts": true,
}

// Fields that mean nothing to a family change nothing, as in transformers,
// which answered with every one of them as without.
func TestForeignFields(t *testing.T) {
	data, err := os.ReadFile("testdata/foreign.json")
	if err != nil {
		t.Fatal(err)
	}
	var models map[string]map[string]json.RawMessage
	if err := json.Unmarshal(data, &models); err != nil || len(models) < 30 {
		t.Fatalf("%d models, %v", len(models), err)
	}
	for name, fields := range models {
		t.Run(name, func(t *testing.T) {
			plain := open(t, "testdata/"+name)
			ids := [][]int{{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3}}
			want := scoreAll(t, plain, ids, 32)
			for field, value := range fields {
				change := map[string]any{field: value}
				if object, inner, ok := strings.Cut(field, "."); ok {
					raw, _ := plain.store.HF().Config.Raw(object)
					o := map[string]any{}
					if err := json.Unmarshal(raw, &o); err != nil {
						t.Fatal(err)
					}
					o[inner] = value
					change = map[string]any{object: o}
				}
				path := variant(t, name, change)
				st, err := weights.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				m, err := Open(st)
				if err != nil && !refusable[field] {
					t.Errorf("%s %s: %v", field, value, err)
				} else if err == nil && !slices.Equal(scoreAll(t, m, ids, 32)[0], want[0]) {
					t.Errorf("%s %s changes answers", field, value)
				}
				if err := st.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
