package model

import (
	"hotpath/internal/graph"
	"hotpath/internal/weights"
)

// Falcon: layer norms, a feed-forward without a gate, and attention and
// feed-forward side by side. The old ones share one norm between the two, or
// run them one after the other; the new ones have a norm each. Some have ALiBi
// in place of a rope, which a GGUF file cannot store.

func init() {
	register(&architecture{name: "falcon", gguf: []string{"falcon"}, hf: []string{"falcon", "RefinedWeb", "RefinedWebModel"}, readGGUF: falconGGUF, readHF: falconHF})
}

type falcon struct {
	*decoder
	parallel bool
}

func falconGGUF(r *fields) description {
	d := sizesGGUF(r)
	d.layerNorms(r, "attention.layer_norm_epsilon", needsBias)
	d.act = graph.GELU
	return falcon{d, true}
}

func falconHF(r *fields) description {
	layers, heads := "num_hidden_layers", "num_attention_heads"
	if !r.has(layers) { // as the first ones were saved
		layers, heads = "n_layer", "n_head"
	}
	d := &decoder{
		Config: Config{
			Layers: r.size(layers, maxLayers),
			Dim:    r.size("hidden_size", maxDim),
			Heads:  r.size(heads, maxHeads),
			Vocab:  r.size("vocab_size", maxVocab),
			MaxSeq: r.sizeOr("max_position_embeddings", maxContext, 2048),
			Causal: true, CanGenerate: true,
		},
		act:  r.activation("activation", "gelu"),
		tied: r.flag("tie_word_embeddings", true),
	}
	d.layerNorms(r, "layer_norm_epsilon", needsBias)
	d.FFN = r.sizeOr("ffn_hidden_size", maxFFN, 4*d.Dim)
	d.HeadDim = headDim(r, "", heads, d.Dim, d.Heads)
	groups := r.flag("new_decoder_architecture", false)
	single := !groups && r.flag("multi_query", true)
	switch {
	case groups:
		key := "num_kv_heads"
		if !r.has(key) {
			key = "n_head_kv"
		}
		d.KVHeads = r.sizeOr(key, maxHeads, d.Heads)
		r.multiple(key, "the number of heads", d.Heads, d.KVHeads)
	case single:
		d.KVHeads = 1
	default:
		d.KVHeads = d.Heads
	}
	parallel := groups || r.flag("parallel_attn", true)
	if d.alibi = r.flag("alibi", false); d.alibi {
		d.stills(func(int) bool { return true })
	} else {
		d.rope = ropeHF(r, d.HeadDim, ropeDefaults{})
		d.ropeLengths()
	}
	return falcon{d, parallel}
}

// twoNorms is the norm of attention where feed-forward has another one.
const twoNorms = "attn_norm_2"

func (d falcon) names(f weights.Format) naming {
	if f == weights.GGUF {
		return d.ggufNames()
	}
	n := d.hfNames()
	n.prefixes = []string{"transformer.", ""}
	n.rows = append([]nameRow{
		{key: "token_embd", file: "word_embeddings"},
		{key: "output_norm", file: "ln_f"},
		{key: "output", file: "lm_head"},
		{key: "blk.{}.attn_norm", file: "h.{}.input_layernorm"},
		{key: "blk.{}.attn_norm", file: "h.{}.ln_mlp"},
		{key: "blk.{}." + twoNorms, file: "h.{}.ln_attn"},
		{key: "blk.{}.attn_output", file: "h.{}.self_attention.dense"},
		{key: "blk.{}.ffn_norm", file: "h.{}.post_attention_layernorm"},
		{key: "blk.{}.ffn_up", file: "h.{}.mlp.dense_h_to_4h"},
		{key: "blk.{}.ffn_down", file: "h.{}.mlp.dense_4h_to_h"},
	}, d.grouped("h.{}.self_attention.query_key_value")...)
	return n
}

func (d falcon) body(c *Context) *graph.Value {
	return c.Layers(d.Layers, d.embed(c), func(c *Context, x *graph.Value, layer int, key string) *graph.Value {
		n := d.normed(c, "attn_norm", x, key+"attn_norm", d.Dim)
		if !d.parallel {
			x = c.Add("attn_add", x, d.attention(c, n, layer, key))
			n = d.normed(c, "ffn_norm", x, key+"ffn_norm", d.Dim)
			return c.Add("ffn_add", x, d.plain(c, n, key))
		}
		a := n
		if c.Has(key + twoNorms + ".weight") {
			a = d.normed(c, "attn_norm_2", x, key+twoNorms, d.Dim)
		}
		return c.Add("ffn_add", x, c.Add("side_add", d.plain(c, n, key), d.attention(c, a, layer, key)))
	})
}
