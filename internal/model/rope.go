package model

import (
	"cmp"
	"math"
	"strings"

	"hotpath/internal/graph"
)

// rope is how positions rotate, as far as configurations differ in it.
type rope struct {
	base      float64
	dims      int     // elements of a head that rotate
	scale     float32 // positions are divided by it
	magnitude float32 // what rotates is multiplied by it; 0: 1
	// factors divide the frequencies, one a pair; nil where the configuration
	// has none. long are those of texts beyond context tokens.
	factors, long []float32
	context       int
	stretch       float64 // of the dynamic rope, for texts beyond context; 0: none
	key           string  // of the weight that holds the factors
}

// ropeFreqs divides the frequencies of a rope; few models have it. Files of
// LongRoPE have two of them instead, and the models with two ropes one each.
const (
	ropeFreqs      = "rope_freqs.weight"
	ropeFreqsLocal = "rope_freqs_local.weight"
	ropeFactors    = "rope_factors.weight" // [short and long, pairs]
)

// byLength reports whether frequencies depend on how long a text is.
func (p *rope) byLength() bool { return p.context > 0 }

// attr is the rope of heads of a size.
func (p *rope) attr(headDim int, interleaved bool) graph.RopeAttr {
	return graph.RopeAttr{HeadDim: headDim, RotDim: p.dims, Base: p.base, Scale: p.scale, Magnitude: p.magnitude,
		Context: p.context, Stretch: p.stretch, Interleaved: interleaved}
}

// made gives the factors that the configuration has to whoever lists weights.
func (p *rope) made(into map[string]madeWeight) {
	switch {
	case p.long != nil:
		into[p.key] = madeWeight{[]int{2, len(p.long)}, append(append([]float32(nil), p.factors...), p.long...)}
	case p.factors != nil:
		into[p.key] = madeWeight{[]int{len(p.factors)}, p.factors}
	}
}

// Rotate is x[T,H*headDim] turned by a rope.
func (c *Context) Rotate(name string, x *graph.Value, p *rope, headDim int, interleaved bool) *graph.Value {
	attr := p.attr(headDim, interleaved)
	var freqs, length *graph.Value
	switch {
	case !c.Has(p.key):
	case p.byLength() && p.stretch == 0:
		freqs = c.Tensor(p.key, graph.RoleOther, 2, p.dims/2)
	default:
		freqs = c.Tensor(p.key, graph.RoleOther, p.dims/2)
	}
	if p.byLength() {
		length = c.Length()
	}
	return c.RopeByLength(name, x, c.Pos, freqs, length, attr)
}

// check holds the number of elements that rotate against a head's size.
func (p *rope) check(r *fields, key string, headDim int) {
	if r.failed() == nil && (p.dims%2 != 0 || p.dims > headDim || p.dims == 0) {
		r.invalid(key, "expected an even number up to the size of a head (%d), found %d", headDim, p.dims)
	}
}

// ropeGGUF reads the rope of full attention from GGUF metadata.
func ropeGGUF(r *fields, base float64, headDim int) rope {
	p := rope{base: r.positive("rope.freq_base", base), scale: 1, dims: r.sizeOr("rope.dimension_count", maxHeadDim, headDim), key: ropeFreqs}
	p.check(r, "rope.dimension_count", headDim)
	switch kind := r.text("rope.scaling.type", "linear"); kind {
	case "none":
	case "linear":
		// Old files have the second of these names.
		p.scale = float32(r.positive("rope.scaling.factor", r.positive("rope.scale_linear", 1)))
	case "yarn":
		p.yarnGGUF(r)
	case "longrope":
	default:
		r.unsupported("rope.scaling.type", "%q, expected none, linear, yarn or longrope", kind)
	}
	// LongRoPE shows in its tensors, whatever the type says.
	if _, long := r.gguf.Tensor("rope_factors_long.weight"); long {
		p.key = ropeFactors
		p.context = r.sizeOr("rope.scaling.original_context_length", maxContext, r.size("context_length", maxContext))
		p.magnitude = float32(r.positive("rope.scaling.attn_factor", 1))
	}
	return p
}

// yarnGGUF reads YaRN: the magnitude follows the factor unless it is given, and
// attn_factor multiplies it.
func (p *rope) yarnGGUF(r *fields) {
	y := yarn{
		factor:  r.positive("rope.scaling.factor", 1),
		context: r.size("rope.scaling.original_context_length", maxContext),
		fast:    r.positive("rope.scaling.yarn_beta_fast", 32),
		slow:    r.positive("rope.scaling.yarn_beta_slow", 1),
		whole:   true,
	}
	if ext := "rope.scaling.yarn_ext_factor"; r.positive(ext, 1) != 1 {
		r.unsupported(ext, "%g, expected 1", r.positive(ext, 1))
	}
	magnitude := r.positive("rope.scaling.yarn_attn_factor", yarnMagnitude(y.factor, 1))
	p.magnitude = float32(magnitude * r.positive("rope.scaling.attn_factor", 1))
	if r.failed() == nil {
		y.apply(p)
	}
}

// ropeKinds are the ways of config.json to stretch a rope, by rope_type. The
// configuration around the rope's object says how long texts were.
var ropeKinds = map[string]func(p *rope, o, config *fields){
	"default":  func(*rope, *fields, *fields) {},
	"linear":   func(p *rope, o, _ *fields) { p.scale = float32(o.positive("factor", 1)) },
	"dynamic":  dynamicRope,
	"llama3":   llama3Factors,
	"yarn":     yarnHF,
	"longrope": longRope,
	"su":       longRope, // its first name
}

// ropeDefaults are what a configuration without the fields means.
type ropeDefaults struct {
	theta float64 // 0: 10000
	part  float64 // of a head that rotates; 0: all of it, and no less can be asked for
	head  int     // size of a head; 0: what the width gives
	// thetaKey and partKey are the family's names of fields beside the rope's
	// object; "" is the usual one.
	thetaKey, partKey string
	ownKeys           bool // every head has keys of its own, whatever fields say
	// kinds renames rope_type where a family means another one by it.
	kinds map[string]string
}

// ropeHF reads config.json: rope_parameters of transformers 5, or rope_theta
// and rope_scaling as before it.
func ropeHF(r *fields, headDim int, d ropeDefaults) rope {
	if d.theta == 0 {
		d.theta = 10000
	}
	p := rope{base: r.positive(cmp.Or(d.thetaKey, "rope_theta"), d.theta), scale: 1, key: ropeFreqs}
	o := r.object("rope_scaling")
	if o == nil {
		o = r.object("rope_parameters")
	}
	if o != nil && o.has(fullAttention) { // ropes by kind of layer
		o = nil
	}
	p.dims = headDim
	if part := partRotating(r, o, d); part != 1 {
		p.dims = int(float64(headDim) * part)
		p.check(r, "partial_rotary_factor", headDim)
	}
	p.check(r, "head_dim", headDim)
	if o != nil && r.failed() == nil {
		p.apply(o, r, d.kinds)
	}
	return p
}

// partRotating is how much of a head rotates. Families without a default always
// rotate all of it: transformers reads the field only for ropes that are
// stretched, and then fails.
func partRotating(r, o *fields, d ropeDefaults) float64 {
	const name = "partial_rotary_factor"
	key, at := cmp.Or(d.partKey, name), r
	if o != nil && o.has(name) {
		key, at = name, o
	}
	if d.part > 0 {
		return at.positive(key, d.part)
	}
	if part := at.positive(key, 1); part != 1 && o != nil && o.kind() != "default" {
		at.unsupported(key, "%g, expected 1", part)
	}
	return 1
}

// kind is the rope's kind by its object.
func (r *fields) kind() string { return r.text("rope_type", r.text("type", "default")) }

// apply reads one object of rope parameters.
func (p *rope) apply(o, config *fields, kinds map[string]string) {
	p.base = o.positive("rope_theta", p.base)
	key := "rope_type"
	if !o.has(key) && o.has("type") {
		key = "type"
	}
	kind := o.text(key, "default")
	if other, ok := kinds[kind]; ok {
		kind = other
	}
	read := ropeKinds[kind]
	if read == nil {
		o.unsupported(key, "%q, expected default, linear, dynamic, llama3, yarn or longrope", kind)
		return
	}
	read(p, o, config)
}

// original is the length of texts before a rope was stretched: beside the
// rope's object unless there is one for each kind of layer, in it, or the
// length of texts now.
func original(o, config *fields) int {
	const key = "original_max_position_embeddings"
	if byKind := strings.Count(o.prefix, ".") > 1; !byKind && config.has(key) {
		return config.size(key, maxContext)
	}
	if o.has(key) {
		return o.size(key, maxContext)
	}
	return config.size("max_position_embeddings", maxContext)
}

// dynamicRope widens the base for texts longer than the model was made for.
func dynamicRope(p *rope, o, config *fields) {
	p.stretch = o.positive("factor", 1)
	p.context = config.size("max_position_embeddings", maxContext)
	if o.failed() == nil && p.dims < 4 {
		o.unsupported("rope_type", "dynamic with %d rotating elements, expected at least 4", p.dims)
	}
}

// llama3Factors stretches long wavelengths by factor, leaves short ones alone
// and blends those between.
func llama3Factors(p *rope, o, config *fields) {
	factor := o.positive("factor", 8)
	low, high := o.positive("low_freq_factor", 1), o.positive("high_freq_factor", 4)
	context := float64(original(o, config))
	if low >= high {
		o.invalid("low_freq_factor", "expected a number below high_freq_factor (%g), found %g", high, low)
		return
	}
	p.factors = make([]float32, p.dims/2)
	for i := range p.factors {
		turns := context * math.Pow(p.base, -2*float64(i)/float64(p.dims)) / (2 * math.Pi)
		keep := min(max((turns-low)/(high-low), 0), 1)
		p.factors[i] = float32(1 / ((1-keep)/factor + keep))
	}
}
