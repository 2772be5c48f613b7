package model

import (
	"hotpath/internal/graph"
	"hotpath/internal/weights"
)

// decoder is what families share that predict the next token: sizes, and the
// parts that their blocks are put together of. A family's file reads its
// configuration into it and says in which order its blocks use the parts.
type decoder struct {
	Config
	norm norm
	act  graph.ActKind
	tied bool // the head is the token table, whatever else is there

	rope  rope  // of all layers, or of those without a window
	local *rope // of layers with a window, where it is another one
	// interleaved: the two elements of a pair lie side by side. Converters to
	// GGUF reorder the rows of q and k of some families so.
	interleaved bool
	noRope      []bool // layers whose positions do not rotate; nil: none
	alibi       bool   // scores grow with the position of a key

	headNorms headNorms // what q and k go through before the rope
	scale     float32   // of scores; 0: by the size of a head
	scoreCap  float32   // 0: none
	logitCap  float32   // 0: none

	// Factors; 0 means 1.
	embedding, residual, logits float32
}

// norm is the kind of norm that a family uses.
type norm struct {
	kind   graph.NormKind
	eps    float32
	offset float32 // added to weights
	bias   bias    // of layer norms
}

// headNorms says over what the norms of q and k run.
type headNorms uint8

const (
	noHeadNorms   headNorms = iota
	eachHeadNorms           // each head alone, by one weight for all
	ownHeadNorms            // each head alone, by a weight of its own
	wholeNorms              // all heads together
)

func (d *decoder) config() *Config { return &d.Config }

// sizesHF reads what nearly every config.json calls the same. Some of it has
// another default in each family, which is given.
func sizesHF(r *fields, positions int, eps float64, ropes ropeDefaults) *decoder {
	d := &decoder{
		Config: Config{
			Layers: r.size("num_hidden_layers", maxLayers),
			Dim:    r.size("hidden_size", maxDim),
			Heads:  r.size("num_attention_heads", maxHeads),
			FFN:    r.size("intermediate_size", maxFFN),
			Vocab:  r.size("vocab_size", maxVocab),
			MaxSeq: r.sizeOr("max_position_embeddings", maxContext, positions),
			Causal: true, CanGenerate: true,
		},
		norm: norm{kind: graph.RMSNorm, eps: float32(r.positive("rms_norm_eps", eps))},
		act:  r.activation("hidden_act", "silu"),
		tied: r.flag("tie_word_embeddings", false),
	}
	d.headsHF(r, "num_key_value_heads", ropes)
	return d
}

// headsHF reads the sizes of heads and the rope.
func (d *decoder) headsHF(r *fields, kvHeads string, ropes ropeDefaults) {
	if d.KVHeads = d.Heads; !ropes.ownKeys {
		d.KVHeads = r.sizeOr(kvHeads, maxHeads, d.Heads)
	}
	if d.HeadDim = ropes.head; d.HeadDim == 0 || r.has("head_dim") {
		d.HeadDim = headDim(r, "head_dim", "num_attention_heads", d.Dim, d.Heads)
	}
	r.multiple(kvHeads, "the number of heads", d.Heads, d.KVHeads)
	d.rope = ropeHF(r, d.HeadDim, ropes)
	d.ropeLengths()
	if d.rope.stretch > 0 { // it is for texts longer than those of training
		d.MaxSeq = min(maxContext, int(float64(d.MaxSeq)*max(d.rope.stretch, 1)))
	}
}

// ropeLengths says what the rope makes of a text's length. Texts that outgrow
// a dynamic rope keep what they have, as in transformers: each token more
// would change all of it.
func (d *decoder) ropeLengths() {
	d.RopeContext = d.rope.context
	d.RopeRestarts = d.rope.context > 0 && d.rope.stretch == 0
}

// sizesGGUF reads what nearly every GGUF file calls the same.
func sizesGGUF(r *fields) *decoder {
	d := &decoder{
		Config: Config{
			Layers: r.size("block_count", maxLayers),
			Dim:    r.size("embedding_length", maxDim),
			Heads:  r.size("attention.head_count", maxHeads),
			FFN:    r.size("feed_forward_length", maxFFN),
			Vocab:  r.vocabulary(),
			MaxSeq: r.size("context_length", maxContext),
			Causal: true, CanGenerate: true,
		},
		norm: norm{kind: graph.RMSNorm, eps: float32(r.positive("attention.layer_norm_rms_epsilon", 1e-5))},
		act:  graph.SiLU,
	}
	d.KVHeads = r.sizeOr("attention.head_count_kv", maxHeads, d.Heads)
	r.multiple("attention.head_count_kv", "the number of heads", d.Heads, d.KVHeads)
	d.HeadDim = headDim(r, "attention.key_length", "attention.head_count", d.Dim, d.Heads)
	if v := r.sizeOr("attention.value_length", maxHeadDim, d.HeadDim); v != d.HeadDim {
		r.unsupported("attention.value_length", "%d, expected that of keys (%d)", v, d.HeadDim)
	}
	d.rope = ropeGGUF(r, 10000, d.HeadDim)
	d.ropeLengths()
	sentenceGGUF(r, &d.Config)
	return d
}

// layerNorms reads the epsilon of families that use layer norms.
func (d *decoder) layerNorms(r *fields, key string, b bias) {
	d.norm = norm{kind: graph.LayerNorm, eps: float32(r.positive(key, 1e-5)), bias: b}
}

// headDim is a field, or the width shared among the heads.
func headDim(r *fields, key, heads string, dim, n int) int {
	if !r.has(key) {
		r.multiple(heads, "the width", dim, n)
		return max(dim/n, 1)
	}
	return r.size(key, maxHeadDim)
}

const (
	fullAttention    = "full_attention"
	slidingAttention = "sliding_attention"
)

// windows sets how far layers see; sliding says which ones have the window.
func (d *decoder) windows(size int, sliding func(layer int) bool) {
	d.Windows = make([]int, d.Layers)
	for i := range d.Windows {
		if sliding(i) {
			d.Windows[i] = size
		}
	}
}

// everyWindow reads a window that all layers have, where there is one; def is
// what its absence means, 0 none.
func (d *decoder) everyWindow(r *fields, def int) {
	if size := r.window("sliding_window", def); size > 0 {
		d.windows(size, func(int) bool { return true })
	}
}

// windowGGUF reads the window of a GGUF file, in all layers unless it lists
// them; 0 means none there.
func (d *decoder) windowGGUF(r *fields) {
	n, err := r.gguf.IDOr(r.prefix+"attention.sliding_window", 0)
	r.keep(err)
	if n > 0 {
		// A period longer than the layers are many leaves none out.
		d.windows(min(n, maxContext), r.pattern(d.Layers, d.Layers+1))
	}
}

// layerTypes reads layer_types, nil where it is absent: whether each layer has
// a window.
func (r *fields) layerTypes(layers int) []bool {
	const key = "layer_types"
	if !r.has(key) {
		return nil
	}
	kinds, err := r.hf.Strings(key)
	r.keep(err)
	if r.failed() == nil && len(kinds) != layers {
		r.invalid(key, "%d entries, expected one for each of %d layers", len(kinds), layers)
	}
	sliding := make([]bool, layers)
	for i, kind := range kinds {
		if kind != fullAttention && kind != slidingAttention {
			r.unsupported(key, "%q for layer %d, expected %s or %s", kind, i, fullAttention, slidingAttention)
		}
		if i < layers {
			sliding[i] = kind == slidingAttention
		}
	}
	return sliding
}

// hfNames are the names of most Hugging Face files. rows come first.
func (d *decoder) hfNames(rows ...nameRow) naming {
	n := naming{prefixes: []string{"model.", ""}, made: d.made()}
	n.rows = append(append([]nameRow{{key: "token_embd", file: "embed_tokens"}}, rows...), []nameRow{
		{key: "output_norm", file: "norm"},
		{key: "output", file: "lm_head"},
		{key: "blk.{}.attn_norm", file: "layers.{}.input_layernorm"},
		{key: "blk.{}.attn_q", file: "layers.{}.self_attn.q_proj"},
		{key: "blk.{}.attn_k", file: "layers.{}.self_attn.k_proj"},
		{key: "blk.{}.attn_v", file: "layers.{}.self_attn.v_proj"},
		{key: "blk.{}.attn_q_norm", file: "layers.{}.self_attn.q_norm"},
		{key: "blk.{}.attn_k_norm", file: "layers.{}.self_attn.k_norm"},
		{key: "blk.{}.attn_output", file: "layers.{}.self_attn.o_proj"},
		{key: "blk.{}.ffn_norm", file: "layers.{}.post_attention_layernorm"},
		{key: "blk.{}.ffn_gate", file: "layers.{}.mlp.gate_proj"},
		{key: "blk.{}.ffn_up", file: "layers.{}.mlp.up_proj"},
		{key: "blk.{}.ffn_down", file: "layers.{}.mlp.down_proj"},
	}...)
	return n
}

// made are the factors of ropes that the configuration gives.
func (d *decoder) made() map[string]madeWeight {
	made := map[string]madeWeight{}
	d.rope.made(made)
	if d.local != nil {
		d.local.made(made)
	}
	return made
}

// ggufNames are GGUF's own, but for the factors of LongRoPE, two tensors there
// and one weight here, and for q, k and v, which may be one matrix in files of
// any family. rows come first.
func (d *decoder) ggufNames(rows ...nameRow) naming {
	for _, key := range []string{"blk.{}.attn_q", "blk.{}.attn_k", "blk.{}.attn_v"} {
		rows = append(rows, nameRow{key: key, file: key})
	}
	rows = append(rows, d.fused("blk.{}.attn_qkv")...)
	factors := transform{stack: len(longFactors), bare: true, files: longFactors}
	return naming{rows: append(rows, nameRow{"rope_factors", "", factors}), made: d.made()}
}

var longFactors = []string{"rope_factors_short.weight", "rope_factors_long.weight"}

func (d *decoder) names(f weights.Format) naming {
	if f == weights.GGUF {
		return d.ggufNames()
	}
	return d.hfNames()
}
