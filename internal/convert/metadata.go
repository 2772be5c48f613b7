package convert

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"hotpath/internal/weights"
)

// metadata sets everything but the tokenizer.
func (j *job) metadata() error {
	j.setGlobal("general.architecture", j.arch)
	j.setGlobal("general.type", "model")
	j.setGlobal("general.name", j.name())
	c := j.config
	j.set("block_count", uint32(j.layers))
	j.set("context_length", uint32(j.family.context(j)))
	j.set("embedding_length", uint32(j.dim))
	j.set("feed_forward_length", uint32(c.countOr(4*j.dim, "intermediate_size", "n_inner", "hidden_dim", "ffn_hidden_size")))
	j.set("attention.head_count", uint32(j.heads))
	j.set("attention.head_count_kv", uint32(j.kvHeads))
	j.setCount("vocab_size", j.vocab)
	if c.c.Has("head_dim") || j.family.wideHeads {
		j.set("attention.key_length", uint32(j.headDim))
		j.set("attention.value_length", uint32(j.headDim))
	}
	j.norms()
	j.setCount("expert_count", j.experts)
	if j.experts > 0 {
		j.setCount("expert_used_count", c.countOr(0, "num_experts_per_tok"))
		j.setCount("expert_feed_forward_length", c.countOr(0, "moe_intermediate_size"))
	}
	if j.family.rope {
		j.rope()
	}
	if j.family.extra != nil {
		j.family.extra(j)
	}
	if j.family.window != nil {
		j.family.window(j)
	}
	if j.family.encoder {
		j.set("attention.causal", false)
	}
	j.modules()
	if j.classifies() {
		j.rank()
	} else {
		j.pooling()
	}
	j.config.keep(j.err)
	return *j.config.err
}

// poolings are the numbers of how embeddings are made.
var poolings = map[string]uint32{"mean": 1, "cls": 2, "lasttoken": 3}

// oldPoolings are the flags of older files.
var oldPoolings = map[string]string{
	"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls", "pooling_mode_lasttoken": "lasttoken",
	"pooling_mode_max_tokens": "max", "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens": "weightedmean",
}

// modules refuses stages behind the pooling that files have no place for. Those
// of EmbeddingGemma have two matrices.
func (j *job) modules() {
	for _, m := range j.hf.Modules {
		kind := m.Kind()
		dense := kind == "Dense" && j.arch == "gemma-embedding" && (m.Path == "2_Dense" || m.Path == "3_Dense")
		if dense && m.Config != nil {
			f := fields{m.Config, j.config.err}
			if act := f.text("Tanh", "activation_function"); !strings.HasSuffix(act, "Identity") {
				f.unsupported("activation_function", "%q, expected Identity, because a GGUF file cannot store it", act)
			}
		}
		if !dense && kind != "Transformer" && kind != "Pooling" && kind != "Normalize" {
			j.config.keep(fmt.Errorf("%s: module %s: %s, which a GGUF file of a %s model cannot contain: %w",
				filepath.Join(j.in.Path(), "modules.json"), m.Path, kind, j.arch, weights.ErrUnsupported))
		}
	}
}

// pooling says how embeddings are made, where modules.json does.
func (j *job) pooling() {
	if s := j.hf.SentenceBert; s != nil {
		if f := (fields{s, j.config.err}); f.flag(false, "do_lower_case") {
			f.unsupported("do_lower_case", "true, which a GGUF file cannot store: expected a tokenizer with lower-case letters only")
		}
	}
	if s := j.hf.Sentence; s != nil {
		f := fields{s, j.config.err}
		if name := f.text("", "default_prompt_name"); name != "" {
			j.warn("texts get the prompt %q unless asked otherwise in this model, and none in its GGUF file, which has no prompts: give it with each text", name)
		}
		if n := f.countOr(0, "truncate_dim"); n > 0 {
			j.warn("vectors are cut to %d dimensions in this model (truncate_dim), and not in its GGUF file: ask for as many", n)
		}
	}
	p := j.hf.Pooling()
	if p == nil {
		return
	}
	f := fields{p, j.config.err}
	mode := "mean"
	if raw, ok := p.Raw("pooling_mode"); ok {
		mode = strings.Trim(string(raw), `"`)
	} else {
		var modes []string
		for _, flag := range slices.Sorted(maps.Keys(oldPoolings)) {
			if f.flag(false, flag) {
				modes = append(modes, oldPoolings[flag])
			}
		}
		if len(modes) > 0 {
			mode = strings.Join(modes, " beside ")
		}
	}
	n, ok := poolings[mode]
	if !ok {
		f.unsupported("pooling_mode", "%q, which a GGUF file cannot store: expected mean, cls or lasttoken", mode)
		return
	}
	j.set("pooling_type", n)
}

// rankPooling is the number of models that score pairs of texts.
const rankPooling = 4

// classifies reports whether the directory has a head for scores.
func (j *job) classifies() bool {
	return j.family.encoder && (j.in.Has("classifier.weight") || j.in.Has("classifier.out_proj.weight"))
}

// rank says that the model scores pairs, and what its scores are called.
func (j *job) rank() {
	j.set("pooling_type", uint32(rankPooling))
	if j.segments() > 1 {
		j.warn("llama.cpp takes both texts of a pair for the first one: its scores differ")
	}
	if act := j.activation(); act != "" && !strings.HasSuffix(act, "Sigmoid") {
		j.warn("scores go through %s in this model, and from its GGUF file through a sigmoid, which a GGUF file cannot store otherwise", act)
	}
	o, ok := j.config.object("id2label")
	if !ok {
		return
	}
	labels := make([]string, len(o.c.Keys()))
	for i := range labels {
		labels[i] = o.text("LABEL_"+strconv.Itoa(i), strconv.Itoa(i))
	}
	j.set("classifier.output_labels", labels)
}

// activation is what sentence-transformers applies to scores, "" where nothing
// is said.
func (j *job) activation() string {
	if o, ok := j.config.object("sentence_transformers"); ok && o.c.Has("activation_fn") {
		return o.text("", "activation_fn")
	}
	if s := j.hf.Sentence; s != nil && s.Has("activation_fn") {
		return fields{s, j.config.err}.text("", "activation_fn")
	}
	return j.config.text("", "sbert_ce_default_activation_function")
}

// activationOf checks that the activation is one that files of the
// architecture mean.
func (j *job) activationOf() {
	if len(j.family.acts) == 0 {
		return
	}
	name, _ := j.config.has("hidden_activation", "hidden_act", "activation_function", "activation")
	if act := j.config.text(j.family.acts[0], name); !slices.Contains(j.family.acts, act) {
		j.config.unsupported(name, "%q, expected %s, because a GGUF file cannot store it", act, strings.Join(j.family.acts, " or "))
	}
}

// rope sets the base of rotary positions, how many dimensions rotate and how
// long texts are stretched.
func (j *job) rope() {
	c := j.config
	params := c // where theta and the kind are
	scaled := false
	for _, name := range []string{"rope_parameters", "rope_scaling"} {
		o, ok := c.object(name)
		if !ok {
			continue
		}
		if full, ok := o.object("full_attention"); ok {
			if local, ok := o.object("sliding_attention"); ok {
				if theta, ok := local.float("rope_theta"); ok {
					j.set("rope.freq_base_swa", float32(theta))
					j.saysLocal = true
				}
				if kind := local.text("default", "rope_type", "type"); kind != "default" {
					local.unsupported("rope_parameters.sliding_attention.rope_type", "%q, expected default, because a GGUF file cannot store it", kind)
				}
			}
			o = full
		}
		params, scaled = o, true
		break
	}
	theta, ok := params.float("rope_theta")
	if !ok {
		theta = c.floatOr(j.theta(), "rope_theta", "rotary_emb_base", "global_rope_theta")
	}
	j.set("rope.freq_base", float32(theta))
	j.set("rope.dimension_count", uint32(j.rotating(params)))
	if !scaled {
		return
	}
	factor, hasFactor := params.float("factor")
	switch kind := strings.ToLower(params.text("default", "rope_type", "type")); kind {
	case "default", "llama3": // the latter is a tensor
	case "linear":
		j.set("rope.scaling.type", "linear")
		j.set("rope.scaling.factor", float32(factor))
	case "yarn":
		factor = j.stretch(params)
		j.set("rope.scaling.type", "yarn")
		j.set("rope.scaling.factor", float32(factor))
		j.set("rope.scaling.original_context_length", uint32(j.originalContext(params)))
		if !params.flag(true, "truncate") {
			params.unsupported("truncate", "false, expected true, because a GGUF file cannot store it")
		}
		if params.c.Has("mscale") {
			params.unsupported("mscale", "expected none, because a GGUF file cannot store it")
		}
		if v, ok := params.float("beta_fast"); ok {
			j.set("rope.scaling.yarn_beta_fast", float32(v))
		}
		if v, ok := params.float("beta_slow"); ok {
			j.set("rope.scaling.yarn_beta_slow", float32(v))
		}
		// Readers multiply with what follows from the factor.
		if v, ok := params.float("attention_factor"); ok && factor > 1 {
			j.set("rope.scaling.attn_factor", float32(v/(0.1*math.Log(factor)+1)))
		}
	case "longrope", "su":
		j.set("rope.scaling.type", "longrope")
		j.longRope(params)
	default:
		params.unsupported("rope_type", "%q with factor %g (%v), which a GGUF file cannot store", kind, factor, hasFactor)
	}
}

// rotating is how many elements of a head rotate.
func (j *job) rotating(params fields) int {
	part, ok := j.family.ropePart, false
	if part == 0 {
		return j.headDim
	}
	if part, ok = params.float("partial_rotary_factor"); !ok {
		part = j.config.floatOr(j.family.ropePart, "partial_rotary_factor", "rotary_pct", "rotary_emb_fraction")
	}
	return int(part * float64(j.headDim))
}

// context is the largest number of tokens.
func (f *family) context(j *job) int {
	if f.contextOf != nil {
		return f.contextOf(j)
	}
	def := missing[j.kind].positions
	if def == 0 {
		def = 2048
	}
	return j.config.countOr(def, "max_position_embeddings", "n_positions", "n_ctx")
}

// ropeOf is the object that holds a rope's kind, if config.json has one.
func (j *job) ropeOf() (fields, bool) {
	for _, name := range []string{"rope_scaling", "rope_parameters"} {
		if o, ok := j.config.object(name); ok {
			if full, ok := o.object("full_attention"); ok {
				o = full
			}
			return o, true
		}
	}
	return fields{}, false
}
