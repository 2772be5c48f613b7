package model

import (
	"hotpath/internal/graph"
	"hotpath/internal/weights"
)

// GPT-NeoX (Pythia): layer norms, biases everywhere, a part of each head
// rotates, and mostly attention and feed-forward read the same stream side by
// side. Hugging Face files keep q, k and v of each head together.

func init() {
	register(&architecture{name: "gptneox", gguf: []string{"gptneox"}, hf: []string{"gpt_neox"}, readGGUF: neoxGGUF, readHF: neoxHF})
}

type neox struct {
	*decoder
	parallel bool
}

func neoxGGUF(r *fields) description {
	d := sizesGGUF(r)
	d.layerNorms(r, "attention.layer_norm_epsilon", needsBias)
	d.act = graph.GELU
	return neox{d, r.flag("use_parallel_residual", true)}
}

func neoxHF(r *fields) description {
	d := sizesHF(r, 2048, 1e-5, ropeDefaults{thetaKey: "rotary_emb_base", partKey: "rotary_pct", part: 0.25, ownKeys: true})
	d.layerNorms(r, "layer_norm_eps", needsBias)
	d.act = r.activation("hidden_act", "gelu")
	return neox{d, r.flag("use_parallel_residual", true)}
}

func (d neox) names(f weights.Format) naming {
	if f == weights.GGUF {
		return d.ggufNames()
	}
	n := d.hfNames()
	n.prefixes = []string{"gpt_neox.", ""}
	n.rows = append([]nameRow{
		{key: "token_embd", file: "embed_in"},
		{key: "output_norm", file: "final_layer_norm"},
		{key: "output", file: "embed_out"},
		{key: "blk.{}.attn_norm", file: "layers.{}.input_layernorm"},
		{key: "blk.{}.attn_output", file: "layers.{}.attention.dense"},
		{key: "blk.{}.ffn_norm", file: "layers.{}.post_attention_layernorm"},
		{key: "blk.{}.ffn_up", file: "layers.{}.mlp.dense_h_to_4h"},
		{key: "blk.{}.ffn_down", file: "layers.{}.mlp.dense_4h_to_h"},
	}, d.grouped("layers.{}.attention.query_key_value")...)
	return n
}

func (d neox) body(c *Context) *graph.Value {
	return c.Layers(d.Layers, d.embed(c), func(c *Context, x *graph.Value, layer int, key string) *graph.Value {
		h := d.attention(c, d.normed(c, "attn_norm", x, key+"attn_norm", d.Dim), layer, key)
		if !d.parallel {
			x, h = c.Add("attn_add", x, h), nil
		}
		m := d.plain(c, d.normed(c, "ffn_norm", x, key+"ffn_norm", d.Dim), key)
		if h != nil {
			m = c.Add("side_add", m, h)
		}
		return c.Add("ffn_add", x, m)
	})
}
