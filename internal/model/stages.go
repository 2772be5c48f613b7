package model

import (
	"fmt"
	"path"
	"path/filepath"

	"hotpath/internal/graph"
	"hotpath/internal/weights"
)

// What comes after the pooling: dense layers and norms of
// sentence-transformers' directories, and the dense layers that GGUF files of
// EmbeddingGemma have.

// stage is one step from vectors [S,in] to [S,out].
type stage struct {
	kind stageKind
	key  string // of its weights, which is also their name in the files
	in   int
	out  int
	bias bool
	// A dense layer's activation, and whether it has one; residual says that
	// the input is added to what it gives, projected where the widths differ.
	act      graph.ActKind
	acted    bool
	residual bool
}

type stageKind uint8

const (
	denseStage stageKind = iota
	normStage
	unitStage // to unit length
)

type stages []stage

// width is that of the last stage, given what the pooling makes.
func (s stages) width(pooled int) int {
	for _, st := range s {
		if st.kind != unitStage {
			pooled = st.out
		}
	}
	return pooled
}

// apply is pooled vectors [S,W] to embeddings.
func (s stages) apply(c *Context, x *graph.Value) *graph.Value {
	for i, st := range s {
		end := c.Scope(fmt.Sprintf("stage.%d", i))
		x = st.apply(c, x)
		end()
	}
	return x
}

func (st *stage) apply(c *Context, x *graph.Value) *graph.Value {
	if got := x.Shape.RowLen(); st.kind != unitStage && got != st.in && c.Err() == nil {
		c.wrong = fmt.Errorf("%s: module %s: takes %d features, but %d come before it: %w", c.m.store.Path(), path.Dir(st.key), st.in, got, weights.ErrInvalid)
		c.Fail("%w", c.wrong)
	}
	switch st.kind {
	case unitStage:
		return c.L2Norm("unit", x)
	case normStage:
		return c.LayerNormed("norm", x, st.key, 1e-5)
	}
	need := noBias
	if st.bias {
		need = needsBias
	}
	y := c.Project("dense", x, st.key, graph.RoleHead, st.out, need)
	if st.acted {
		y = c.Act("dense_act", y, st.act)
	}
	if !st.residual {
		return y
	}
	if st.in != st.out {
		x = c.Project("residual", x, path.Dir(st.key)+"/residual", graph.RoleHead, st.out, noBias)
	}
	return c.Add("residual_add", y, x)
}

// readStage reads module i of a sentence-transformers directory.
func readStage(h *weights.HFDir, i int) (stage, error) {
	m := h.Modules[i]
	if m.Kind() == "Normalize" {
		return stage{kind: unitStage}, nil
	}
	if m.Kind() != "Dense" && m.Kind() != "LayerNorm" {
		return stage{}, fmt.Errorf("%s: module %d is %s, expected Transformer or StaticEmbedding, then Pooling, then any of Dense, LayerNorm and Normalize: %w",
			filepath.Join(h.Dir, "modules.json"), i, m.Type, weights.ErrUnsupported)
	}
	if m.Config == nil {
		return stage{}, fmt.Errorf("%s: expected the description of the module: %w", filepath.Join(h.Dir, m.Path, "config.json"), weights.ErrInvalid)
	}
	r, folder := hfFields(m.Config), filepath.ToSlash(m.Path)
	if m.Kind() == "LayerNorm" {
		n := r.size("dimension", maxDim)
		return stage{kind: normStage, key: folder + "/norm", in: n, out: n}, r.failed()
	}
	st := stage{
		key: folder + "/linear", in: r.size("in_features", maxDim), out: r.size("out_features", maxDim),
		bias: r.flag("bias", true), residual: r.flag("use_residual", false),
	}
	st.act, st.acted = r.torchActivation("activation_function", r.text("activation_function", "torch.nn.modules.activation.Tanh"))
	for _, key := range []string{"module_input_name", "module_output_name"} {
		if name := r.text(key, "sentence_embedding"); name != "sentence_embedding" {
			r.unsupported(key, "%q, expected sentence_embedding", name)
		}
	}
	return st, r.failed()
}

// stagesGGUF finds the dense layers of EmbeddingGemma, which have neither a
// bias nor an activation.
func stagesGGUF(r *fields) stages {
	var s stages
	for _, name := range []string{"dense_2", "dense_3"} {
		t, ok := r.gguf.Tensor(name + ".weight")
		if !ok {
			continue
		}
		d := t.Dims()
		if len(d) != 2 || d[0] < 1 || d[1] < 1 || d[0] > maxDim || d[1] > maxDim {
			r.keep(fmt.Errorf("%s: tensor %q: dimensions %v, expected [out, in]: %w", r.file, name+".weight", d, weights.ErrInvalid))
			continue
		}
		s = append(s, stage{key: name, in: d[1], out: d[0]})
	}
	return s
}
