package model

import (
	"math"

	"hotpath/internal/graph"
	"hotpath/internal/weights"
)

// Gemma 3, text only, and EmbeddingGemma, which is the same attending in both
// directions: a norm before and after attention and feed-forward each, norms
// of every query and key head, and five layers with a window to one without.

func init() {
	register(&architecture{
		name: "gemma3", gguf: []string{"gemma3", "gemma-embedding"}, hf: []string{"gemma3_text"},
		readGGUF: gemmaGGUF, readHF: gemmaHF,
	})
}

type gemma struct {
	Config
	eps      float32
	norm     float32 // added to the weights of norms: 1 unless the file has done it
	act      graph.ActKind
	scale    float32 // of scores
	logitCap float32
	tied     bool
	full     rope // of layers without a window
	local    rope // of layers with one
}

func gemmaGGUF(r *fields) description {
	d := &gemma{
		Config: Config{
			Layers:  r.size("block_count", maxLayers),
			Dim:     r.size("embedding_length", maxDim),
			Heads:   r.size("attention.head_count", maxHeads),
			HeadDim: r.size("attention.key_length", maxHeadDim),
			FFN:     r.size("feed_forward_length", maxFFN),
			Vocab:   r.vocabulary(),
			MaxSeq:  r.size("context_length", maxContext),
			Causal:  r.prefix == "gemma3.",
		},
		eps:      float32(r.positive("attention.layer_norm_rms_epsilon", 1e-6)),
		act:      graph.GELUTanh,
		logitCap: float32(r.optional("final_logit_softcapping")),
		full:     ropeGGUF(r, 1e6),
		local:    rope{base: r.positive("rope.freq_base_swa", 1e4), scale: 1},
	}
	d.KVHeads = r.sizeOr("attention.head_count_kv", maxHeads, d.Heads)
	if v := r.sizeOr("attention.value_length", maxHeadDim, d.HeadDim); v != d.HeadDim {
		r.unsupported("attention.value_length", "%d, expected that of keys (%d)", v, d.HeadDim)
	}
	// Files do not carry the scale: it follows the head's size, but the width
	// of the largest Gemma.
	per := d.HeadDim
	if d.Causal && d.Layers == 62 {
		per = d.Dim / d.Heads
	}
	d.scale = float32(r.positive("attention.scale", 1/math.Sqrt(float64(max(per, 1)))))
	if r.has("attention.sliding_window") || !d.Causal {
		window := r.size("attention.sliding_window", maxContext)
		period := r.sizeOr("attention.sliding_window_pattern", maxLayers, 6)
		d.window(window, func(layer int) bool { return (layer+1)%period == 0 })
	}
	d.check(r, "attention.head_count_kv", "attention.key_length")
	sentenceGGUF(r, &d.Config)
	return d
}

func gemmaHF(r *fields) description {
	d := &gemma{
		Config: Config{
			Layers:  r.size("num_hidden_layers", maxLayers),
			Dim:     r.size("hidden_size", maxDim),
			Heads:   r.size("num_attention_heads", maxHeads),
			KVHeads: r.size("num_key_value_heads", maxHeads),
			HeadDim: r.sizeOr("head_dim", maxHeadDim, 256),
			FFN:     r.size("intermediate_size", maxFFN),
			Vocab:   r.size("vocab_size", maxVocab),
			MaxSeq:  r.sizeOr("max_position_embeddings", maxContext, 131072),
			Causal:  !r.flag("use_bidirectional_attention", false),
		},
		eps:      float32(r.positive("rms_norm_eps", 1e-6)),
		norm:     1,
		act:      r.activation("hidden_activation", "gelu_pytorch_tanh"),
		scale:    float32(1 / math.Sqrt(r.positive("query_pre_attn_scalar", 256))),
		logitCap: float32(r.optional("final_logit_softcapping")),
		tied:     r.flag("tie_word_embeddings", true),
		full:     rope{base: r.positive("rope_theta", 1e6), scale: 1},
		local:    rope{base: r.positive("rope_local_base_freq", 1e4), scale: 1},
	}
	if o := r.object("rope_scaling"); o != nil { // it never concerned local layers
		d.full.apply(o, d.HeadDim)
	}
	if o := r.object("rope_parameters"); o != nil {
		if full := o.object(fullAttention); full != nil {
			d.full.apply(full, d.HeadDim)
		}
		if local := o.object(slidingAttention); local != nil {
			d.local.apply(local, d.HeadDim)
		}
	}
	if d.full.factors != nil || d.local.factors != nil {
		r.unsupported("rope_parameters", "a rope with factors for each frequency, expected default or linear")
	}
	d.layersHF(r)
	d.check(r, "num_key_value_heads", "head_dim")
	return d
}

const (
	fullAttention    = "full_attention"
	slidingAttention = "sliding_attention"
)

// layersHF reads which layers have a window.
func (d *gemma) layersHF(r *fields) {
	window := r.sizeOr("sliding_window", maxContext, 4096)
	if !r.has("layer_types") {
		period := r.sizeOr("sliding_window_pattern", maxLayers, 6)
		d.window(window, func(layer int) bool { return (layer+1)%period == 0 })
		return
	}
	kinds, err := r.hf.Strings("layer_types")
	r.keep(err)
	if r.failed() == nil && len(kinds) != d.Layers {
		r.invalid("layer_types", "%d entries, expected one for each of %d layers", len(kinds), d.Layers)
	}
	for i, kind := range kinds {
		if kind != fullAttention && kind != slidingAttention {
			r.unsupported("layer_types", "%q for layer %d, expected %s or %s", kind, i, fullAttention, slidingAttention)
		}
	}
	if r.failed() == nil {
		d.window(window, func(layer int) bool { return kinds[layer] == fullAttention })
	}
}

// window sets how far each layer sees. A window that looks both ways has half
// of its size on each side, and the token itself.
func (d *gemma) window(size int, full func(layer int) bool) {
	if !d.Causal {
		size = size/2 + 1
	}
	d.Windows = make([]int, d.Layers)
	for i := range d.Windows {
		if !full(i) {
			d.Windows[i] = size
		}
	}
}

// check holds sizes against each other; kvHeads and head are fields' names.
func (d *gemma) check(r *fields, kvHeads, head string) {
	d.CanGenerate = d.Causal
	if key := "attn_logit_softcapping"; r.optional(key) != 0 {
		r.unsupported(key, "a cap on scores, expected none: implementations of Gemma 3 differ in what it does")
	}
	r.multiple(kvHeads, "the number of heads", d.Heads, d.KVHeads)
	if r.failed() == nil && d.HeadDim%2 != 0 {
		r.invalid(head, "expected an even number, found %d", d.HeadDim)
	}
}

func (d *gemma) config() *Config { return &d.Config }

func (d *gemma) names(f weights.Format) naming {
	if f == weights.GGUF {
		return naming{}
	}
	return naming{prefixes: []string{"", "model."}, rows: []nameRow{
		{key: "token_embd", file: "embed_tokens"},
		{key: "output_norm", file: "norm"},
		{key: "output", file: "lm_head"},
		{key: "blk.{}.attn_norm", file: "layers.{}.input_layernorm"},
		{key: "blk.{}.attn_q", file: "layers.{}.self_attn.q_proj"},
		{key: "blk.{}.attn_k", file: "layers.{}.self_attn.k_proj"},
		{key: "blk.{}.attn_v", file: "layers.{}.self_attn.v_proj"},
		{key: "blk.{}.attn_q_norm", file: "layers.{}.self_attn.q_norm"},
		{key: "blk.{}.attn_k_norm", file: "layers.{}.self_attn.k_norm"},
		{key: "blk.{}.attn_output", file: "layers.{}.self_attn.o_proj"},
		{key: "blk.{}.post_attention_norm", file: "layers.{}.post_attention_layernorm"},
		{key: "blk.{}.ffn_norm", file: "layers.{}.pre_feedforward_layernorm"},
		{key: "blk.{}.ffn_gate", file: "layers.{}.mlp.gate_proj"},
		{key: "blk.{}.ffn_up", file: "layers.{}.mlp.up_proj"},
		{key: "blk.{}.ffn_down", file: "layers.{}.mlp.down_proj"},
		{key: "blk.{}.post_ffw_norm", file: "layers.{}.post_feedforward_layernorm"},
	}}
}

func (d *gemma) body(c *Context) *graph.Value {
	words := c.Tensor("token_embd.weight", graph.RoleEmbedding, d.Vocab, d.Dim)
	x := c.Embed("embed", words, c.Tokens, float32(math.Sqrt(float64(d.Dim))))
	return c.Layers(d.Layers, x, d.block)
}

// block is x[T,Dim] to x[T,Dim].
func (d *gemma) block(c *Context, x *graph.Value, layer int, key string) *graph.Value {
	attention := graph.AttentionAttr{Heads: d.Heads, KVHeads: d.KVHeads, HeadDim: d.HeadDim, Scale: d.scale, Causal: d.Causal}
	rope := d.full
	if d.Windows != nil && d.Windows[layer] > 0 {
		attention.Window, rope = d.Windows[layer], d.local
	}
	rotary := graph.RopeAttr{HeadDim: d.HeadDim, Base: rope.base, Scale: rope.scale}

	h := d.normed(c, "attn_norm", x, key+"attn_norm", d.Dim)
	q := c.Project("q_proj", h, key+"attn_q", graph.RoleQ, d.Heads*d.HeadDim, mayHaveBias)
	k := c.Project("k_proj", h, key+"attn_k", graph.RoleK, d.KVHeads*d.HeadDim, mayHaveBias)
	v := c.Project("v_proj", h, key+"attn_v", graph.RoleV, d.KVHeads*d.HeadDim, mayHaveBias)
	q = c.Rope("q_rope", d.normed(c, "q_norm", q, key+"attn_q_norm", d.HeadDim), c.Pos, nil, rotary)
	k = c.Rope("k_rope", d.normed(c, "k_norm", k, key+"attn_k_norm", d.HeadDim), c.Pos, nil, rotary)
	a := c.Attend(q, k, v, attention)
	a = c.Project("o_proj", a, key+"attn_output", graph.RoleO, d.Dim, mayHaveBias)
	x = c.Add("attn_add", x, d.normed(c, "attn_post_norm", a, key+"post_attention_norm", d.Dim))

	h = d.normed(c, "ffn_norm", x, key+"ffn_norm", d.Dim)
	gate := c.Project("gate_proj", h, key+"ffn_gate", graph.RoleGate, d.FFN, noBias)
	up := c.Project("up_proj", h, key+"ffn_up", graph.RoleUp, d.FFN, noBias)
	h = c.Project("down_proj", c.GLU("glu", gate, up, d.act), key+"ffn_down", graph.RoleDown, d.Dim, noBias)
	return c.Add("ffn_add", x, d.normed(c, "ffn_post_norm", h, key+"post_ffw_norm", d.Dim))
}

func (d *gemma) normed(c *Context, name string, x *graph.Value, key string, width int) *graph.Value {
	return c.RMSNormed(name, x, key, width, d.eps, d.norm)
}

func (d *gemma) final(c *Context, x *graph.Value) *graph.Value {
	return d.normed(c, "output_norm", x, "output_norm", d.Dim)
}

func (d *gemma) head(c *Context, x *graph.Value) *graph.Value {
	x = c.Logits(x, d.tied, d.Vocab)
	if d.logitCap > 0 {
		x = c.Scale("uncap", c.Act("cap", c.Scale("cap_scale", x, 1/d.logitCap), graph.Tanh), d.logitCap)
	}
	return x
}
