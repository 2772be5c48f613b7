package convert

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"hotpath/internal/quant"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// Tensors that files have beside those of the directory.

// given is a small tensor that no file of the directory has.
func given(name string, values []float32) quant.Tensor {
	return quant.Tensor{Name: name, Dims: []int{len(values)}, DType: tensor.F32, Rows: func(dst []float32, _, _ int) error {
		copy(dst, values)
		return nil
	}}
}

// ropeTensors are the factors of wavelengths that stretch rotary positions.
func ropeTensors(j *job) []quant.Tensor { return append(llamaFreqs(j), longFactors(j)...) }

// llamaFreqs are Llama 3's factors of wavelengths.
func llamaFreqs(j *job) []quant.Tensor {
	p, ok := j.ropeOf()
	if !ok || strings.ToLower(p.text("", "rope_type", "type")) != "llama3" {
		return nil
	}
	base, ok := p.float("rope_theta")
	if !ok {
		base = j.config.floatOr(j.theta(), "rope_theta")
	}
	factor, low, high := p.floatOr(8, "factor"), p.floatOr(1, "low_freq_factor"), p.floatOr(4, "high_freq_factor")
	first, dims := float64(j.originalContext(p)), j.rotating(p)
	out := make([]float32, max(dims, 0)/2)
	for i := range out {
		wave := 2 * math.Pi * math.Pow(base, float64(2*i)/float64(dims))
		switch {
		case wave < first/high:
			out[i] = 1
		case wave > first/low:
			out[i] = float32(factor)
		default:
			smooth := (first/wave - low) / (high - low)
			out[i] = float32(1 / ((1-smooth)/factor + smooth))
		}
	}
	if !j.family.freqs {
		j.warn("llama.cpp opens files of %s models only without the rope of this one (tensor rope_freqs.weight)", j.arch)
	}
	return []quant.Tensor{given("rope_freqs.weight", out)}
}

// longFactors are the factors of wavelengths for short and for long texts.
func longFactors(j *job) (out []quant.Tensor) {
	p, ok := j.ropeOf()
	if !ok {
		return nil
	}
	for name, key := range map[string]string{"rope_factors_long.weight": "long_factor", "rope_factors_short.weight": "short_factor"} {
		if list := p.floats(key); list != nil {
			out = append(out, given(name, list))
		}
	}
	if len(out) > 0 && !j.family.factors {
		j.warn("llama.cpp opens files of %s models only without the rope of this one (tensors rope_factors_long.weight and rope_factors_short.weight)", j.arch)
	}
	slices.SortFunc(out, func(a, b quant.Tensor) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// denseKey is how GGUF calls a dense layer behind the pooling.
func denseKey(path string) string {
	if path == "2_Dense" {
		return "dense_2"
	}
	return "dense_3"
}

// denseLayers are EmbeddingGemma's layers behind the pooling.
func denseLayers(j *job) (out []quant.Tensor) {
	for _, m := range j.hf.Modules {
		if m.Kind() != "Dense" {
			continue
		}
		t, err := j.in.Get(m.Path + "/linear.weight")
		if err != nil {
			j.config.keep(err)
			return nil
		}
		if j.in.Has(m.Path + "/linear.bias") {
			j.config.keep(fmt.Errorf("%s: tensor %q, which a GGUF file cannot contain: %w", j.in.Path(), m.Path+"/linear.bias", weights.ErrUnsupported))
		}
		one := quant.FromStore(t)
		one.Name, one.DType, one.Data = denseKey(m.Path)+".weight", tensor.F32, nil
		out = append(out, one)
	}
	return out
}
