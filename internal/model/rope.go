package model

import "math"

// rope is how positions rotate, as far as configurations differ in it.
type rope struct {
	base  float64
	scale float32 // positions are divided by it
	// factors divide the frequencies, one a pair; nil where the
	// configuration has none.
	factors []float32
}

// ropeGGUF reads the rope of full attention from GGUF metadata.
func ropeGGUF(r *fields, base float64) rope {
	p := rope{base: r.positive("rope.freq_base", base), scale: 1}
	switch kind := r.text("rope.scaling.type", "none"); kind {
	case "none":
		p.scale = float32(r.positive("rope.scale_linear", 1)) // how old files say linear
	case "linear":
		p.scale = float32(r.positive("rope.scaling.factor", 1))
	default:
		r.unsupported("rope.scaling.type", "%q, expected none or linear", kind)
	}
	return p
}

// ropeKinds are the ways of config.json to stretch a rope, by rope_type.
var ropeKinds = map[string]func(p *rope, o *fields, rotDim int){
	"default": func(*rope, *fields, int) {},
	"linear":  func(p *rope, o *fields, _ int) { p.scale = float32(o.positive("factor", 1)) },
	"llama3":  llama3Factors,
}

// ropeHF reads config.json: rope_parameters of transformers 5, or rope_theta
// and rope_scaling as before it. rotDim is the number of elements that rotate.
func ropeHF(r *fields, rotDim int) rope {
	p := rope{base: r.positive("rope_theta", 10000), scale: 1}
	o := r.object("rope_parameters")
	if o == nil {
		o = r.object("rope_scaling")
	}
	if o != nil {
		p.apply(o, rotDim)
	}
	return p
}

// apply reads one object of rope parameters.
func (p *rope) apply(o *fields, rotDim int) {
	p.base = o.positive("rope_theta", p.base)
	if part := o.positive("partial_rotary_factor", 1); part != 1 {
		o.unsupported("partial_rotary_factor", "%g, expected 1", part)
	}
	key := "rope_type"
	if !o.has(key) && o.has("type") {
		key = "type"
	}
	kind := o.text(key, "default")
	read := ropeKinds[kind]
	if read == nil {
		o.unsupported(key, "%q, expected default, linear or llama3", kind)
		return
	}
	read(p, o, rotDim)
}

// llama3Factors stretches long wavelengths by factor, leaves short ones alone
// and blends those between.
func llama3Factors(p *rope, o *fields, rotDim int) {
	factor := o.positive("factor", 8)
	low, high := o.positive("low_freq_factor", 1), o.positive("high_freq_factor", 4)
	context := float64(o.sizeOr("original_max_position_embeddings", maxContext, 8192))
	if low >= high {
		o.invalid("low_freq_factor", "expected a number below high_freq_factor (%g), found %g", high, low)
		return
	}
	p.factors = make([]float32, rotDim/2)
	for i := range p.factors {
		turns := context * math.Pow(p.base, -2*float64(i)/float64(rotDim)) / (2 * math.Pi)
		keep := min(max((turns-low)/(high-low), 0), 1)
		p.factors[i] = float32(1 / ((1-keep)/factor + keep))
	}
}
