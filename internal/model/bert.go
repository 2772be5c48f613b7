package model

import (
	"hotpath/internal/graph"
	"hotpath/internal/weights"
)

// BERT: words, positions and segments are added and normed; each block attends
// in both directions and norms after its residual sums. RoBERTa, DistilBERT
// and MPNet are the same with small differences, and read in their own files.

func init() {
	register(&architecture{
		name: "bert", gguf: []string{"bert"}, hf: []string{"bert"},
		readGGUF: bertGGUF, readHF: bertHF,
	})
}

type bert struct {
	Config
	positions int // height of the position table, as far as it is used
	pad       int // the id that has no position of its own; -1 where all have
	segments  int // height of the segment table; 0 where there is none
	eps       float32
	act       graph.ActKind
	headAct   graph.ActKind // after the dense layer of a classifier
	relative  bool          // scores have a bias by distance

	// Where Hugging Face files have the tensors.
	prefixes []string
	table    []nameRow
}

func bertGGUF(r *fields) description {
	d := &bert{
		Config: Config{
			Layers: r.size("block_count", maxLayers),
			Dim:    r.size("embedding_length", maxDim),
			Heads:  r.size("attention.head_count", maxHeads),
			FFN:    r.size("feed_forward_length", maxFFN),
			Vocab:  r.vocabulary(),
		},
		positions: r.size("context_length", maxContext),
		eps:       float32(r.positive("attention.layer_norm_epsilon", 1e-12)),
		act:       graph.GELU,
		headAct:   graph.Tanh,
		pad:       -1,
	}
	// DistilBERT comes as bert too, and has no segments.
	if r.hasTensor("token_types.weight") {
		d.segments = r.height("token_types.weight")
	}
	if r.flag("attention.causal", false) {
		r.unsupported("attention.causal", "true, expected false")
	}
	d.complete(r, "attention.head_count")
	sentenceGGUF(r, &d.Config)
	return d
}

func bertHF(r *fields) description {
	d := bertFields(r)
	d.segments = r.natural("type_vocab_size", maxVocab, 2)
	d.prefixes = []string{"", "bert."}
	d.table = append(bertNames, nameRow{key: "cls", file: "pooler.dense"}, nameRow{key: "cls.output", file: "classifier"})
	d.complete(r, "num_attention_heads")
	return d
}

// bertFields reads what config.json has in common for BERT and what came of it.
func bertFields(r *fields) *bert {
	if kind := r.text("position_embedding_type", "absolute"); kind != "absolute" {
		r.unsupported("position_embedding_type", "%q, expected absolute", kind)
	}
	if r.flag("is_decoder", false) {
		r.unsupported("is_decoder", "true, expected false")
	}
	return &bert{
		Config: Config{
			Layers: r.size("num_hidden_layers", maxLayers),
			Dim:    r.size("hidden_size", maxDim),
			Heads:  r.size("num_attention_heads", maxHeads),
			FFN:    r.size("intermediate_size", maxFFN),
			Vocab:  r.size("vocab_size", maxVocab),
		},
		positions: r.size("max_position_embeddings", maxContext),
		eps:       float32(r.positive("layer_norm_eps", 1e-12)),
		act:       r.activation("hidden_act", "gelu"),
		headAct:   graph.Tanh,
		pad:       -1,
	}
}

// complete derives what the files do not say; heads is the field's name.
func (d *bert) complete(r *fields, heads string) {
	r.multiple(heads, "the width", d.Dim, d.Heads)
	d.KVHeads, d.HeadDim, d.MaxSeq = d.Heads, d.Dim/d.Heads, d.positions
	if d.pad >= 0 {
		d.MaxSeq-- // the first row is the padding's
	}
}

func (d *bert) config() *Config  { return &d.Config }
func (d *bert) segmentRows() int { return d.segments }

// bertNames are BERT's and RoBERTa's.
var bertNames = []nameRow{
	{key: "token_embd", file: "embeddings.word_embeddings"},
	{key: "position_embd", file: "embeddings.position_embeddings"},
	{"segment", "embeddings.token_type_embeddings", transform{firstRow: true}},
	{key: "token_types", file: "embeddings.token_type_embeddings"},
	{key: "token_embd_norm", file: "embeddings.LayerNorm"},
	{key: "blk.{}.attn_q", file: "encoder.layer.{}.attention.self.query"},
	{key: "blk.{}.attn_k", file: "encoder.layer.{}.attention.self.key"},
	{key: "blk.{}.attn_v", file: "encoder.layer.{}.attention.self.value"},
	{key: "blk.{}.attn_output", file: "encoder.layer.{}.attention.output.dense"},
	{key: "blk.{}.attn_output_norm", file: "encoder.layer.{}.attention.output.LayerNorm"},
	{key: "blk.{}.ffn_up", file: "encoder.layer.{}.intermediate.dense"},
	{key: "blk.{}.ffn_down", file: "encoder.layer.{}.output.dense"},
	{key: "blk.{}.layer_output_norm", file: "encoder.layer.{}.output.LayerNorm"},
}

func (d *bert) names(f weights.Format) naming {
	if f == weights.GGUF {
		return naming{rows: []nameRow{{"segment", "token_types", transform{firstRow: true}}}}
	}
	return naming{prefixes: d.prefixes, rows: d.table}
}

func (d *bert) body(c *Context) *graph.Value {
	words := c.Tensor("token_embd.weight", graph.RoleEmbedding, d.Vocab, d.Dim)
	positions := c.Tensor("position_embd.weight", graph.RolePosition, d.positions, d.Dim)
	pos := c.Pos
	if d.pad >= 0 {
		pos = c.Positions("count", c.Tokens, c.QStart, d.pad)
	}
	x := c.Add("embed", c.Embed("tokens", words, c.Tokens, 1), c.Embed("positions", positions, pos, 1))
	x = c.Segmented(x, d.segments)
	x = c.LayerNormed("embed_norm", x, "token_embd_norm", d.eps)
	return c.Layers(d.Layers, x, d.block)
}

// block is x[T,Dim] to x[T,Dim].
func (d *bert) block(c *Context, x *graph.Value, _ int, key string) *graph.Value {
	q := c.Project("q_proj", x, key+"attn_q", graph.RoleQ, d.Dim, needsBias)
	k := c.Project("k_proj", x, key+"attn_k", graph.RoleK, d.Dim, needsBias)
	v := c.Project("v_proj", x, key+"attn_v", graph.RoleV, d.Dim, needsBias)
	a := d.attend(c, q, k, v)
	a = c.Project("o_proj", a, key+"attn_output", graph.RoleO, d.Dim, needsBias)
	x = c.LayerNormed("attn_norm", c.Add("attn_add", x, a), key+"attn_output_norm", d.eps)

	h := c.Project("up_proj", x, key+"ffn_up", graph.RoleUp, d.FFN, needsBias)
	h = c.Project("down_proj", c.Act("act", h, d.act), key+"ffn_down", graph.RoleDown, d.Dim, needsBias)
	return c.LayerNormed("ffn_norm", c.Add("ffn_add", x, h), key+"layer_output_norm", d.eps)
}

func (d *bert) attend(c *Context, q, k, v *graph.Value) *graph.Value {
	attr := graph.AttentionAttr{Heads: d.Heads, KVHeads: d.KVHeads, HeadDim: d.HeadDim}
	if !d.relative {
		return c.Attend(q, k, v, attr)
	}
	var rel *graph.Value // [Heads,2*mpnetReach+1]
	if c.training {
		rel = d.trainedBias(c)
	} else {
		rel = c.Tensor("relative.weight", graph.RoleOther, d.Heads, 2*mpnetReach+1)
	}
	return c.AttentionRel("attention", q, k, v, c.QStart, rel, c.dropoutKey(&attr.Salt), attr)
}

// final is nothing: every block ends with a norm.
func (d *bert) final(_ *Context, x *graph.Value) *graph.Value { return x }

func (d *bert) head(c *Context, x *graph.Value) *graph.Value {
	c.Fail("BERT has no head for next tokens")
	return x
}

func (d *bert) classify(c *Context, x *graph.Value) *graph.Value {
	return c.Classified(c.Pool("first", x, c.QStart, graph.PoolCLS), d.headAct)
}
