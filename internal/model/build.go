package model

import (
	"fmt"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// Ports are the inputs and outputs of a graph; nil where it has none such.
type Ports struct {
	Tokens *graph.Value // [T] ids below Vocab
	Pos    *graph.Value // [T] position of a token in its sequence
	QStart *graph.Value // [S+1] prefix sums of the sequences' tokens
	// Length is [T], how long each token's text is in all, or is going to be:
	// some ropes depend on it. Most models have no such input.
	Length     *graph.Value
	Segments   *graph.Value // [T] text of a pair that a token belongs to, 0 or 1
	Slots      *graph.Value // [T] rows of the KV cache to write
	KVLen      *graph.Value // [S] tokens of a sequence, this batch's included
	BlockTable *graph.Value // [S,MaxBlocksPerSeq] blocks of a sequence
	Rows       *graph.Value // [R] tokens whose logits are wanted
	Targets    *graph.Value // [R] the ids that should come; negative: ignored
	Sampling   *graph.Value // [R,SampleLen] how the token of a row is drawn
	Random     *graph.Value // [R,2] random number of the draw
	Last       *graph.Value // [most R] state: ids of the run before; nil where tokens never refer to it
	Hyper      *graph.Value // [HyperLen] of the optimizer
	Dropout    *graph.Value // [DropoutLen] key of all dropouts; nil where there are none
	Smoothing  *graph.Value // [1] bits of the share of label smoothing; nil where there is none
	Weight     *graph.Value // [1] share of this run in a step that accumulates
	Keep       *graph.Value // [1] 0 in the first run of a step that accumulates, 1 later

	Embedding *graph.Value // [S,EmbedDim]
	Scores    *graph.Value // [S,Labels]
	Logits    *graph.Value // [R,Vocab]
	IDs       *graph.Value // [R] tokens that were drawn; -1: none could be
	NLL       *graph.Value // [R] natural logarithm
	Loss      *graph.Value // [1] mean of NLL
	GradNorm  *graph.Value // [1] before clipping
}

// KVLayout is the size of a KV cache in blocks of graph.KVBlock tokens.
type KVLayout struct {
	Blocks          int          // of the whole cache
	MaxBlocksPerSeq int          // width of the block table
	Type            tensor.DType // one of graph.KVTypes
	// Resumes gives BuildSampled, and the BuildGenerate that shares its state, a place
	// for the ids of the run before (graph.OpResume).
	Resumes bool
}

// maxKVBlocks keeps the row numbers of a cache within int32.
const maxKVBlocks = 1 << 24

func (kv KVLayout) check() error {
	if kv.Blocks < 1 || kv.Blocks > maxKVBlocks || kv.MaxBlocksPerSeq < 1 || kv.MaxBlocksPerSeq > maxKVBlocks {
		return fmt.Errorf("model: a cache of %d blocks, %d per sequence, expected 1 to %d of each", kv.Blocks, kv.MaxBlocksPerSeq, maxKVBlocks)
	}
	return nil
}

// EmbedOptions say how an embedding is made; Config has the model's own.
type EmbedOptions struct {
	Pooling   graph.PoolKind
	Normalize bool
}

// BuildEmbed is tokens to one vector a sequence. It uses the symbols T and S.
func (m *Model) BuildEmbed(most tensor.Bind, o EmbedOptions) (*graph.Graph, *Ports, error) {
	if err := m.able(m.cfg.CanEmbed, "embed"); err != nil {
		return nil, nil, err
	}
	b, err := start(most, most.T, most.S)
	if err != nil {
		return nil, nil, err
	}
	if own := m.cfg.Pooling; o.Pooling.Len() != own.Len() {
		return nil, nil, fmt.Errorf("%s: pooling %s, expected %d joined by + as in the model's own pooling, %s", m.store.Path(), o.Pooling, own.Len(), own)
	}
	c, p := m.context(b), &Ports{}
	c.tokens(p)
	p.Embedding = m.embedding(c, o.Pooling)
	if o.Normalize {
		p.Embedding = c.L2Norm("normalize", p.Embedding)
	}
	g, err := b.Freeze(p.Embedding)
	return g, p, err
}

// embedding is tokens to vectors [S,EmbedDim], of any length.
func (m *Model) embedding(c *Context, kind graph.PoolKind) *graph.Value {
	if p, ok := m.desc.(pooler); ok {
		return m.cfg.stages.apply(c, p.pooled(c, kind))
	}
	x := m.desc.final(c, m.desc.body(c))
	return m.cfg.stages.apply(c, c.Pool("pool", x, c.QStart, kind))
}

// BuildGenerate is tokens to the logits of rows R, over a KV cache.
func (m *Model) BuildGenerate(most tensor.Bind, kv KVLayout) (*graph.Graph, *Ports, error) {
	c, p, err := m.cached(most, kv)
	if err != nil {
		return nil, nil, err
	}
	p.Logits = m.logits(c, p)
	g, err := c.Freeze(p.Logits)
	return g, p, err
}

// BuildSampled is tokens to the tokens that are drawn for rows R, over a KV cache:
// logits stay where they are computed. If the layout resumes, the ids stay there too,
// for the next run.
func (m *Model) BuildSampled(most tensor.Bind, kv KVLayout) (*graph.Graph, *Ports, error) {
	c, p, err := m.cached(most, kv)
	if err != nil {
		return nil, nil, err
	}
	rows := tensor.Of(tensor.R, 1)
	p.Sampling = c.Input("sampling", tensor.F32, tensor.Rows(rows, graph.SampleLen))
	p.Random = c.Input("random", tensor.I32, tensor.Rows(rows, 2))
	p.IDs = c.Sample("sample", m.logits(c, p), p.Sampling, p.Random)
	if p.Last != nil {
		c.Keep("keep", p.Last, p.IDs)
	}
	g, err := c.Freeze(p.IDs)
	return g, p, err
}

// BuildScore is tokens to the negative log-likelihood of a target for each of
// the rows R, over a KV cache, so that long texts can come in pieces.
func (m *Model) BuildScore(most tensor.Bind, kv KVLayout) (*graph.Graph, *Ports, error) {
	c, p, err := m.cached(most, kv)
	if err != nil {
		return nil, nil, err
	}
	m.nll(c, p)
	g, err := c.Freeze(p.NLL)
	return g, p, err
}

// cached starts a graph over a KV cache.
func (m *Model) cached(most tensor.Bind, kv KVLayout) (*Context, *Ports, error) {
	if err := m.able(m.cfg.CanGenerate, "generate"); err != nil {
		return nil, nil, err
	}
	if err := kv.check(); err != nil {
		return nil, nil, err
	}
	b, err := start(most, most.T, most.S, most.R)
	if err != nil {
		return nil, nil, err
	}
	c, p := m.context(b), &Ports{}
	c.tokens(p)
	if kv.Resumes {
		p.Last = c.State("last", graph.RoleOther, tensor.I32, tensor.Static(most.R))
		c.Tokens = c.Resume("resume", p.Tokens, p.Last)
	}
	seqs := tensor.Of(tensor.S, 1)
	p.Slots = c.Input("slots", tensor.I32, tensor.Rows(tensor.Of(tensor.T, 1)))
	p.KVLen = c.Input("kv_len", tensor.I32, tensor.Rows(seqs))
	p.BlockTable = c.Input("block_table", tensor.I32, tensor.Rows(seqs, kv.MaxBlocksPerSeq))
	c.cache = &cache{kv, p.Slots, p.KVLen, p.BlockTable}
	return c, p, nil
}

// logits are those of the rows R: the others never reach the final norm.
func (m *Model) logits(c *Context, p *Ports) *graph.Value {
	p.Rows = c.Input("rows", tensor.I32, tensor.Rows(tensor.Of(tensor.R, 1)))
	x := c.Gather("gather", m.desc.body(c), p.Rows)
	return m.desc.head(c, m.desc.final(c, x))
}

func (m *Model) nll(c *Context, p *Ports) {
	logits := m.logits(c, p)
	p.Targets = c.Input("targets", tensor.I32, tensor.Rows(tensor.Of(tensor.R, 1)))
	p.NLL, _ = c.SmoothedCrossEntropy("cross_entropy", logits, p.Targets, p.Smoothing)
}

func (m *Model) able(can bool, verb string) error {
	if !can {
		return fmt.Errorf("%s: a %s model of this kind cannot %s", m.store.Path(), m.cfg.Arch, verb)
	}
	return nil
}

// start is a builder for sizes that are all used.
func start(most tensor.Bind, used ...int) (*graph.Builder, error) {
	for _, n := range used {
		if n < 1 {
			return nil, fmt.Errorf("model: a graph for at most %d tokens, %d sequences and %d rows, expected at least one of each", most.T, most.S, most.R)
		}
	}
	return graph.NewBuilder(most), nil
}
