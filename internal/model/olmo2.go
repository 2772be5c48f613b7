package model

import (
	"hotpath/internal/graph"
	"hotpath/internal/weights"
)

// OLMo 2 has no norm before attention and feed-forward but one after each, and
// norms of queries and of keys over all heads together. OLMo 3 is the same with
// a window in three layers of four, whose positions rotate as they are even
// where those of the others are stretched. GGUF files call both olmo2.

func init() {
	register(&architecture{name: "olmo2", gguf: []string{"olmo2"}, hf: []string{"olmo2"}, readGGUF: olmo2GGUF, readHF: olmo2HF})
	register(&architecture{name: "olmo3", hf: []string{"olmo3"}, readHF: olmo3HF})
}

type olmo2 struct{ *decoder }

func olmo2GGUF(r *fields) description {
	d := sizesGGUF(r)
	d.headNorms = wholeNorms
	if key := "attention.sliding_window"; r.has(key) {
		d.windows(r.size(key, maxContext), r.pattern(d.Layers, 4))
		d.local = &rope{base: r.positive("rope.freq_base_swa", d.rope.base), dims: d.rope.dims, scale: 1, key: ropeFreqsLocal}
	}
	return olmo2{d}
}

func olmo2HF(r *fields) description {
	d := sizesHF(r, 2048, 1e-5, ropeDefaults{})
	d.headNorms = wholeNorms
	return olmo2{d}
}

func olmo3HF(r *fields) description {
	d := sizesHF(r, 2048, 1e-5, ropeDefaults{theta: 500000})
	d.headNorms = wholeNorms
	d.localRope(r, d.rope.base)
	sliding := r.layerTypes(d.Layers)
	d.windows(r.sizeOr("sliding_window", maxContext, 4096), func(layer int) bool {
		return sliding == nil && (layer+1)%4 != 0 || sliding != nil && sliding[layer]
	})
	return olmo2{d}
}

func (d olmo2) names(f weights.Format) naming {
	if f == weights.GGUF {
		return d.ggufNames()
	}
	return d.hfNames(
		nameRow{key: "blk.{}.post_attention_norm", file: "layers.{}.post_attention_layernorm"},
		nameRow{key: "blk.{}.post_ffw_norm", file: "layers.{}.post_feedforward_layernorm"},
	)
}

func (d olmo2) body(c *Context) *graph.Value {
	return c.Layers(d.Layers, d.embed(c), func(c *Context, x *graph.Value, layer int, key string) *graph.Value {
		h := d.attention(c, x, layer, key)
		x = c.Add("attn_add", x, d.normed(c, "attn_post_norm", h, key+"post_attention_norm", d.Dim))
		h = d.gated(c, x, key)
		return c.Add("ffn_add", x, d.normed(c, "ffn_post_norm", h, key+"post_ffw_norm", d.Dim))
	})
}
