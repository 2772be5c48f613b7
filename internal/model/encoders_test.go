package model

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/backend/ref"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/testmodels"
	"hotpath/internal/tokenizer"
	"hotpath/internal/weights"
)

// encoderReference is what the reference implementations answer on a model of
// testdata/encoders; scripts/goldens_encoders.py made both.
type encoderReference struct {
	Kind  string
	Cases []struct {
		Text      string
		IDs       []int
		Embedding []float32

		Query, Doc string
		Segments   []int32
		Scores     []float32
	}
}

// encoderFixtures gives f each model of a kind.
func encoderFixtures(t *testing.T, kind string, least int, f func(t *testing.T, path string, want encoderReference)) {
	found := 0
	for _, pattern := range []string{"testdata/encoders/*/reference.json", "testdata/encoders/*.gguf"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			model, reference := filepath.Dir(path), path
			if strings.HasSuffix(path, ".gguf") {
				model, reference = path, strings.TrimSuffix(path, ".gguf")+".json"
			}
			data, err := os.ReadFile(reference)
			if err != nil {
				t.Fatal(err)
			}
			var want encoderReference
			if err := json.Unmarshal(data, &want); err != nil {
				t.Fatal(err)
			}
			if want.Kind != kind || len(want.Cases) == 0 {
				continue
			}
			if found++; testmodels.Mine(t, found) {
				t.Run(filepath.Base(model), func(t *testing.T) { f(t, model, want) })
			}
		}
	}
	if found < least {
		t.Errorf("%d models of kind %s, expected at least %d", found, kind, least)
	}
}

// Embeddings of the less common options, stages after the pooling included.
func TestEncodersMatchReference(t *testing.T) {
	encoderFixtures(t, "embed", 18, func(t *testing.T, path string, want encoderReference) {
		m := open(t, path)
		seqs := make([][]int, len(want.Cases))
		for i, c := range want.Cases {
			if seqs[i] = c.IDs; len(c.IDs) > m.cfg.MaxSeq {
				t.Fatalf("case %d: %d tokens, but texts are cut to %d", i, len(c.IDs), m.cfg.MaxSeq)
			}
		}
		for i, c := range want.Cases {
			if m.store.GGUF() != nil {
				break // files have no vocabulary
			}
			tok, err := m.Tokenizer()
			if err != nil {
				t.Fatal(err)
			}
			var ids []int
			for _, id := range tok.Encode(nil, c.Text, tokenizer.Options{Special: true, ParseSpecial: true}, nil) {
				ids = append(ids, int(id))
			}
			if len(ids) <= m.cfg.MaxSeq && !slices.Equal(ids, c.IDs) {
				t.Errorf("case %d: tokens %v, want %v", i, ids, c.IDs)
			}
		}
		o := EmbedOptions{m.cfg.Pooling, m.cfg.Normalize}
		if m.store.GGUF() != nil { // which cannot say whether vectors have unit length
			o.Normalize = math.Abs(length(want.Cases[0].Embedding)-1) < 1e-4
		}
		got := append(embedAll(t, m, seqs, o), embedOn(t, onCPU(t), m, seqs, o)...)
		worst := 1.0
		for i, c := range slices.Concat(want.Cases, want.Cases) {
			if len(c.Embedding) != m.cfg.EmbedDim {
				t.Fatalf("embeddings have %d elements, want %d", m.cfg.EmbedDim, len(c.Embedding))
			}
			dot, a, b := 0.0, 0.0, 0.0
			for j, x := range c.Embedding {
				y := got[i][j]
				dot, a, b = dot+float64(x)*float64(y), a+float64(x)*float64(x), b+float64(y)*float64(y)
			}
			cos := dot / math.Sqrt(a*b)
			if worst = min(worst, cos); !(cos >= 0.999999) || math.Abs(math.Sqrt(b/a)-1) > 1e-4 {
				t.Errorf("%.30q: cosine %.8f, length %g of %g", c.Text, cos, math.Sqrt(b), math.Sqrt(a))
			}
		}
		t.Logf("least cosine %.9f", worst)
	})
}

// onCPU is the CPU backend for the length of a test.
func onCPU(t *testing.T) plan.Backend {
	t.Helper()
	be, err := cpu.New(cpu.Options{Workers: 2, Precision: cpu.F32})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { be.Close() })
	return be
}

func length(v []float32) float64 {
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	return math.Sqrt(sum)
}

// Scores of pairs, and the tokens that they become.
func TestRerankersMatchReference(t *testing.T) {
	encoderFixtures(t, "rerank", 12, func(t *testing.T, path string, want encoderReference) {
		m := open(t, path)
		if !m.cfg.CanRerank || m.cfg.Labels != len(want.Cases[0].Scores) {
			t.Fatalf("can rerank: %v, %d labels, want %d", m.cfg.CanRerank, m.cfg.Labels, len(want.Cases[0].Scores))
		}
		var pairs *Pairs
		if m.store.GGUF() == nil { // files have no vocabulary
			var err error
			if pairs, err = m.Pairs(); err != nil {
				t.Fatal(err)
			}
		}
		var s PairScratch
		var seqs [][]int
		var segments []int32
		for i, c := range want.Cases {
			if pairs != nil {
				ids, parts, _ := pairs.Append(nil, nil, c.Query, c.Doc, &s)
				wide := make([]int, len(ids))
				for j, id := range ids {
					wide[j] = int(id)
				}
				if pad := len(c.IDs) - len(ids); pad > 0 && pairs.trim >= 0 && c.IDs[len(ids)] == int(pairs.trim) {
					c.IDs, c.Segments = c.IDs[:len(ids)], c.Segments[:len(ids)]
				}
				if !slices.Equal(wide, c.IDs) || !slices.Equal(parts, c.Segments) {
					t.Errorf("case %d: tokens %v of segments %v, want %v of %v", i, ids, parts, c.IDs, c.Segments)
				}
			}
			seqs, segments = append(seqs, c.IDs), append(segments, c.Segments...)
		}
		bind := tensor.Bind{T: total(seqs), S: len(seqs)}
		g, p, err := m.BuildClassify(bind)
		if err != nil {
			t.Fatal(err)
		}
		backends := []plan.Backend{onCPU(t)}
		if bind.T < 700 { // the reference is slow
			backends = append(backends, ref.New())
		}
		for _, be := range backends {
			sess := sessionOn(t, be, m, g)
			batch(sess, p, seqs)
			if p.Segments != nil {
				copy(sess.I32(p.Segments), segments)
			}
			run(t, sess, bind)
			for i, c := range want.Cases {
				for j, x := range c.Scores {
					if y := sess.F32(p.Scores)[i*m.cfg.Labels+j]; !(math.Abs(float64(x-y)) <= 2e-5*max(1, math.Abs(float64(x)))) {
						t.Errorf("%s: case %d: score %d is %g, want %g", be.Caps().Name, i, j, y, x)
					}
				}
			}
		}
	})
}

// What a configuration of an encoder may ask for, and is not there, is refused
// by the field's name.
func TestEncodersRefuse(t *testing.T) {
	for _, c := range []struct {
		model, field string
		value        any
		kind         error
		word         string
	}{
		{"bert", "position_embedding_type", "relative_key", weights.ErrUnsupported, "relative_key"},
		{"bert", "is_decoder", true, weights.ErrUnsupported, "is_decoder"},
		{"bert", "hidden_act", "no_such", weights.ErrUnsupported, "no_such"},
		{"bert", "type_vocab_size", -1, weights.ErrInvalid, "type_vocab_size"},
		{"bert", "architectures", []string{"BertForSequenceClassification"}, weights.ErrNoTensor, "classifier.weight"},
		{"roberta", "pad_token_id", 200, weights.ErrInvalid, "max_position_embeddings"},
		{"roberta", "max_position_embeddings", 2, weights.ErrInvalid, "max_position_embeddings"},
		{"roberta", "position_embedding_type", "relative_key_query", weights.ErrUnsupported, "position_embedding_type"},
		{"distilbert", "n_heads", 5, weights.ErrInvalid, "n_heads"},
		{"mpnet", "num_attention_heads", 4, weights.ErrInvalid, "relative_attention_bias"},
		{"nomic-bert", "rope_parameters", map[string]any{"rope_type": "no_such"}, weights.ErrUnsupported, "rope_type"},
		{"nomic-bert", "head_dim", 8, weights.ErrUnsupported, "head_dim"},
		{"nomic-bert", "architectures", []string{"NomicBertForSequenceClassification"}, weights.ErrUnsupported, "architectures"},
		{"modernbert", "classifier_pooling", "max", weights.ErrUnsupported, "classifier_pooling"},
		{"modernbert", "layer_types", []string{"full_attention"}, weights.ErrInvalid, "layer_types"},
		{"modernbert", "attention_bias", true, weights.ErrNoTensor, "Wqkv.bias"},
		{"modernbert", "local_attention", 0, weights.ErrInvalid, "local_attention"},
	} {
		t.Run(c.model+" "+c.field, func(t *testing.T) {
			path := copyModel(t, c.model, map[string]map[string]any{"config.json": {c.field: c.value}}, nil)
			refused(t, path, c.kind, c.word)
		})
	}
}
