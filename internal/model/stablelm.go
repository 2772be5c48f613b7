package model

import "hotpath/internal/graph"

// StableLM: Llama with layer norms, of whose heads a part rotates. Some run
// attention and feed-forward side by side behind one norm.

func init() {
	register(&architecture{name: "stablelm", gguf: []string{"stablelm"}, hf: []string{"stablelm"}, readGGUF: stablelmGGUF, readHF: stablelmHF})
}

type stablelm struct {
	*decoder
	parallel bool
}

func stablelmGGUF(r *fields) description {
	d := sizesGGUF(r)
	d.layerNorms(r, "attention.layer_norm_epsilon", needsBias)
	if _, ok := r.gguf.Tensor("blk.0.attn_q_norm.weight"); ok {
		r.unsupported("attn_q_norm", "a norm for each head, expected none")
	}
	// The key of this name is true in all files; the norm tells.
	_, sequential := r.gguf.Tensor("blk.0.ffn_norm.weight")
	return stablelm{d, !sequential}
}

func stablelmHF(r *fields) description {
	d := sizesHF(r, 4096, 1e-5, ropeDefaults{part: 0.25})
	d.layerNorms(r, "layer_norm_eps", needsBias)
	r.refuse("qk_layernorm")
	return stablelm{d, r.flag("use_parallel_residual", false)}
}

func (d stablelm) body(c *Context) *graph.Value {
	return c.Layers(d.Layers, d.embed(c), func(c *Context, x *graph.Value, layer int, key string) *graph.Value {
		n := d.normed(c, "attn_norm", x, key+"attn_norm", d.Dim)
		a := d.attention(c, n, layer, key)
		if d.parallel {
			return c.Add("ffn_add", x, c.Add("side_add", d.gated(c, n, key), a))
		}
		x = c.Add("attn_add", x, a)
		n = d.normed(c, "ffn_norm", x, key+"ffn_norm", d.Dim)
		return c.Add("ffn_add", x, d.gated(c, n, key))
	})
}
