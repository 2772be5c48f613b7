package model

import (
	"math"

	"hotpath/internal/graph"
)

// Gemma, whose blocks are Llama's, and Gemma 2, which has norms after
// attention and feed-forward too, caps on scores and logits, and a window in
// every second layer.

func init() {
	register(&architecture{name: "gemma", gguf: []string{"gemma"}, hf: []string{"gemma"}, readGGUF: gemma1GGUF, readHF: gemma1HF})
	register(&architecture{name: "gemma2", gguf: []string{"gemma2"}, hf: []string{"gemma2"}, readGGUF: gemma2GGUF, readHF: gemma2HF})
}

func gemma1GGUF(r *fields) description { return gemmaGGUF(r, 10000) }

func gemma1HF(r *fields) description {
	d := gemmaHF(r, 8192, 10000)
	// Its first configurations say gelu and mean the approximation. The field
	// that later Gemmas have in its place means nothing.
	if d.act = graph.GELUTanh; r.text("hidden_act", "gelu") != "gelu" {
		d.act = r.activation("hidden_act", "gelu")
	}
	r.refuse("use_bidirectional_attention")
	return d
}

func gemma2GGUF(r *fields) description {
	d := gemmaGGUF(r, 10000)
	d.scoreCap = float32(r.optional("attn_logit_softcapping"))
	// Files do not carry the scale: it follows the head's size, but the width
	// of the largest one.
	per := d.HeadDim
	if d.Layers == 46 {
		per = d.Dim / d.Heads
	}
	d.scale = float32(r.positive("attention.scale", 1/math.Sqrt(float64(max(per, 1)))))
	d.windows(r.size("attention.sliding_window", maxContext), r.pattern(d.Layers, 2))
	return gemma{d}
}

func gemma2HF(r *fields) description {
	d := gemmaHF(r, 8192, 10000)
	d.scale = float32(1 / math.Sqrt(r.positive("query_pre_attn_scalar", 256)))
	d.scoreCap = float32(r.cap("attn_logit_softcapping", 50))
	d.logitCap = float32(r.cap("final_logit_softcapping", 30))
	r.refuse("use_bidirectional_attention")
	sliding := r.layerTypes(d.Layers)
	if window := r.window("sliding_window", 4096); window > 0 {
		d.windows(window, func(layer int) bool { return sliding == nil && layer%2 == 0 || sliding != nil && sliding[layer] })
	}
	return gemma{d}
}

// cap is a number above 0, 0 where the field is null and def where it is
// absent.
func (r *fields) cap(key string, def float64) float64 {
	if r.hf.Null(key) {
		return 0
	}
	return r.positive(key, def)
}
