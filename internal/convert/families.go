package convert

import (
	"math"

	"hotpath/internal/quant"
)

// family is a group of architectures that convert alike.
type family struct {
	types    []string // of config.json's model_type
	arch     string   // of GGUF
	archOf   func(j *job) string
	prefixes []string // that may stand before names
	names    []rename
	skip     []string // parts of names of tensors that are not needed
	acts     []string // activations that files of the architecture mean, the usual one first

	encoder   bool // attends in both directions
	rope      bool
	ropePart  float64 // of each head that rotates unless config.json says otherwise; 0 for all, whatever it says
	ownKeys   bool    // every head has keys of its own, whatever config.json says
	turned    bool    // llama.cpp pairs neighbours in queries and keys: their rows are reordered
	wideHeads bool    // say how wide heads are, since it does not follow
	tied      bool    // the head is the token table unless config.json says otherwise
	contextOf func(j *job) int
	headed    bool // llama.cpp looks for a head even where it is the token table
	freqs     bool // llama.cpp reads the factors of wavelengths of Llama 3
	factors   bool // llama.cpp reads those of LongRoPE
	window    func(j *job)
	check     func(j *job)    // refuses what GGUF files cannot say
	only      map[string]bool // flags with which llama.cpp opens files of the architecture
	extra     func(j *job)    // sets keys of its own
	more      func(j *job) []quant.Tensor
}

var families = []family{
	{types: []string{"llama", "mistral", "mixtral"}, arch: "llama", acts: silu, prefixes: model, names: decoderNames, rope: true, turned: true, freqs: true, factors: true, window: mistralWindow},
	{types: []string{"smollm3"}, arch: "smollm3", acts: silu, prefixes: model, names: decoderNames, rope: true, turned: true, tied: true, check: everyFourth, window: smollmWindow,
		only: map[string]bool{"attention_bias": false, "mlp_bias": false}},
	{types: []string{"granite"}, arch: "granite", acts: silu, prefixes: model, names: decoderNames, rope: true, turned: true, freqs: true, factors: true, extra: graniteKeys},
	{types: []string{"qwen2"}, arch: "qwen2", acts: silu, prefixes: model, names: decoderNames, rope: true, window: qwenWindow},
	{types: []string{"qwen3"}, arch: "qwen3", acts: silu, prefixes: model, names: decoderNames, rope: true, wideHeads: true, window: qwenWindow, only: unbiased},
	{types: []string{"qwen2_moe"}, arch: "qwen2moe", acts: silu, prefixes: model, names: decoderNames, rope: true, headed: true, check: func(j *job) { allExperts(j, false) }, window: qwen2MoEWindow,
		extra: func(j *job) {
			j.setCount("expert_shared_feed_forward_length", j.config.countOr(0, "shared_expert_intermediate_size"))
		}},
	{types: []string{"qwen3_moe"}, arch: "qwen3moe", acts: silu, prefixes: model, names: decoderNames, rope: true, wideHeads: true, check: func(j *job) { allExperts(j, true) }, window: qwen3MoEWindow, only: unbiased},
	{types: []string{"olmo2", "olmo3"}, arch: "olmo2", acts: silu, prefixes: model, names: olmoNames, rope: true, headed: true, extra: olmoKeys, only: unbiased},
	{types: []string{"gemma"}, arch: "gemma", acts: []string{"gelu_pytorch_tanh", "gelu"}, prefixes: model, names: plusOne(decoderNames), rope: true, wideHeads: true, tied: true, only: unbiasedTied},
	{types: []string{"gemma2"}, arch: "gemma2", acts: []string{"gelu_pytorch_tanh", "gelu"}, prefixes: model, names: plusOne(gemmaNames), rope: true, wideHeads: true, tied: true, extra: gemma2Keys, only: unbiasedTied},
	{types: []string{"gemma3_text"}, archOf: gemma3Arch, acts: []string{"gelu_pytorch_tanh", "gelu"}, prefixes: model, names: plusOne(gemmaNames), rope: true, wideHeads: true, tied: true,
		extra: gemma3Keys, more: denseLayers, only: unbiased},
	{types: []string{"phi3"}, arch: "phi3", acts: silu, prefixes: model, names: phi3Names, rope: true, ropePart: 1, factors: true, extra: phi3Keys},
	{types: []string{"phi"}, arch: "phi2", acts: []string{"gelu_new", "gelu_pytorch_tanh"}, prefixes: model, names: phi2Names, rope: true, ropePart: 0.5, headed: true},
	{types: []string{"stablelm"}, arch: "stablelm", acts: silu, prefixes: model, names: stableNames, rope: true, ropePart: 0.25, headed: true, extra: stableKeys},
	{types: []string{"starcoder2"}, arch: "starcoder2", acts: []string{"gelu_pytorch_tanh", "gelu_new"}, prefixes: model, names: starcoderNames, rope: true, tied: true, window: starcoderWindow, only: map[string]bool{"use_bias": true}},
	{types: []string{"cohere"}, arch: "command-r", acts: silu, prefixes: model, names: decoderNames, rope: true, tied: true, extra: cohereKeys,
		check: cohereCheck, only: unbiasedTied},
	{types: []string{"gpt2"}, arch: "gpt2", ownKeys: true, acts: []string{"gelu_new", "gelu_pytorch_tanh"}, prefixes: []string{"transformer."}, names: gpt2Names, skip: []string{".attn.bias", ".attn.masked_bias"}, tied: true, check: gpt2Check},
	{types: []string{"gpt_neox"}, arch: "gptneox", ownKeys: true, acts: []string{"gelu", "gelu_fast", "gelu_new"}, prefixes: []string{"gpt_neox."}, names: neoxNames, rope: true, ropePart: 0.25, headed: true,
		skip: []string{".attention.bias", ".attention.masked_bias"}, extra: neoxKeys, only: map[string]bool{"attention_bias": true}},
	{types: []string{"falcon"}, arch: "falcon", acts: []string{"gelu"}, prefixes: []string{"transformer."}, names: falconNames, rope: true, tied: true, check: falconCheck},
	{types: []string{"bert"}, arch: "bert", acts: []string{"gelu"}, prefixes: []string{"bert."}, names: bertNames, skip: bertSkips, encoder: true},
	{types: []string{"roberta", "xlm-roberta", "camembert"}, arch: "bert", acts: []string{"gelu"}, prefixes: []string{"roberta."}, names: robertaNames, skip: append(bertSkips, "lm_head."), encoder: true,
		contextOf: func(j *job) int {
			return j.config.count("max_position_embeddings") - j.beforePositions()
		}},
	{types: []string{"distilbert"}, arch: "bert", acts: []string{"gelu"}, prefixes: []string{"distilbert."}, names: distilNames, skip: []string{"vocab_"}, encoder: true},
	{types: []string{"nomic_bert"}, arch: "nomic-bert", acts: []string{"swiglu", "silu"}, prefixes: []string{"bert."}, names: nomicNames, skip: bertSkips, encoder: true, rope: true, ropePart: 1, check: nomicCheck,
		contextOf: nomicContext},
	{types: []string{"modernbert"}, arch: "modern-bert", acts: []string{"gelu"}, prefixes: model, names: modernNames, skip: []string{"head.", "decoder."}, encoder: true,
		rope: true, extra: modernKeys, only: map[string]bool{"attention_bias": false, "mlp_bias": false, "norm_bias": false}},
}

var (
	model = []string{"model."}
	silu  = []string{"silu", "swish"}

	unbiased     = map[string]bool{"attention_bias": false}
	unbiasedTied = map[string]bool{"attention_bias": false, "tie_word_embeddings": true}
)

// flagIs refuses another value of a flag than the one that files of the
// architecture mean. def is what a missing flag means.
func (j *job) flagIs(key string, def, want bool) {
	if got := j.config.flag(def, key); got != want {
		j.config.unsupported(key, "%v, expected %v, because a GGUF file cannot store it", got, want)
	}
}

// windowsAre refuses windows in other layers than those where files of the
// architecture mean them.
func (j *job) windowsAre(inWindow func(layer int) bool) {
	for i, kind := range j.layerTypes() {
		if (kind == "sliding_attention") != inWindow(i) {
			j.config.unsupported("layer_types", "layer %d is %s, expected the architecture's usual order, because a GGUF file cannot store another one", i, kind)
			return
		}
	}
}

// layerTypes is how each layer attends, nil where config.json does not say.
func (j *job) layerTypes() []string {
	kinds, err := j.config.c.Strings("layer_types")
	if err != nil && j.config.c.Has("layer_types") {
		j.config.keep(err)
	}
	return kinds
}

// allExperts refuses layers without experts among those with, and weights of
// experts that are made to sum to 1 where files mean those that are not, or
// the other way round.
func allExperts(j *job, normalized bool) {
	j.flagIs("norm_topk_prob", false, normalized)
	if list := j.config.ints("mlp_only_layers"); len(list) > 0 {
		j.config.unsupported("mlp_only_layers", "%v, expected none, because a GGUF file cannot store it", list)
	}
	if n := j.config.countOr(1, "decoder_sparse_step"); n != 1 {
		j.config.unsupported("decoder_sparse_step", "%d, expected 1, because a GGUF file cannot store it", n)
	}
}

// everyFourth is all that files of SmolLM3 can say about layers without
// rotary positions.
func everyFourth(j *job) {
	if n := j.config.countOr(4, "no_rope_layer_interval"); n != 4 {
		j.config.unsupported("no_rope_layer_interval", "%d, expected 4, because a GGUF file cannot store it", n)
	}
	for i, v := range j.config.ints("no_rope_layers") {
		if (v == 0) != ((i+1)%4 == 0) {
			j.config.unsupported("no_rope_layers", "layer %d is %d, expected 0 for every fourth layer and 1 for the others", i, v)
		}
	}
}

func graniteKeys(j *job) {
	for _, one := range [][2]string{{"attention.scale", "attention_multiplier"}, {"embedding_scale", "embedding_multiplier"},
		{"residual_scale", "residual_multiplier"}, {"logit_scale", "logits_scaling"}} { // llama.cpp wants them
		j.set(one[0], float32(j.config.floatOr(1, one[1])))
	}
}

func cohereKeys(j *job) {
	j.set("logit_scale", float32(j.config.floatOr(0.0625, "logit_scale")))
}

// windows sets the width of a window and which layers have it.
func (j *job) windows(inWindow func(layer int) bool) {
	n := j.windowSize()
	if n == 0 {
		return
	}
	j.set("attention.sliding_window", uint32(n))
	kinds := j.layerTypes()
	pattern := make([]bool, j.layers)
	for i := range pattern {
		pattern[i] = inWindow(i)
		if i < len(kinds) {
			pattern[i] = kinds[i] == "sliding_attention"
		}
	}
	j.set("attention.sliding_window_pattern", pattern)
}

func olmoKeys(j *job) {
	j.windows(func(layer int) bool { return (layer+1)%4 != 0 })
}

func gemma2Keys(j *job) {
	for _, soft := range []struct {
		key   string
		usual float64
	}{{"attn_logit_softcapping", 50}, {"final_logit_softcapping", 30}} {
		if j.config.c.Null(soft.key) { // to llama.cpp a missing cap is the usual one
			j.config.unsupported(soft.key, "none, expected a cap, because a GGUF file cannot store it")
		}
		j.set(soft.key, float32(j.config.floatOr(soft.usual, soft.key)))
	}
	j.setCount("attention.sliding_window", j.windowSize())
	if s := j.config.floatOr(256, "query_pre_attn_scalar"); s != float64(j.headDim) && (j.layers != 46 || s != float64(j.dim)/float64(j.heads)) {
		j.config.unsupported("query_pre_attn_scalar", "%g, expected the width of a head (%d), because a GGUF file cannot store it", s, j.headDim)
	}
	j.windowsAre(func(layer int) bool { return layer%2 == 0 })
}

func gemma3Arch(j *job) string {
	if j.config.flag(false, "use_bidirectional_attention") {
		return "gemma-embedding"
	}
	return "gemma3"
}

func gemma3Keys(j *job) {
	c := j.config
	if !j.saysLocal {
		j.set("rope.freq_base_swa", float32(c.floatOr(10000, "rope_local_base_freq")))
	}
	j.setFloat("final_logit_softcapping", "final_logit_softcapping")
	j.setCount("attention.sliding_window", j.windowSize())
	if n := c.countOr(6, "sliding_window_pattern", "_sliding_window_pattern"); n != 6 {
		c.unsupported("sliding_window_pattern", "%d, expected 6, because a GGUF file cannot store it", n)
	}
	if s := c.floatOr(256, "query_pre_attn_scalar"); s != float64(j.headDim) && (j.layers != 62 || s != float64(j.dim)/float64(j.heads)) {
		c.unsupported("query_pre_attn_scalar", "%g, expected the width of a head (%d), because a GGUF file cannot store it", s, j.headDim)
	}
	j.windowsAre(func(layer int) bool { return (layer+1)%6 != 0 })
	for _, m := range j.hf.Modules {
		if m.Kind() != "Dense" || m.Config == nil {
			continue
		}
		f, key := fields{m.Config, c.err}, denseKey(m.Path)
		j.set(key+"_feat_in", uint32(f.count("in_features")))
		j.set(key+"_feat_out", uint32(f.count("out_features")))
	}
}

func phi3Keys(j *job) {
	c := j.config
	first := c.countOr(j.family.context(j), "original_max_position_embeddings")
	if p, ok := j.ropeOf(); ok {
		first = p.countOr(first, "original_max_position_embeddings")
	}
	j.set("rope.scaling.original_context_length", uint32(first))
	n := c.countOr(0, "sliding_window")
	j.set("attention.sliding_window", uint32(n))
	if n > 0 && n < j.family.context(j) {
		j.warnWindow(n)
	}
}

// longRope sets by how much attention grows where texts may be longer than the
// model was first made for.
func (j *job) longRope(params fields) {
	first := float64(j.originalContext(params))
	scale := j.stretch(params)
	factor := 1.0
	if scale > 1 {
		factor = math.Sqrt(1 + math.Log(scale)/math.Log(first))
	}
	if v, ok := params.float("attention_factor"); ok {
		factor = v
	}
	j.set("rope.scaling.attn_factor", float32(factor))
	if j.arch != "phi3" {
		j.set("rope.scaling.original_context_length", uint32(first))
	}
}

// originalContext is the length of texts before a rope was stretched: what
// stands beside the rope's object comes before what is in it.
func (j *job) originalContext(params fields) int {
	const name = "original_max_position_embeddings"
	return max(1, j.config.countOr(params.countOr(j.family.context(j), name), name))
}

// stretch is by how much a rope was stretched: its factor, or what the lengths
// of texts give.
func (j *job) stretch(params fields) float64 {
	if v, ok := params.float("factor"); ok {
		return v
	}
	return float64(j.family.context(j)) / float64(j.originalContext(params))
}

func stableKeys(j *job) {
	j.set("use_parallel_residual", j.config.flag(false, "use_parallel_residual"))
}

func neoxKeys(j *job) {
	j.set("use_parallel_residual", j.config.flag(true, "use_parallel_residual"))
}

// gpt2Check refuses scores of attention that are scaled in another way than by
// the width of a head.
func gpt2Check(j *job) {
	j.flagIs("scale_attn_weights", true, true)
	j.flagIs("scale_attn_by_inverse_layer_idx", false, false)
}

// cohereCheck: llama.cpp looks for norms of heads in the largest one only.
func cohereCheck(j *job) {
	if j.layers < 64 {
		j.flagIs("use_qk_norm", false, false)
	}
}

// falconCheck refuses the falcons that GGUF files cannot say: they rotate,
// have no biases, and add attention and feed-forward to the same sum.
func falconCheck(j *job) {
	c := j.config
	j.flagIs("alibi", false, false)
	j.flagIs("bias", false, false)
	j.flagIs("parallel_attn", true, true)
	if !c.flag(false, "new_decoder_architecture") && c.flag(true, "multi_query") {
		j.kvHeads = 1
	} else if !c.flag(false, "new_decoder_architecture") {
		j.kvHeads = j.heads
	}
}

// nomicContext is the length up to which positions rotate as they are: files
// cannot say that longer texts stretch them.
func nomicContext(j *job) int {
	n := j.config.countOr(2048, "max_position_embeddings", "n_positions")
	if f, ok := j.config.float("rotary_scaling_factor"); ok && f > 0 {
		n = min(n, j.config.countOr(2048, "max_trained_positions"))
	}
	return n
}

func nomicCheck(j *job) {
	c := j.config
	if n := nomicContext(j); n < c.countOr(2048, "max_position_embeddings", "n_positions") {
		j.warn("texts of more than %d tokens stretch the rope of this model, which a GGUF file cannot store: the file takes no longer ones", n)
	}
	if c.c.Has("rotary_emb_scale_base") {
		c.unsupported("rotary_emb_scale_base", "expected none, because a GGUF file cannot store it")
	}
	for _, key := range []string{"causal", "prenorm", "qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias", "parallel_block", "use_rms_norm", "rotary_emb_interleaved"} {
		j.flagIs(key, false, false)
	}
	if c.countOr(0, "moe_every_n_layers") != 0 {
		c.unsupported("moe_every_n_layers", "experts, which are not converted")
	}
}

func modernKeys(j *job) {
	c := j.config
	if !j.saysLocal {
		j.set("rope.freq_base_swa", float32(c.floatOr(10000, "local_rope_theta")))
	}
	j.setCount("attention.sliding_window", c.countOr(128, "local_attention"))
	if p, ok := j.ropeOf(); ok { // what stretches one rope stretches both
		if kind := p.text("default", "rope_type", "type"); kind != "default" {
			p.unsupported("rope_type", "%q, expected default, because a GGUF file cannot store it", kind)
		}
	}
	every := max(c.countOr(3, "global_attn_every_n_layers"), 1)
	j.setCount("attention.sliding_window_pattern", every)
	j.windowsAre(func(layer int) bool { return layer%every != 0 })
}
