package model

// Llama and Mistral: norms before attention and before a gated feed-forward,
// rotary positions, several query heads to a key head. Mistral may have a
// window in all its layers. GGUF files of both are llama's,
// those of Mixtral (experts.go) too.

func init() {
	register(&architecture{
		name: "llama", gguf: []string{"llama"}, hf: []string{"llama"},
		readGGUF: llamaGGUF, readHF: llamaHF,
	})
	register(&architecture{name: "mistral", hf: []string{"mistral"}, readHF: mistralHF})
}

func llamaGGUF(r *fields) description {
	d := sizesGGUF(r)
	d.interleaved = true
	d.windowGGUF(r)
	if n, err := r.gguf.IDOr(r.prefix+"expert_count", 0); err != nil || n > 0 { // Mixtral
		r.keep(err)
		m := mixtureGGUF(r, d)
		m.normalize = true
		return m
	}
	return d
}

func llamaHF(r *fields) description {
	return sizesHF(r, 2048, 1e-6, ropeDefaults{})
}

func mistralHF(r *fields) description {
	d := sizesHF(r, 131072, 1e-6, ropeDefaults{})
	d.everyWindow(r, 4096)
	return d
}
