package model

import (
	"hotpath/internal/graph"
	"hotpath/internal/weights"
)

// Phi 1 and 2: layer norms, biases everywhere, the head's included, a part of
// each head rotates, and attention and feed-forward side by side behind one
// norm.

func init() {
	register(&architecture{name: "phi2", gguf: []string{"phi2"}, hf: []string{"phi"}, readGGUF: phi2GGUF, readHF: phi2HF})
}

type phi2 struct{ *decoder }

func phi2GGUF(r *fields) description {
	d := sizesGGUF(r)
	d.layerNorms(r, "attention.layer_norm_epsilon", needsBias)
	d.act = graph.GELUTanh
	return phi2{d}
}

func phi2HF(r *fields) description {
	d := sizesHF(r, 2048, 1e-5, ropeDefaults{part: 0.5})
	d.layerNorms(r, "layer_norm_eps", needsBias)
	d.act = r.activation("hidden_act", "gelu_new")
	if r.flag("qk_layernorm", false) {
		d.headNorms = eachHeadNorms
	}
	return phi2{d}
}

func (d phi2) names(f weights.Format) naming {
	if f == weights.GGUF {
		return d.ggufNames()
	}
	return d.hfNames(
		nameRow{key: "output_norm", file: "final_layernorm"},
		nameRow{key: "blk.{}.attn_q_norm", file: "layers.{}.self_attn.q_layernorm"},
		nameRow{key: "blk.{}.attn_k_norm", file: "layers.{}.self_attn.k_layernorm"},
		nameRow{key: "blk.{}.attn_output", file: "layers.{}.self_attn.dense"},
		nameRow{key: "blk.{}.ffn_up", file: "layers.{}.mlp.fc1"},
		nameRow{key: "blk.{}.ffn_down", file: "layers.{}.mlp.fc2"},
	)
}

func (d phi2) body(c *Context) *graph.Value {
	return c.Layers(d.Layers, d.embed(c), func(c *Context, x *graph.Value, layer int, key string) *graph.Value {
		n := d.normed(c, "attn_norm", x, key+"attn_norm", d.Dim)
		return c.Add("ffn_add", x, c.Add("side_add", d.plain(c, n, key), d.attention(c, n, layer, key)))
	})
}
