package model

import "math"

// yarn stretches frequencies that turn less than slow times within context by
// factor, leaves those that turn more than fast times alone and blends those
// between.
type yarn struct {
	factor, fast, slow float64
	context            int
	whole              bool // the ends of the blend are whole pairs
}

// apply makes the factors of a rope.
func (y *yarn) apply(p *rope) {
	pair := func(turns float64) float64 { // that turns so often within context
		return float64(p.dims) * math.Log(float64(y.context)/(turns*2*math.Pi)) / (2 * math.Log(p.base))
	}
	low, high := pair(y.fast), pair(y.slow)
	if y.whole {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, float64(p.dims-1))
	if low == high {
		high += 0.001
	}
	p.factors = make([]float32, p.dims/2)
	for i := range p.factors {
		keep := 1 - min(max((float64(i)-low)/(high-low), 0), 1)
		p.factors[i] = float32(1 / ((1-keep)/y.factor + keep))
	}
}

// yarnMagnitude makes up for the scores that stretching flattens.
func yarnMagnitude(factor, weight float64) float64 {
	if factor <= 1 {
		return 1
	}
	return 0.1*weight*math.Log(factor) + 1
}

// yarnHF reads YaRN from config.json.
func yarnHF(p *rope, o, config *fields) {
	y := yarn{context: original(o, config), fast: 32, slow: 1, whole: o.flag("truncate", true)}
	if o.failed() != nil {
		return
	}
	if v := o.optional("beta_fast"); v > 0 {
		y.fast = v
	}
	if v := o.optional("beta_slow"); v > 0 {
		y.slow = v
	}
	y.factor = o.positive("factor", float64(config.sizeOr("max_position_embeddings", maxContext, y.context))/float64(y.context))
	magnitude := yarnMagnitude(y.factor, 1)
	if a, b := o.optional("mscale"), o.optional("mscale_all_dim"); a > 0 && b > 0 {
		magnitude = yarnMagnitude(y.factor, a) / yarnMagnitude(y.factor, b)
	}
	p.magnitude = float32(o.positive("attention_factor", magnitude))
	if o.failed() == nil {
		y.apply(p)
	}
}

// longRope has factors of its own for texts longer than the original ones.
func longRope(p *rope, o, config *fields) {
	p.context = original(o, config)
	if o.failed() != nil {
		return
	}
	p.key = ropeFactors
	p.factors, p.long = o.pairs("short_factor", p.dims/2), o.pairs("long_factor", p.dims/2)
	factor := o.positive("factor", float64(config.sizeOr("max_position_embeddings", maxContext, p.context))/float64(p.context))
	magnitude := 1.0
	if factor > 1 {
		magnitude = math.Sqrt(1 + math.Log(factor)/math.Log(float64(p.context)))
	}
	p.magnitude = float32(o.positive("attention_factor", magnitude))
	if o.failed() == nil && p.context < 2 {
		o.invalid("original_max_position_embeddings", "expected at least 2, found %d", p.context)
	}
}

// pairs is a list of n positive numbers, one for each pair of a rope.
func (r *fields) pairs(key string, n int) []float32 {
	list, err := r.hf.Floats(key)
	if err != nil {
		r.keep(err)
		return nil
	}
	if len(list) != n {
		r.invalid(key, "%d numbers, expected one for each of %d pairs", len(list), n)
		return nil
	}
	out := make([]float32, n)
	for i, v := range list {
		if !(v > 0) || math.IsInf(v, 0) {
			r.invalid(key, "expected numbers above 0, found %g", v)
			return nil
		}
		out[i] = float32(v)
	}
	return out
}
