package hotpath

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"hotpath/internal/calib"
	"hotpath/internal/engine"
	"hotpath/internal/graph"
	"hotpath/internal/model"
	"hotpath/internal/tensor"
)

// Info describes a model.
type Info struct {
	Path   string
	Format string // GGUF or Hugging Face
	Arch   string
	Name   string

	Layers, Dim, Heads, KVHeads, HeadDim, FFN, Vocab int

	MaxTokens             int // of one text
	CanEmbed, CanGenerate bool
	CanRerank             bool
	EmbedDim              int    // length of vectors that are not cut
	Pooling               string // of an encoder

	// Prompts are the model's own, by name; DefaultPrompt names the one that is
	// used unless asked otherwise. TaskPrompts are what EmbedOptions.Task finds.
	Prompts, TaskPrompts map[string]string
	DefaultPrompt        string
	// TrainedDims are the lengths that vectors can be cut to with EmbedOptions.Dim
	// as the model was trained for it; nil where its files do not say.
	TrainedDims  []int
	ChatTemplate bool

	Params      int64
	BytesOnDisk int64
	DTypes      []DTypeCount // the largest share first

	FLOPsPerToken   int64 // of a short text; attention grows with its length
	KVBytesPerToken int64 // of the KV cache in its encoding, KVType; 0 for encoders
	KVType          string
	Device          string
	Threads         int

	// Precision is what was asked of the CPU, Classes what it means there; both
	// are empty on other devices. Calibration is what CalibratePrecision found
	// of this very file on this machine, nil where nobody asked it.
	Precision   string
	Classes     []ClassUse
	Calibration *PrecisionReport
}

// DTypeCount is how much of a model has one encoding.
type DTypeCount struct {
	DType   string
	Tensors int
	Params  int64
	Bytes   int64
}

// Info describes the model.
func (m *Model) Info() (i Info, err error) {
	defer engine.Guard(&err)
	if err := m.opened(); err != nil {
		return i, err
	}
	c := m.cfg
	i = Info{
		Path: m.store.Path(), Format: m.store.Format().String(), Arch: c.Arch, Name: c.Name,
		Layers: c.Layers, Dim: c.Dim, Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim, FFN: c.FFN, Vocab: c.Vocab,
		MaxTokens: c.MaxSeq, CanEmbed: c.CanEmbed, CanGenerate: c.CanGenerate, CanRerank: c.CanRerank && c.Labels == 1, EmbedDim: c.EmbedDim, ChatTemplate: m.tok.ChatTemplate() != "",
		Params: c.ParamCount, BytesOnDisk: c.BytesOnDisk,
		Device: m.backend.Caps().Name, Threads: m.backend.Caps().Workers,
	}
	if c.CanEmbed {
		i.Pooling = c.Pooling.String()
		i.Prompts, i.TaskPrompts, i.DefaultPrompt = maps.Clone(m.prompts.named), maps.Clone(m.prompts.tasks), m.prompts.preset
		i.TrainedDims = slices.Clone(trainedDims(c))
	}
	err = m.eng.Do(func() (err error) {
		if c.CanGenerate {
			i.KVType = m.kvType.String()
			if i.KVBytesPerToken, err = m.kvBytes(); err != nil {
				return err
			}
		}
		if i.DTypes, err = m.dtypes(); err != nil {
			return err
		}
		if i.FLOPsPerToken, err = m.flops(); err != nil {
			return err
		}
		i.Precision = m.precision
		if i.Classes, err = m.classes(); err != nil || !calib.AnyPrecision() {
			return err
		}
		key, err := m.fileKey()
		if err != nil {
			return err
		}
		if p, ok := calib.CachedPrecision(key); ok {
			r := newReport(p)
			i.Calibration = &r
		}
		return nil
	})
	return i, err
}

func (m *Model) dtypes() ([]DTypeCount, error) {
	var out []DTypeCount
	for _, name := range m.store.Names() {
		t, err := m.store.Get(name)
		if errors.Is(err, ErrUnsupported) {
			continue // listed by the file, of no use to the model: position ids of type I64
		}
		if err != nil {
			return nil, err
		}
		k := slices.IndexFunc(out, func(c DTypeCount) bool { return c.DType == t.DType.String() })
		if k < 0 {
			k = len(out)
			out = append(out, DTypeCount{DType: t.DType.String()})
		}
		out[k].Tensors++
		out[k].Params += int64(t.Len())
		out[k].Bytes += int64(len(t.Data))
	}
	slices.SortFunc(out, func(a, b DTypeCount) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return out, nil
}

// kvBytes is what a token takes in the KV cache: the state of the graph that
// generates, for as many tokens as a block has.
func (m *Model) kvBytes() (int64, error) {
	g, err := m.graphOf(tensor.Bind{T: 1, S: 1, R: 1})
	if err != nil {
		return 0, err
	}
	var bytes int64
	for _, n := range g.Nodes {
		if n.Leaf != nil && n.Leaf.Role == graph.RoleKV {
			v := n.Out[0]
			bytes += int64(v.Shape.NumRows(g.Max)) * int64(v.DType.RowBytes(v.Shape.RowLen()))
		}
	}
	return bytes / graph.KVBlock, nil
}

// flops adds up the graph of one token.
func (m *Model) flops() (int64, error) {
	one := tensor.Bind{T: 1, S: 1, R: 1}
	g, err := m.graphOf(one)
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, n := range g.Nodes {
		if n.Leaf != nil {
			continue
		}
		call := graph.Call{Node: n, Bind: one}
		for _, v := range n.In {
			call.In = append(call.In, sizeOf(v, one))
		}
		for _, v := range n.Out {
			call.Out = append(call.Out, sizeOf(v, one))
		}
		sum += n.Op.Cost(&call).FLOPs
	}
	return sum, nil
}

// graphOf is what the model is for, as a graph: of generating, or of embedding.
func (m *Model) graphOf(most tensor.Bind) (g *graph.Graph, err error) {
	if m.cfg.CanGenerate {
		g, _, err = m.model.BuildGenerate(most, model.KVLayout{Blocks: 1, MaxBlocksPerSeq: 1, Type: m.kvType})
	} else {
		g, _, err = m.model.BuildEmbed(most, model.EmbedOptions{Pooling: m.cfg.Pooling, Normalize: true})
	}
	return g, err
}

func sizeOf(v *graph.Value, b tensor.Bind) graph.Tensor {
	if v == nil {
		return graph.Tensor{}
	}
	return graph.Tensor{DType: v.DType, Rows: v.Shape.NumRows(b), Cols: v.Shape.RowLen()}
}
