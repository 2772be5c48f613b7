package model

import (
	"hotpath/internal/graph"
	"hotpath/internal/weights"
)

// StableLM: Llama with layer norms, of whose heads a part rotates. Some run
// attention and feed-forward side by side behind one norm, and norm each head
// of queries and keys by a weight of its own.

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
		d.headNorms = ownHeadNorms
	}
	// The key of this name is true in all files; the norm tells.
	_, sequential := r.gguf.Tensor("blk.0.ffn_norm.weight")
	return stablelm{d, !sequential}
}

func stablelmHF(r *fields) description {
	d := sizesHF(r, 4096, 1e-5, ropeDefaults{part: 0.25})
	d.layerNorms(r, "layer_norm_eps", needsBias)
	if r.flag("qk_layernorm", false) {
		d.headNorms = ownHeadNorms
	}
	return stablelm{d, r.flag("use_parallel_residual", false)}
}

func (d stablelm) names(f weights.Format) naming {
	if f == weights.GGUF {
		return d.ggufNames(ownNorms("blk.{}.attn_q_norm", "blk.{}.attn_k_norm", transform{row: true})...)
	}
	const norms = "_layernorm.norms.{e}"
	return d.hfNames(
		nameRow{"blk.{}.attn_q_norm", "layers.{}.self_attn.q" + norms, transform{row: true, stack: d.Heads}},
		nameRow{"blk.{}.attn_k_norm", "layers.{}.self_attn.k" + norms, transform{row: true, stack: d.KVHeads}},
	)
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
