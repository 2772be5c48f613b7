package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"hotpath/internal/graph"
	"hotpath/internal/model"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// inspection is what inspect prints. A sound file of an architecture that
// hotpath does not know has no Config and says why.
type inspection struct {
	Path        string       `json:"path"`
	Format      string       `json:"format"`
	Config      *description `json:"config,omitempty"`
	Unsupported string       `json:"unsupported,omitempty"`
	Tensors     []tensorInfo `json:"tensors"`
	Types       []typeCount  `json:"types"`
	Elements    int64        `json:"elements"`
	Bytes       int64        `json:"bytes"`
	Metadata    []metaEntry  `json:"metadata"`
}

// description is the part of a model's configuration that people ask for.
type description struct {
	Arch       string `json:"architecture"`
	Name       string `json:"name,omitempty"`
	Layers     int    `json:"layers"`
	Dim        int    `json:"dim"`
	Heads      int    `json:"heads"`
	KVHeads    int    `json:"kv_heads"`
	HeadDim    int    `json:"head_dim"`
	FFN        int    `json:"ffn"`
	Vocab      int    `json:"vocab"`
	MaxSeq     int    `json:"max_tokens"`
	Causal     bool   `json:"causal"`
	Windows    []int  `json:"windows,omitempty"`
	Embeds     bool   `json:"can_embed"`
	Generates  bool   `json:"can_generate"`
	Pooling    string `json:"pooling,omitempty"`
	Normalize  bool   `json:"normalize,omitempty"`
	Parameters int64  `json:"parameters"`
	Cost       cost   `json:"cost_per_token"`
}

// cost is what one token costs: its linear layers, each token that it attends
// to, and its place in the KV cache.
type cost struct {
	FLOPs          int64 `json:"flops"`
	WeightBytes    int64 `json:"weight_bytes"`
	AttentionFLOPs int64 `json:"attention_flops_per_context_token"`
	KVBytes        int64 `json:"kv_bytes,omitempty"`
}

type tensorInfo struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Dims  []int  `json:"dims"` // outermost first
	Bytes int64  `json:"bytes,omitempty"`
}

type typeCount struct {
	Type     string `json:"type"`
	Tensors  int    `json:"tensors"`
	Elements int64  `json:"elements"`
	Bytes    int64  `json:"bytes,omitempty"`
}

func newInspect(std streams) *cobra.Command {
	var format formatFlag
	var tensors bool
	cmd := &cobra.Command{
		Use:   "inspect MODEL",
		Short: "What is in a model: architecture, shapes, types, sizes, cost a token",
		Example: `  hotpath inspect model.gguf
  hotpath inspect model.gguf --tensors
  hotpath inspect all-MiniLM-L6-v2 --format json`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, paths []string) error {
			in, err := inspect(paths[0])
			if err != nil {
				return err
			}
			if format.value == "json" {
				return document(std.out, in)
			}
			return in.print(std.out, tensors)
		},
	}
	format.add(cmd, "text", "json")
	cmd.Flags().BoolVar(&tensors, "tensors", false, "list every tensor in the text output too")
	return cmd
}

// inspect reads headers only; no weight is touched.
func inspect(path string) (in *inspection, err error) {
	st, err := weights.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	in = &inspection{Path: path, Format: st.Format().String()}
	if err := in.listTensors(st); err != nil {
		return nil, err
	}
	if f := st.GGUF(); f != nil {
		in.Metadata = ggufMetadata(f)
	} else {
		in.Metadata = configMetadata(st.HF().Config)
	}
	m, err := model.Open(st)
	switch {
	case errors.Is(err, weights.ErrUnsupported) || errors.Is(err, weights.ErrNoTensor):
		in.Unsupported = err.Error()
		return in, nil
	case err != nil:
		return nil, err
	}
	in.Config, err = describe(m)
	return in, err
}

func (in *inspection) listTensors(st *weights.Store) error {
	in.Tensors = []tensorInfo{}
	counts := map[string]*typeCount{}
	add := func(t tensorInfo) {
		in.Tensors = append(in.Tensors, t)
		n := int64(1)
		for _, d := range t.Dims {
			n *= int64(d)
		}
		c := counts[t.Type]
		if c == nil {
			c = &typeCount{Type: t.Type}
			counts[t.Type] = c
		}
		c.Tensors++
		c.Elements += n
		c.Bytes += t.Bytes
		in.Elements += n
		in.Bytes += t.Bytes
	}
	for _, name := range st.Names() {
		t, err := st.Get(name)
		if err == nil {
			add(tensorInfo{name, t.DType.Info().Name, t.Dims, int64(len(t.Data))})
			continue
		}
		// Encodings that hotpath does not read are still worth listing.
		f := st.GGUF()
		if f == nil || !errors.Is(err, weights.ErrUnsupported) {
			return err
		}
		if g, ok := f.Tensor(name); ok {
			add(tensorInfo{name, g.Type.String(), g.Dims(), 0})
		}
	}
	in.Types = []typeCount{}
	for _, c := range counts {
		in.Types = append(in.Types, *c)
	}
	slices.SortFunc(in.Types, func(a, b typeCount) int {
		return cmp.Or(cmp.Compare(b.Elements, a.Elements), cmp.Compare(a.Type, b.Type))
	})
	return nil
}

func describe(m *model.Model) (*description, error) {
	c := m.Config()
	d := &description{
		Arch: c.Arch, Name: c.Name, Layers: c.Layers, Dim: c.Dim, Heads: c.Heads, KVHeads: c.KVHeads,
		HeadDim: c.HeadDim, FFN: c.FFN, Vocab: c.Vocab, MaxSeq: c.MaxSeq, Causal: c.Causal,
		Embeds: c.CanEmbed, Generates: c.CanGenerate, Parameters: c.ParamCount,
	}
	if slices.ContainsFunc(c.Windows, func(w int) bool { return w > 0 }) {
		d.Windows = c.Windows
	}
	if c.CanEmbed {
		d.Pooling, d.Normalize = c.Pooling.String(), c.Normalize
	}
	var err error
	d.Cost, err = costOf(m)
	return d, err
}

// costOf adds up the linear layers of the graph that the model is used with.
func costOf(m *model.Model) (cost, error) {
	c := m.Config()
	out := cost{AttentionFLOPs: 4 * int64(c.Layers) * int64(c.Heads) * int64(c.HeadDim)}
	one := tensor.Bind{T: 1, S: 1, R: 1}
	var g *graph.Graph
	var err error
	if c.CanGenerate {
		out.KVBytes = 2 * 4 * int64(c.Layers) * int64(c.KVHeads) * int64(c.HeadDim) // keys and values in f32
		g, _, err = m.BuildGenerate(one, model.KVLayout{Blocks: 1, MaxBlocksPerSeq: 1})
	} else {
		g, _, err = m.BuildEmbed(one, model.EmbedOptions{Pooling: c.Pooling, Normalize: c.Normalize})
	}
	if err != nil {
		return out, fmt.Errorf("%s: %w", m.Store().Path(), err)
	}
	for _, n := range g.Nodes {
		for _, v := range n.In {
			if v == nil || v.Node.Leaf == nil || v.Node.Leaf.Kind != graph.WeightLeaf || n.Op.Name != "linear" {
				continue
			}
			rows, cols := int64(v.Shape.NumRows(one)), int64(v.Shape.RowLen())
			if v.Shape.Rank() == 2 {
				out.FLOPs += 2 * rows * cols
			}
			out.WeightBytes += rows * int64(v.DType.RowBytes(int(cols)))
		}
	}
	return out, nil
}
