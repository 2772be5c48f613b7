package model

import (
	"hotpath/internal/graph"
	"hotpath/internal/weights"
)

// Llama: norms before attention and before a gated feed-forward, rotary
// positions, several query heads to a key head.

func init() {
	register(&architecture{
		name: "llama", gguf: []string{"llama"}, hf: []string{"llama"},
		readGGUF: llamaGGUF, readHF: llamaHF,
	})
}

type llama struct {
	Config
	eps    float32
	act    graph.ActKind
	rope   rope
	rotDim int
	// interleaved: converters to GGUF reorder the rows of q and k so that the
	// two elements of a pair lie side by side.
	interleaved bool
	tied        bool // the head is the token table, whatever else is there
}

func llamaGGUF(r *fields) description {
	d := &llama{
		Config: Config{
			Layers: r.size("block_count", maxLayers),
			Dim:    r.size("embedding_length", maxDim),
			Heads:  r.size("attention.head_count", maxHeads),
			FFN:    r.size("feed_forward_length", maxFFN),
			Vocab:  r.vocabulary(),
			MaxSeq: r.size("context_length", maxContext),
			Causal: true, CanGenerate: true,
		},
		eps:         float32(r.positive("attention.layer_norm_rms_epsilon", 1e-5)),
		act:         graph.SiLU,
		rope:        ropeGGUF(r, 10000),
		interleaved: true,
	}
	d.KVHeads = r.sizeOr("attention.head_count_kv", maxHeads, d.Heads)
	d.HeadDim = headDim(r, "attention.key_length", "attention.head_count", d.Dim, d.Heads)
	if v := r.sizeOr("attention.value_length", maxHeadDim, d.HeadDim); v != d.HeadDim {
		r.unsupported("attention.value_length", "%d, expected that of keys (%d)", v, d.HeadDim)
	}
	d.rotDim = r.sizeOr("rope.dimension_count", maxHeadDim, d.HeadDim)
	if r.has("expert_count") {
		if n, err := r.gguf.IDOr(r.prefix+"expert_count", 0); err != nil || n > 0 {
			r.keep(err)
			r.unsupported("expert_count", "%d experts, expected none", n)
		}
	}
	d.check(r, "attention.head_count_kv", "rope.dimension_count")
	sentenceGGUF(r, &d.Config)
	return d
}

func llamaHF(r *fields) description {
	d := &llama{
		Config: Config{
			Layers: r.size("num_hidden_layers", maxLayers),
			Dim:    r.size("hidden_size", maxDim),
			Heads:  r.size("num_attention_heads", maxHeads),
			FFN:    r.size("intermediate_size", maxFFN),
			Vocab:  r.size("vocab_size", maxVocab),
			MaxSeq: r.sizeOr("max_position_embeddings", maxContext, 2048),
			Causal: true, CanGenerate: true,
		},
		eps:  float32(r.positive("rms_norm_eps", 1e-6)),
		act:  r.activation("hidden_act", "silu"),
		tied: r.flag("tie_word_embeddings", false),
	}
	d.KVHeads = r.sizeOr("num_key_value_heads", maxHeads, d.Heads)
	d.HeadDim = headDim(r, "head_dim", "num_attention_heads", d.Dim, d.Heads)
	d.rotDim = d.HeadDim
	d.rope = ropeHF(r, d.rotDim)
	d.check(r, "num_key_value_heads", "head_dim")
	return d
}

// headDim is a field, or the width shared among the heads.
func headDim(r *fields, key, heads string, dim, n int) int {
	if !r.has(key) {
		r.multiple(heads, "the width", dim, n)
		return max(dim/n, 1)
	}
	return r.size(key, maxHeadDim)
}

// check holds sizes against each other; kvHeads and rot are fields' names.
func (d *llama) check(r *fields, kvHeads, rot string) {
	r.multiple(kvHeads, "the number of heads", d.Heads, d.KVHeads)
	if r.failed() == nil && (d.rotDim%2 != 0 || d.rotDim > d.HeadDim) {
		r.invalid(rot, "expected an even number up to the size of a head (%d), found %d", d.HeadDim, d.rotDim)
	}
}

func (d *llama) config() *Config { return &d.Config }

func (d *llama) names(f weights.Format) naming {
	if f == weights.GGUF {
		return naming{}
	}
	n := naming{prefixes: []string{"model.", ""}, rows: []nameRow{
		{key: "token_embd", file: "embed_tokens"},
		{key: "output_norm", file: "norm"},
		{key: "output", file: "lm_head"},
		{key: "blk.{}.attn_norm", file: "layers.{}.input_layernorm"},
		{key: "blk.{}.attn_q", file: "layers.{}.self_attn.q_proj"},
		{key: "blk.{}.attn_k", file: "layers.{}.self_attn.k_proj"},
		{key: "blk.{}.attn_v", file: "layers.{}.self_attn.v_proj"},
		{key: "blk.{}.attn_output", file: "layers.{}.self_attn.o_proj"},
		{key: "blk.{}.ffn_norm", file: "layers.{}.post_attention_layernorm"},
		{key: "blk.{}.ffn_gate", file: "layers.{}.mlp.gate_proj"},
		{key: "blk.{}.ffn_up", file: "layers.{}.mlp.up_proj"},
		{key: "blk.{}.ffn_down", file: "layers.{}.mlp.down_proj"},
	}}
	if d.rope.factors != nil {
		n.made = map[string]madeWeight{ropeFreqs: {[]int{len(d.rope.factors)}, d.rope.factors}}
	}
	return n
}

// ropeFreqs divides the frequencies of the rope; few models have it.
const ropeFreqs = "rope_freqs.weight"

func (d *llama) body(c *Context) *graph.Value {
	words := c.Tensor("token_embd.weight", graph.RoleEmbedding, d.Vocab, d.Dim)
	var freqs *graph.Value
	if c.Has(ropeFreqs) {
		freqs = c.Tensor(ropeFreqs, graph.RoleOther, d.rotDim/2)
	}
	attention := graph.AttentionAttr{Heads: d.Heads, KVHeads: d.KVHeads, HeadDim: d.HeadDim, Causal: true}
	rotary := graph.RopeAttr{HeadDim: d.HeadDim, RotDim: d.rotDim, Base: d.rope.base, Scale: d.rope.scale, Interleaved: d.interleaved}

	return c.Layers(d.Layers, c.Embed("embed", words, c.Tokens, 1), func(c *Context, x *graph.Value, _ int, key string) *graph.Value {
		h := c.RMSNormed("attn_norm", x, key+"attn_norm", d.Dim, d.eps, 0)
		q := c.Project("q_proj", h, key+"attn_q", graph.RoleQ, d.Heads*d.HeadDim, mayHaveBias)
		k := c.Project("k_proj", h, key+"attn_k", graph.RoleK, d.KVHeads*d.HeadDim, mayHaveBias)
		v := c.Project("v_proj", h, key+"attn_v", graph.RoleV, d.KVHeads*d.HeadDim, mayHaveBias)
		q, k = c.Rope("q_rope", q, c.Pos, freqs, rotary), c.Rope("k_rope", k, c.Pos, freqs, rotary)
		a := c.Attend(q, k, v, attention)
		x = c.Add("attn_add", x, c.Project("o_proj", a, key+"attn_output", graph.RoleO, d.Dim, mayHaveBias))

		h = c.RMSNormed("ffn_norm", x, key+"ffn_norm", d.Dim, d.eps, 0)
		gate := c.Project("gate_proj", h, key+"ffn_gate", graph.RoleGate, d.FFN, mayHaveBias)
		up := c.Project("up_proj", h, key+"ffn_up", graph.RoleUp, d.FFN, mayHaveBias)
		h = c.GLU("glu", gate, up, d.act)
		return c.Add("ffn_add", x, c.Project("down_proj", h, key+"ffn_down", graph.RoleDown, d.Dim, mayHaveBias))
	})
}

func (d *llama) final(c *Context, x *graph.Value) *graph.Value {
	return c.RMSNormed("output_norm", x, "output_norm", d.Dim, d.eps, 0)
}

func (d *llama) head(c *Context, x *graph.Value) *graph.Value {
	return c.Logits(x, d.tied, d.Vocab)
}
