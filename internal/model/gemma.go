package model

import (
	"math"

	"hotpath/internal/graph"
	"hotpath/internal/weights"
)

// Gemma 3, text only, and EmbeddingGemma, which is the same attending in both
// directions: a norm before and after attention and feed-forward each, norms
// of every query and key head, and five layers with a window to one without.
// Configurations may have a cap on scores, left from Gemma 2, which neither
// transformers nor llama.cpp applies: it means nothing here either.

func init() {
	register(&architecture{
		name: "gemma3", gguf: []string{"gemma3", "gemma-embedding"}, hf: []string{"gemma3_text"},
		readGGUF: gemma3GGUF, readHF: gemma3HF,
	})
}

// gemma is a Gemma with norms after attention and feed-forward too.
type gemma struct{ *decoder }

func gemma3GGUF(r *fields) description {
	d := gemmaGGUF(r, 1e6)
	d.Causal = r.prefix == "gemma3."
	d.CanGenerate = d.Causal
	d.headNorms = eachHeadNorms
	d.local = &rope{base: r.positive("rope.freq_base_swa", 1e4), dims: d.rope.dims, scale: 1, key: ropeFreqsLocal}
	// Files do not carry the scale: it follows the head's size, but the width
	// of the largest Gemma.
	per := d.HeadDim
	if d.Causal && d.Layers == 62 {
		per = d.Dim / d.Heads
	}
	d.scale = float32(r.positive("attention.scale", 1/math.Sqrt(float64(max(per, 1)))))
	if r.has("attention.sliding_window") || !d.Causal {
		window := r.size("attention.sliding_window", maxContext)
		if !d.Causal {
			window = bothWays(window)
		}
		d.windows(window, r.pattern(d.Layers, 6))
	}
	sentenceGGUF(r, &d.Config) // again: it depends on the direction
	return gemma{d}
}

func gemma3HF(r *fields) description {
	d := gemmaHF(r, 131072, 1e6)
	d.Causal = !r.flag("use_bidirectional_attention", false)
	d.CanGenerate = d.Causal
	d.headNorms = eachHeadNorms
	d.scale = float32(1 / math.Sqrt(r.positive("query_pre_attn_scalar", 256)))
	d.logitCap = float32(r.optional("final_logit_softcapping"))
	d.localRope(r, r.positive("rope_local_base_freq", 1e4))
	window := r.window("sliding_window", 4096)
	if !d.Causal {
		window = bothWays(window)
	}
	sliding := r.layerTypes(d.Layers)
	if sliding == nil {
		period := r.sizeOr("sliding_window_pattern", maxLayers, 6)
		d.windows(window, func(layer int) bool { return (layer+1)%period != 0 })
	} else {
		d.windows(window, func(layer int) bool { return sliding[layer] })
	}
	return gemma{d}
}

// localRope reads the ropes of models whose layers with a window have another
// one than those without; what is not nested never concerned the former.
func (d *decoder) localRope(r *fields, theta float64) {
	d.local = &rope{base: theta, dims: d.rope.dims, scale: 1, key: ropeFreqsLocal}
	if o := r.object("rope_parameters"); o != nil {
		if full := o.object(fullAttention); full != nil {
			d.rope.apply(full, r, nil)
		}
		if local := o.object(slidingAttention); local != nil {
			d.local.apply(local, r, nil)
		}
	}
	if d.local.byLength() || d.rope.byLength() {
		r.unsupported("rope_parameters", "a rope that depends on a text's length, expected default, linear, llama3 or yarn")
	}
}

// bothWays is the reach of a window that looks both ways: it has half of its
// size on each side, and the token itself.
func bothWays(window int) int { return window/2 + 1 }

// gemmaGGUF reads what all Gemmas have. Their files have added 1 to the
// weights of norms.
func gemmaGGUF(r *fields, theta float64) *decoder {
	if !r.has("attention.key_length") {
		r.size("attention.key_length", maxHeadDim) // it does not follow from the width
	}
	d := sizesGGUF(r)
	d.rope.base = r.positive("rope.freq_base", theta)
	d.norm.eps = float32(r.positive("attention.layer_norm_rms_epsilon", 1e-6))
	d.act = graph.GELUTanh
	d.embedding = float32(math.Sqrt(float64(d.Dim)))
	d.logitCap = float32(r.optional("final_logit_softcapping"))
	return d
}

// gemmaHF reads what all Gemmas have.
func gemmaHF(r *fields, positions int, theta float64) *decoder {
	d := &decoder{
		Config: Config{
			Layers:  r.size("num_hidden_layers", maxLayers),
			Dim:     r.size("hidden_size", maxDim),
			Heads:   r.size("num_attention_heads", maxHeads),
			KVHeads: r.size("num_key_value_heads", maxHeads),
			HeadDim: r.sizeOr("head_dim", maxHeadDim, 256),
			FFN:     r.size("intermediate_size", maxFFN),
			Vocab:   r.size("vocab_size", maxVocab),
			MaxSeq:  r.sizeOr("max_position_embeddings", maxContext, positions),
			Causal:  true, CanGenerate: true,
		},
		norm: norm{kind: graph.RMSNorm, eps: float32(r.positive("rms_norm_eps", 1e-6)), offset: 1},
		act:  r.activation("hidden_activation", "gelu_pytorch_tanh"),
		tied: r.flag("tie_word_embeddings", true),
	}
	d.embedding = float32(math.Sqrt(float64(d.Dim)))
	r.multiple("num_key_value_heads", "the number of heads", d.Heads, d.KVHeads)
	d.rope = rope{base: r.positive("rope_theta", theta), dims: d.HeadDim, scale: 1, key: ropeFreqs}
	d.rope.check(r, "head_dim", d.HeadDim)
	if o := r.object("rope_scaling"); o != nil {
		d.rope.apply(o, r, nil)
	} else if o := r.object("rope_parameters"); o != nil && !o.has(fullAttention) {
		d.rope.apply(o, r, nil)
	}
	return d
}

// windowPattern is a period of layers, or a list with an entry per layer.
const windowPattern = "attention.sliding_window_pattern"

// windowList reads which layers of a GGUF file have a window where it lists them;
// nil: it does not.
func (r *fields) windowList(layers int) func(layer int) bool {
	list, ok := r.gguf.Bools(r.prefix + windowPattern)
	switch {
	case !ok:
		return nil
	case len(list) != layers:
		r.invalid(windowPattern, "%d entries, expected one for each of %d layers", len(list), layers)
		return func(int) bool { return false }
	}
	return func(layer int) bool { return list[layer] }
}

// pattern reads which layers of a GGUF file have a window: all but every
// period-th, or a list.
func (r *fields) pattern(layers, period int) func(layer int) bool {
	if listed := r.windowList(layers); listed != nil {
		return listed
	}
	period = r.sizeOr(windowPattern, maxLayers+1, period)
	return func(layer int) bool { return (layer+1)%period != 0 }
}

func (d gemma) names(f weights.Format) naming {
	if f == weights.GGUF {
		return d.ggufNames()
	}
	n := d.hfNames(
		nameRow{key: "blk.{}.post_attention_norm", file: "layers.{}.post_attention_layernorm"},
		nameRow{key: "blk.{}.ffn_norm", file: "layers.{}.pre_feedforward_layernorm"},
		nameRow{key: "blk.{}.post_ffw_norm", file: "layers.{}.post_feedforward_layernorm"},
	)
	n.prefixes = []string{"", "model."} // encoders have none
	return n
}

func (d gemma) body(c *Context) *graph.Value {
	return c.Layers(d.Layers, d.embed(c), func(c *Context, x *graph.Value, layer int, key string) *graph.Value {
		h := d.normed(c, "attn_norm", x, key+"attn_norm", d.Dim)
		h = d.attention(c, h, layer, key)
		x = c.Add("attn_add", x, d.normed(c, "attn_post_norm", h, key+"post_attention_norm", d.Dim))
		h = d.normed(c, "ffn_norm", x, key+"ffn_norm", d.Dim)
		h = d.gated(c, h, key)
		return c.Add("ffn_add", x, d.normed(c, "ffn_post_norm", h, key+"post_ffw_norm", d.Dim))
	})
}
