package model

import (
	"fmt"
	"slices"

	"hotpath/internal/graph"
	"hotpath/internal/weights"
)

// Static embeddings: the mean of a table's rows, with no layers at all. Files
// are those of model2vec or a StaticEmbedding module of sentence-transformers.

func init() {
	register(&architecture{name: "static", hf: []string{model2vec}})
}

const model2vec = "model2vec"

// staticSeq is the most tokens of a text. Nothing but the ids grows with it.
const staticSeq = 1 << 17

type static struct {
	Config
	table   string // name of the tensor
	weights []float32
}

// isStatic reports whether a directory holds a static table.
func isStatic(h *weights.HFDir) bool {
	kind, _ := h.Config.StringOr("model_type", "")
	return kind == model2vec || len(h.Modules) > 0 && h.Modules[0].Kind() == "StaticEmbedding"
}

func describeStatic(st *weights.Store) (description, error) {
	h, d := st.HF(), &static{table: "embedding.weight"}
	if !st.Has(d.table) {
		d.table = "embeddings"
	}
	t, err := st.Get(d.table)
	if err != nil {
		return nil, err
	}
	if len(t.Dims) != 2 || t.Dims[0] > maxVocab || t.Dims[1] > maxDim {
		return nil, fmt.Errorf("%s: tensor %q: dimensions %v, expected [vocabulary, width]: %w", st.Path(), d.table, t.Dims, weights.ErrInvalid)
	}
	if st.Has("mapping") {
		return nil, fmt.Errorf("%s: tensor %q: rows that tokens share, expected a row for each token: %w", st.Path(), "mapping", weights.ErrUnsupported)
	}
	d.Config = Config{Arch: "static", Dim: t.Dims[1], Vocab: t.Dims[0], MaxSeq: staticSeq, Empty: true, Heads: 1, KVHeads: 1, HeadDim: t.Dims[1]}
	if st.Has(staticWeights) {
		w, err := st.Get(staticWeights)
		if err != nil {
			return nil, err
		}
		if len(w.Dims) != 1 || w.Dims[0] != d.Vocab {
			return nil, fmt.Errorf("%s: tensor %q: dimensions %v, expected [%d]: %w", st.Path(), staticWeights, w.Dims, d.Vocab, weights.ErrInvalid)
		}
		if d.weights, err = w.F32(); err != nil {
			return nil, err
		}
	}
	r := hfFields(h.Config)
	normalize := r.flag("normalize", false)
	if err := r.failed(); err != nil {
		return nil, err
	}
	if err := readSentence(d, h); err != nil {
		return nil, err
	}
	d.Normalize = d.Normalize || normalize
	return d, nil
}

func (d *static) config() *Config { return &d.Config }

func (d *static) names(weights.Format) naming {
	how := transform{bare: true}
	if d.weights != nil {
		how.derive = weighted(d.weights)
	}
	return naming{rows: []nameRow{{"token_embd", d.table, how}}}
}

func (d *static) words(c *Context) *graph.Value {
	return c.Tensor("token_embd.weight", graph.RoleEmbedding, d.Vocab, d.Dim)
}

func (d *static) body(c *Context) *graph.Value { return c.Embed("embed", d.words(c), c.Tokens, 1) }

func (d *static) final(_ *Context, x *graph.Value) *graph.Value { return x }

func (d *static) head(c *Context, x *graph.Value) *graph.Value {
	c.Fail("a static table has no head for next tokens")
	return x
}

// pooled is the mean without the states of tokens; other poolings need them.
func (d *static) pooled(c *Context, kind graph.PoolKind) *graph.Value {
	if kind != graph.PoolMean {
		c.Fail("pooling %s, expected mean: a static table has no states of tokens", kind)
		return d.body(c)
	}
	return c.EmbedBag("mean", d.words(c), c.Tokens, c.QStart)
}

// weighted multiplies each row of a table by a weight.
type weighted []float32

func (w weighted) dims(of []int) ([]int, error) {
	if len(of) != 2 || of[0] != len(w) {
		return nil, fmt.Errorf("dimensions %v, expected a row for each of %d weights", of, len(w))
	}
	return of, nil
}

// staticWeights is the tensor with a weight for each row of the table.
const staticWeights = "weights"

func (weighted) others() []string { return []string{staticWeights} }

// invert makes the weights ones and keeps the products in the table: a row whose
// weight is 0 could not be had back otherwise.
func (w weighted) invert(t weights.Tensor, f []float32) []float32 {
	if t.Name != staticWeights {
		return f
	}
	return slices.Repeat([]float32{1}, len(w))
}

func (w weighted) derive(t weights.Tensor) ([]float32, error) {
	f, err := t.F32()
	if err != nil {
		return nil, err
	}
	cols := t.Dims[1]
	for i := range f {
		f[i] *= w[i/cols]
	}
	return f, nil
}
