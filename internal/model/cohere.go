package model

import (
	"hotpath/internal/graph"
	"hotpath/internal/weights"
)

// Cohere (Command R): layer norms without biases, neighbours rotate, attention
// and a gated feed-forward side by side behind one norm, a factor on logits.
// Command R+ norms queries and keys, each head by a weight of its own.

func init() {
	register(&architecture{name: "command-r", gguf: []string{"command-r"}, hf: []string{"cohere"}, readGGUF: cohereGGUF, readHF: cohereHF})
}

type cohere struct{ *decoder }

func cohereGGUF(r *fields) description {
	d := sizesGGUF(r)
	d.layerNorms(r, "attention.layer_norm_epsilon", noBias)
	d.interleaved = true
	d.logits = r.factor("logit_scale", 1)
	if _, ok := r.gguf.Tensor("blk.0.attn_q_norm.weight"); ok {
		d.headNorms = ownHeadNorms
	}
	return cohere{d}
}

func cohereHF(r *fields) description {
	d := sizesHF(r, 8192, 1e-5, ropeDefaults{theta: 500000})
	d.layerNorms(r, "layer_norm_eps", noBias)
	d.tied = r.flag("tie_word_embeddings", true)
	d.interleaved = true
	d.logits = r.factor("logit_scale", 0.0625)
	if r.flag("use_qk_norm", false) {
		d.headNorms = ownHeadNorms
	}
	return cohere{d}
}

func (d cohere) names(f weights.Format) naming {
	if f == weights.GGUF {
		return d.ggufNames(ownNorms("blk.{}.attn_q_norm", "blk.{}.attn_k_norm", transform{row: true})...)
	}
	return d.hfNames(ownNorms("layers.{}.self_attn.q_norm", "layers.{}.self_attn.k_norm", transform{row: true})...)
}

// ownNorms are the rows of norms that have a weight for each head.
func ownNorms(q, k string, how transform) []nameRow {
	return []nameRow{{"blk.{}.attn_q_norm", q, how}, {"blk.{}.attn_k_norm", k, how}}
}

func (d cohere) body(c *Context) *graph.Value {
	return c.Layers(d.Layers, d.embed(c), func(c *Context, x *graph.Value, layer int, key string) *graph.Value {
		n := d.normed(c, "attn_norm", x, key+"attn_norm", d.Dim)
		return c.Add("ffn_add", x, c.Add("side_add", d.gated(c, n, key), d.attention(c, n, layer, key)))
	})
}
