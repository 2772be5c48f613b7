package model

import (
	"hotpath/internal/graph"
	"hotpath/internal/weights"
)

// ModernBERT: norms before attention and feed-forward, rotary positions, a
// gated feed-forward, and windows in two of three layers, which have a rope of
// their own. The first layer has no norm before its attention: the embedding's
// is just before it.

func init() {
	register(&architecture{
		name: "modernbert", gguf: []string{"modern-bert"}, hf: []string{"modernbert"},
		readGGUF: modernGGUF, readHF: modernHF,
	})
}

type modern struct {
	Config
	eps         float32
	act         graph.ActKind
	full, local rope
	// Biases of norms, of attention and of the feed-forward.
	normBias, attnBias, ffnBias bias
	// Of the classifier.
	pool     graph.PoolKind
	headAct  graph.ActKind
	headBias bias
}

func modernGGUF(r *fields) description {
	d := &modern{
		Config: Config{
			Layers: r.size("block_count", maxLayers),
			Dim:    r.size("embedding_length", maxDim),
			Heads:  r.size("attention.head_count", maxHeads),
			FFN:    r.size("feed_forward_length", maxFFN),
			Vocab:  r.vocabulary(),
			MaxSeq: r.size("context_length", maxContext),
		},
		// The converter takes the field for that of another norm.
		eps:      float32(r.positive("attention.layer_norm_epsilon", r.positive("attention.layer_norm_rms_epsilon", 1e-5))),
		act:      r.activation("hidden_activation", "gelu"),
		normBias: mayHaveBias, attnBias: mayHaveBias, ffnBias: mayHaveBias,
		pool: graph.PoolCLS, headAct: graph.GELU, headBias: mayHaveBias,
	}
	d.heads(r, "attention.head_count")
	d.full = ropeGGUF(r, 160000, d.HeadDim)
	d.local = rope{base: r.positive("rope.freq_base_swa", 10000), dims: d.full.dims, scale: 1, key: ropeFreqsLocal}
	if r.has("attention.sliding_window") {
		if window := r.natural("attention.sliding_window", maxContext, 0); window > 0 {
			d.windows(window, r.firstOf(d.Layers, 3))
		}
	}
	sentenceGGUF(r, &d.Config)
	return d
}

// firstOf reads which layers have a window where the first of each period has
// none; files may list them too.
func (r *fields) firstOf(layers, period int) func(layer int) bool {
	if listed := r.windowList(layers); listed != nil {
		return listed
	}
	period = r.sizeOr(windowPattern, maxLayers, period)
	return func(layer int) bool { return layer%period != 0 }
}

func modernHF(r *fields) description {
	d := &modern{
		Config: Config{
			Layers: r.size("num_hidden_layers", maxLayers),
			Dim:    r.size("hidden_size", maxDim),
			Heads:  r.size("num_attention_heads", maxHeads),
			FFN:    r.size("intermediate_size", maxFFN),
			Vocab:  r.size("vocab_size", maxVocab),
			MaxSeq: r.sizeOr("max_position_embeddings", maxContext, 8192),
		},
		eps:     float32(r.positive("norm_eps", 1e-5)),
		act:     r.activation("hidden_activation", "gelu"),
		pool:    graph.PoolCLS,
		headAct: r.activation("classifier_activation", "gelu"),
	}
	for key, to := range map[string]*bias{"norm_bias": &d.normBias, "attention_bias": &d.attnBias, "mlp_bias": &d.ffnBias, "classifier_bias": &d.headBias} {
		if r.flag(key, false) {
			*to = needsBias
		}
	}
	switch pool := r.text("classifier_pooling", "cls"); pool {
	case "cls":
	case "mean":
		d.pool = graph.PoolMean
	default:
		r.unsupported("classifier_pooling", "%q, expected cls or mean", pool)
	}
	d.heads(r, "num_attention_heads")
	d.full = rope{base: r.positive("global_rope_theta", 160000), dims: d.HeadDim, scale: 1, key: ropeFreqs}
	d.local = rope{base: r.positive("local_rope_theta", 10000), dims: d.HeadDim, scale: 1, key: ropeFreqsLocal}
	d.full.check(r, "num_attention_heads", d.HeadDim)
	if o := r.object("rope_scaling"); o != nil { // it concerns both
		d.full.apply(o, r, nil)
		d.local.apply(o, r, nil)
	}
	if o := r.object("rope_parameters"); o != nil {
		for key, p := range map[string]*rope{fullAttention: &d.full, slidingAttention: &d.local} {
			if kind := o.object(key); kind != nil {
				p.apply(kind, r, nil)
			}
		}
	}
	window := r.sizeOr("local_attention", maxContext, 128)
	if sliding := r.layerTypes(d.Layers); sliding != nil {
		d.windows(window, func(layer int) bool { return sliding[layer] })
	} else {
		period := r.sizeOr("global_attn_every_n_layers", maxLayers, 3)
		d.windows(window, func(layer int) bool { return layer%period != 0 })
	}
	return d
}

func (d *modern) heads(r *fields, key string) {
	r.multiple(key, "the width", d.Dim, d.Heads)
	d.KVHeads, d.HeadDim = d.Heads, d.Dim/d.Heads
}

// windows sets how far layers see.
func (d *modern) windows(window int, has func(layer int) bool) {
	d.Windows = make([]int, d.Layers)
	for i := range d.Windows {
		if has(i) {
			d.Windows[i] = bothWays(window)
		}
	}
}

func (d *modern) config() *Config { return &d.Config }

func (d *modern) names(f weights.Format) naming {
	halves := func(file string) []nameRow {
		return []nameRow{{"blk.{}.ffn_gate", file, transform{part: 0, of: 2}}, {"blk.{}.ffn_up", file, transform{part: 1, of: 2}}}
	}
	made := map[string]madeWeight{}
	d.full.made(made)
	d.local.made(made)
	if f == weights.GGUF {
		return naming{rows: append(fusedThree("blk.{}.attn_qkv"), halves("blk.{}.ffn_up")...), made: made}
	}
	rows := []nameRow{
		{key: "token_embd", file: "embeddings.tok_embeddings"},
		{key: "token_embd_norm", file: "embeddings.norm"},
		{key: "output_norm", file: "final_norm"},
		{key: "blk.{}.attn_norm", file: "layers.{}.attn_norm"},
		{key: "blk.{}.attn_output", file: "layers.{}.attn.Wo"},
		{key: "blk.{}.ffn_norm", file: "layers.{}.mlp_norm"},
		{key: "blk.{}.ffn_down", file: "layers.{}.mlp.Wo"},
		{key: "cls", file: "head.dense"},
		{key: "cls.norm", file: "head.norm"},
		{key: "cls.output", file: "classifier"},
	}
	rows = append(append(rows, fusedThree("layers.{}.attn.Wqkv")...), halves("layers.{}.mlp.Wi")...)
	return naming{prefixes: []string{"", "model."}, rows: rows, made: made}
}

func (d *modern) normed(c *Context, name string, x *graph.Value, key string) *graph.Value {
	w := c.Tensor(key+".weight", graph.RoleNorm, d.Dim)
	return c.LayerNorm(name, x, w, c.bias(key, d.normBias, d.Dim), d.eps)
}

func (d *modern) body(c *Context) *graph.Value {
	words := c.Tensor("token_embd.weight", graph.RoleEmbedding, d.Vocab, d.Dim)
	x := d.normed(c, "embed_norm", c.Embed("embed", words, c.Tokens, 1), "token_embd_norm")
	return c.Layers(d.Layers, x, d.block)
}

// block is x[T,Dim] to x[T,Dim].
func (d *modern) block(c *Context, x *graph.Value, layer int, key string) *graph.Value {
	attr, rope := graph.AttentionAttr{Heads: d.Heads, KVHeads: d.KVHeads, HeadDim: d.HeadDim}, &d.full
	if d.Windows != nil && d.Windows[layer] > 0 {
		attr.Window, rope = d.Windows[layer], &d.local
	}
	h := x
	if layer > 0 {
		h = d.normed(c, "attn_norm", x, key+"attn_norm")
	}
	q := c.Project("q_proj", h, key+"attn_q", graph.RoleQ, d.Dim, d.attnBias)
	k := c.Project("k_proj", h, key+"attn_k", graph.RoleK, d.Dim, d.attnBias)
	v := c.Project("v_proj", h, key+"attn_v", graph.RoleV, d.Dim, d.attnBias)
	q = c.Rotate("q_rope", q, rope, d.HeadDim, false)
	k = c.Rotate("k_rope", k, rope, d.HeadDim, false)
	a := c.Project("o_proj", c.Attend(q, k, v, attr), key+"attn_output", graph.RoleO, d.Dim, d.attnBias)
	x = c.Add("attn_add", x, a)

	h = d.normed(c, "ffn_norm", x, key+"ffn_norm")
	gate := c.Project("gate_proj", h, key+"ffn_gate", graph.RoleGate, d.FFN, d.ffnBias)
	up := c.Project("up_proj", h, key+"ffn_up", graph.RoleUp, d.FFN, d.ffnBias)
	return c.Add("ffn_add", x, c.Project("down_proj", c.GLU("glu", gate, up, d.act), key+"ffn_down", graph.RoleDown, d.Dim, d.ffnBias))
}

func (d *modern) final(c *Context, x *graph.Value) *graph.Value {
	return d.normed(c, "output_norm", x, "output_norm")
}

func (d *modern) head(c *Context, x *graph.Value) *graph.Value {
	c.Fail("ModernBERT has no head for next tokens")
	return x
}

func (d *modern) classify(c *Context, x *graph.Value) *graph.Value {
	x = c.Pool("pooled", x, c.QStart, d.pool)
	x = c.Act("cls_act", c.Project("cls", x, "cls", graph.RoleHead, d.Dim, d.headBias), d.headAct)
	x = d.normed(c, "cls_norm", x, "cls.norm")
	return c.Project("cls_output", x, "cls.output", graph.RoleHead, c.classes(), mayHaveBias)
}
