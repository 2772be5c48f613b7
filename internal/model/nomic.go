package model

import (
	"hotpath/internal/graph"
	"hotpath/internal/weights"
)

// Nomic BERT: BERT with rotary positions, a gated feed-forward and, as a rule,
// no biases. Files are of two generations: those of the model's own code and
// those of transformers.

func init() {
	register(&architecture{
		name: "nomic-bert", gguf: []string{"nomic-bert"}, hf: []string{"nomic_bert"},
		readGGUF: nomicGGUF, readHF: nomicHF,
	})
}

type nomic struct {
	Config
	segments    int
	eps         float32
	act         graph.ActKind
	gated       bool
	rope        rope
	interleaved bool
	// Biases of the projections of attention and of the feed-forward.
	attnBias, upBias, downBias bias

	// Where Hugging Face files have the tensors, where not as Nomic's do.
	prefixes []string
	table    []nameRow
}

func nomicGGUF(r *fields) description {
	d := &nomic{
		Config: Config{
			Layers: r.size("block_count", maxLayers),
			Dim:    r.size("embedding_length", maxDim),
			Heads:  r.size("attention.head_count", maxHeads),
			FFN:    r.size("feed_forward_length", maxFFN),
			Vocab:  r.vocabulary(),
			MaxSeq: r.size("context_length", maxContext),
		},
		eps: float32(r.positive("attention.layer_norm_epsilon", 1e-12)),
		act: graph.SiLU, gated: true,
		attnBias: mayHaveBias, upBias: mayHaveBias, downBias: mayHaveBias,
	}
	if r.hasTensor("token_types.weight") {
		d.segments = r.height("token_types.weight")
	}
	if r.flag("attention.causal", false) {
		r.unsupported("attention.causal", "true, expected false")
	}
	d.heads(r, "attention.head_count")
	d.rope = ropeGGUF(r, 1000, d.HeadDim)
	sentenceGGUF(r, &d.Config)
	return d
}

// nomicGates are the values of activation_function of the model's own code.
var nomicGates = map[string]graph.ActKind{"swiglu": graph.SiLU, "geglu": graph.GELU, "glu": graph.Sigmoid}

func nomicHF(r *fields) description {
	own := r.has("n_embd")
	key := func(theirs, ours string) string {
		if own {
			return ours
		}
		return theirs
	}
	heads := key("num_attention_heads", "n_head")
	d := &nomic{
		Config: Config{
			Layers: r.size(key("num_hidden_layers", "n_layer"), maxLayers),
			Dim:    r.size(key("hidden_size", "n_embd"), maxDim),
			Heads:  r.size(heads, maxHeads),
			FFN:    r.size(key("intermediate_size", "n_inner"), maxFFN),
			Vocab:  r.size("vocab_size", maxVocab),
			MaxSeq: r.size(key("max_position_embeddings", "n_positions"), maxContext),
		},
		segments: r.natural("type_vocab_size", maxVocab, 2),
		eps:      float32(r.positive(key("layer_norm_eps", "layer_norm_epsilon"), 1e-12)),
		gated:    true,
	}
	d.heads(r, heads)
	if own {
		d.ownCode(r)
		return d
	}
	d.act = r.activation("hidden_act", "silu")
	if size := r.sizeOr("head_dim", maxHeadDim, d.HeadDim); size != d.HeadDim {
		r.unsupported("head_dim", "%d, expected the width over the number of heads (%d)", size, d.HeadDim)
	}
	d.rope = ropeHF(r, d.HeadDim, ropeDefaults{theta: 1000})
	return d
}

// ownCode reads the fields of the model's own code.
func (d *nomic) ownCode(r *fields) {
	for _, key := range []string{"prenorm", "causal", "parallel_block", "use_rms_norm"} {
		if r.flag(key, false) {
			r.unsupported(key, "true, expected false")
		}
	}
	if n := r.natural("moe_every_n_layers", maxLayers, 0); n > 0 {
		r.unsupported("moe_every_n_layers", "%d, expected a model without experts", n)
	}
	act := r.text("activation_function", "swiglu")
	if d.act, d.gated = nomicGates[act]; !d.gated {
		d.act = r.activation("activation_function", "gelu")
	}
	for key, to := range map[string]*bias{"qkv_proj_bias": &d.attnBias, "mlp_fc1_bias": &d.upBias, "mlp_fc2_bias": &d.downBias} {
		if r.flag(key, true) {
			*to = needsBias
		}
	}
	d.interleaved = r.flag("rotary_emb_interleaved", false)
	d.rope = rope{base: r.positive("rotary_emb_base", 10000), dims: int(float64(d.HeadDim) * r.positive("rotary_emb_fraction", 1)), scale: 1, key: ropeFreqs}
	d.rope.check(r, "rotary_emb_fraction", d.HeadDim)
	if r.has("rotary_emb_scale_base") {
		r.unsupported("rotary_emb_scale_base", "expected none")
	}
	if f := r.optional("rotary_scaling_factor"); f > 0 {
		d.rope.stretch, d.rope.context = f, r.sizeOr("max_trained_positions", maxContext, 2048)
	}
}

func (d *nomic) heads(r *fields, key string) {
	r.multiple(key, "the width", d.Dim, d.Heads)
	d.KVHeads, d.HeadDim = d.Heads, d.Dim/d.Heads
}

func (d *nomic) config() *Config  { return &d.Config }
func (d *nomic) segmentRows() int { return d.segments }

// fusedThree are q, k and v out of one tensor.
func fusedThree(file string) []nameRow {
	var rows []nameRow
	for i, key := range []string{"blk.{}.attn_q", "blk.{}.attn_k", "blk.{}.attn_v"} {
		rows = append(rows, nameRow{key, file, transform{part: i, of: 3}})
	}
	return rows
}

func (d *nomic) names(f weights.Format) naming {
	segment, made := transform{firstRow: true}, map[string]madeWeight{}
	d.rope.made(made)
	if f == weights.GGUF {
		// Files may have them apart as well, by their own names.
		apart := []nameRow{{key: "blk.{}.attn_q", file: "blk.{}.attn_q"}, {key: "blk.{}.attn_k", file: "blk.{}.attn_k"}, {key: "blk.{}.attn_v", file: "blk.{}.attn_v"}}
		return naming{rows: append(append([]nameRow{{"segment", "token_types", segment}}, fusedThree("blk.{}.attn_qkv")...), apart...), made: made}
	}
	if d.table != nil {
		return naming{prefixes: d.prefixes, rows: d.table, made: made}
	}
	rows := []nameRow{
		{key: "token_embd", file: "embeddings.word_embeddings"},
		{"segment", "embeddings.token_type_embeddings", segment},
		{key: "token_types", file: "embeddings.token_type_embeddings"},
		{key: "token_embd_norm", file: "emb_ln"},
		{key: "blk.{}.attn_output", file: "encoder.layers.{}.attn.out_proj"},
		{key: "blk.{}.attn_output_norm", file: "encoder.layers.{}.norm1"},
		{key: "blk.{}.ffn_up", file: "encoder.layers.{}.mlp.fc11"},
		{key: "blk.{}.ffn_up", file: "encoder.layers.{}.mlp.fc1"},
		{key: "blk.{}.ffn_gate", file: "encoder.layers.{}.mlp.fc12"},
		{key: "blk.{}.ffn_down", file: "encoder.layers.{}.mlp.fc2"},
		{key: "blk.{}.layer_output_norm", file: "encoder.layers.{}.norm2"},
		// As transformers calls them within.
		{key: "token_embd_norm", file: "embeddings.LayerNorm"},
		{key: "blk.{}.attn_q", file: "layers.{}.self_attn.q_proj"},
		{key: "blk.{}.attn_k", file: "layers.{}.self_attn.k_proj"},
		{key: "blk.{}.attn_v", file: "layers.{}.self_attn.v_proj"},
		{key: "blk.{}.attn_output", file: "layers.{}.self_attn.o_proj"},
		{key: "blk.{}.attn_output_norm", file: "layers.{}.post_attention_layernorm"},
		{key: "blk.{}.ffn_up", file: "layers.{}.mlp.up_proj"},
		{key: "blk.{}.ffn_gate", file: "layers.{}.mlp.gate_proj"},
		{key: "blk.{}.ffn_down", file: "layers.{}.mlp.down_proj"},
		{key: "blk.{}.layer_output_norm", file: "layers.{}.post_mlp_layernorm"},
	}
	return naming{prefixes: []string{"", "nomic_bert.", "bert."}, rows: append(rows, fusedThree("encoder.layers.{}.attn.Wqkv")...), made: made}
}

func (d *nomic) body(c *Context) *graph.Value {
	words := c.Tensor("token_embd.weight", graph.RoleEmbedding, d.Vocab, d.Dim)
	x := c.Segmented(c.Embed("embed", words, c.Tokens, 1), d.segments)
	x = c.LayerNormed("embed_norm", x, "token_embd_norm", d.eps)
	return c.Layers(d.Layers, x, d.block)
}

// block is x[T,Dim] to x[T,Dim].
func (d *nomic) block(c *Context, x *graph.Value, _ int, key string) *graph.Value {
	q := c.Project("q_proj", x, key+"attn_q", graph.RoleQ, d.Dim, d.attnBias)
	k := c.Project("k_proj", x, key+"attn_k", graph.RoleK, d.Dim, d.attnBias)
	v := c.Project("v_proj", x, key+"attn_v", graph.RoleV, d.Dim, d.attnBias)
	q = c.Rotate("q_rope", q, &d.rope, d.HeadDim, d.interleaved)
	k = c.Rotate("k_rope", k, &d.rope, d.HeadDim, d.interleaved)
	a := c.Attend(q, k, v, graph.AttentionAttr{Heads: d.Heads, KVHeads: d.KVHeads, HeadDim: d.HeadDim})
	a = c.Project("o_proj", a, key+"attn_output", graph.RoleO, d.Dim, d.attnBias)
	x = c.LayerNormed("attn_norm", c.Add("attn_add", x, a), key+"attn_output_norm", d.eps)

	h := c.Project("up_proj", x, key+"ffn_up", graph.RoleUp, d.FFN, d.upBias)
	if d.gated {
		h = c.GLU("glu", c.Project("gate_proj", x, key+"ffn_gate", graph.RoleGate, d.FFN, d.upBias), h, d.act)
	} else {
		h = c.Act("act", h, d.act)
	}
	h = c.Project("down_proj", h, key+"ffn_down", graph.RoleDown, d.Dim, d.downBias)
	return c.LayerNormed("ffn_norm", c.Add("ffn_add", x, h), key+"layer_output_norm", d.eps)
}

// final is nothing: every block ends with a norm.
func (d *nomic) final(_ *Context, x *graph.Value) *graph.Value { return x }

func (d *nomic) head(c *Context, x *graph.Value) *graph.Value {
	c.Fail("Nomic BERT has no head for next tokens")
	return x
}
