package model

import (
	"math"

	"hotpath/internal/graph"
	"hotpath/internal/weights"
)

// GPT-2: learned positions, norms before attention and before the feed-forward,
// biases everywhere. Files keep q, k and v as one matrix, and Hugging Face
// keeps all matrices of the blocks transposed.

func init() {
	register(&architecture{
		name: "gpt2", gguf: []string{"gpt2"}, hf: []string{"gpt2"},
		readGGUF: gpt2GGUF, readHF: gpt2HF,
	})
}

type gpt2 struct {
	Config
	eps      float32
	act      graph.ActKind
	tied     bool
	unscaled bool // scores are not divided by the root of the head's size
	byLayer  bool // scores are divided by the number of the layer, from 1
}

func gpt2GGUF(r *fields) description {
	d := &gpt2{
		Config: Config{
			Layers: r.size("block_count", maxLayers),
			Dim:    r.size("embedding_length", maxDim),
			Heads:  r.size("attention.head_count", maxHeads),
			Vocab:  r.vocabulary(),
			MaxSeq: r.size("context_length", maxContext),
		},
		eps: float32(r.positive("attention.layer_norm_epsilon", 1e-5)),
		act: graph.GELUTanh,
	}
	d.FFN = r.sizeOr("feed_forward_length", maxFFN, 4*d.Dim)
	d.complete(r, "attention.head_count")
	sentenceGGUF(r, &d.Config)
	return d
}

func gpt2HF(r *fields) description {
	d := &gpt2{
		Config: Config{
			Layers: r.size("n_layer", maxLayers),
			Dim:    r.size("n_embd", maxDim),
			Heads:  r.size("n_head", maxHeads),
			Vocab:  r.size("vocab_size", maxVocab),
			MaxSeq: r.size("n_positions", maxContext),
		},
		eps:      float32(r.positive("layer_norm_epsilon", 1e-5)),
		act:      r.activation("activation_function", "gelu_new"),
		tied:     r.flag("tie_word_embeddings", true),
		unscaled: !r.flag("scale_attn_weights", true),
		byLayer:  r.flag("scale_attn_by_inverse_layer_idx", false),
	}
	d.FFN = r.sizeOr("n_inner", maxFFN, 4*d.Dim)
	if r.flag("add_cross_attention", false) {
		r.unsupported("add_cross_attention", "true, expected false")
	}
	d.complete(r, "n_head")
	return d
}

// complete derives what the files do not say; heads is the field's name.
func (d *gpt2) complete(r *fields, heads string) {
	r.multiple(heads, "the width", d.Dim, d.Heads)
	d.KVHeads, d.HeadDim = d.Heads, d.Dim/d.Heads
	d.Causal, d.CanGenerate = true, true
}

func (d *gpt2) config() *Config { return &d.Config }

func (d *gpt2) names(f weights.Format) naming {
	if f == weights.GGUF {
		return naming{rows: []nameRow{
			{"blk.{}.attn_q", "blk.{}.attn_qkv", transform{part: 0, of: 3}},
			{"blk.{}.attn_k", "blk.{}.attn_qkv", transform{part: 1, of: 3}},
			{"blk.{}.attn_v", "blk.{}.attn_qkv", transform{part: 2, of: 3}},
		}}
	}
	return naming{prefixes: []string{"transformer.", ""}, rows: []nameRow{
		{key: "token_embd", file: "wte"},
		{key: "position_embd", file: "wpe"},
		{key: "output_norm", file: "ln_f"},
		{key: "output", file: "lm_head"},
		{key: "blk.{}.attn_norm", file: "h.{}.ln_1"},
		{"blk.{}.attn_q", "h.{}.attn.c_attn", transform{transpose: true, part: 0, of: 3}},
		{"blk.{}.attn_k", "h.{}.attn.c_attn", transform{transpose: true, part: 1, of: 3}},
		{"blk.{}.attn_v", "h.{}.attn.c_attn", transform{transpose: true, part: 2, of: 3}},
		{"blk.{}.attn_output", "h.{}.attn.c_proj", transform{transpose: true}},
		{key: "blk.{}.ffn_norm", file: "h.{}.ln_2"},
		{"blk.{}.ffn_up", "h.{}.mlp.c_fc", transform{transpose: true}},
		{"blk.{}.ffn_down", "h.{}.mlp.c_proj", transform{transpose: true}},
	}}
}

func (d *gpt2) body(c *Context) *graph.Value {
	words := c.Tensor("token_embd.weight", graph.RoleEmbedding, d.Vocab, d.Dim)
	positions := c.Tensor("position_embd.weight", graph.RolePosition, d.MaxSeq, d.Dim)
	x := c.Add("embed", c.Embed("tokens", words, c.Tokens, 1), c.Embed("positions", positions, c.Pos, 1))
	return c.Layers(d.Layers, x, d.block)
}

// block is x[T,Dim] to x[T,Dim].
func (d *gpt2) block(c *Context, x *graph.Value, layer int, key string) *graph.Value {
	h := c.LayerNormed("attn_norm", x, key+"attn_norm", d.eps)
	q := c.Project("q_proj", h, key+"attn_q", graph.RoleQ, d.Dim, needsBias)
	k := c.Project("k_proj", h, key+"attn_k", graph.RoleK, d.Dim, needsBias)
	v := c.Project("v_proj", h, key+"attn_v", graph.RoleV, d.Dim, needsBias)
	a := c.Attend(q, k, v, graph.AttentionAttr{Heads: d.Heads, KVHeads: d.KVHeads, HeadDim: d.HeadDim, Causal: true, Scale: d.scale(layer)})
	x = c.Add("attn_add", x, c.Project("o_proj", a, key+"attn_output", graph.RoleO, d.Dim, needsBias))

	h = c.LayerNormed("ffn_norm", x, key+"ffn_norm", d.eps)
	h = c.Project("up_proj", h, key+"ffn_up", graph.RoleUp, d.FFN, needsBias)
	h = c.Project("down_proj", c.Act("act", h, d.act), key+"ffn_down", graph.RoleDown, d.Dim, needsBias)
	return c.Add("ffn_add", x, h)
}

// scale is the factor of a layer's scores.
func (d *gpt2) scale(layer int) float32 {
	s := 1.0
	if !d.unscaled {
		s /= math.Sqrt(float64(d.HeadDim))
	}
	if d.byLayer {
		s /= float64(layer + 1)
	}
	return float32(s)
}

func (d *gpt2) final(c *Context, x *graph.Value) *graph.Value {
	return c.LayerNormed("output_norm", x, "output_norm", d.eps)
}

func (d *gpt2) head(c *Context, x *graph.Value) *graph.Value {
	return c.Logits(x, d.tied, d.Vocab)
}
