package model

import (
	"hotpath/internal/graph"
	"hotpath/internal/weights"
)

// StarCoder2: Llama with layer norms, biases and a feed-forward without a
// gate; it may have a window in all its layers.

func init() {
	register(&architecture{name: "starcoder2", gguf: []string{"starcoder2"}, hf: []string{"starcoder2"}, readGGUF: starcoder2GGUF, readHF: starcoder2HF})
}

type starcoder2 struct{ *decoder }

func starcoder2GGUF(r *fields) description {
	d := sizesGGUF(r)
	d.layerNorms(r, "attention.layer_norm_epsilon", needsBias)
	d.act = graph.GELUTanh
	d.windowGGUF(r)
	return starcoder2{d}
}

func starcoder2HF(r *fields) description {
	d := sizesHF(r, 4096, 1e-5, ropeDefaults{})
	d.layerNorms(r, "norm_epsilon", needsBias)
	d.act = r.activation("hidden_act", "gelu_pytorch_tanh")
	d.tied = r.flag("tie_word_embeddings", true)
	if kind := r.text("mlp_type", "default"); kind != "default" {
		r.unsupported("mlp_type", "%q, expected default", kind)
	}
	if kind := r.text("norm_type", "layer_norm"); kind != "layer_norm" {
		r.unsupported("norm_type", "%q, expected layer_norm", kind)
	}
	d.everyWindow(r, 0)
	return starcoder2{d}
}

func (d starcoder2) names(f weights.Format) naming {
	if f == weights.GGUF {
		return d.ggufNames()
	}
	return d.hfNames(
		nameRow{key: "blk.{}.ffn_up", file: "layers.{}.mlp.c_fc"},
		nameRow{key: "blk.{}.ffn_down", file: "layers.{}.mlp.c_proj"},
	)
}

func (d starcoder2) body(c *Context) *graph.Value {
	return c.Layers(d.Layers, d.embed(c), func(c *Context, x *graph.Value, layer int, key string) *graph.Value {
		h := d.normed(c, "attn_norm", x, key+"attn_norm", d.Dim)
		x = c.Add("attn_add", x, d.attention(c, h, layer, key))
		h = d.normed(c, "ffn_norm", x, key+"ffn_norm", d.Dim)
		return c.Add("ffn_add", x, d.plain(c, h, key))
	})
}
