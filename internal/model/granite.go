package model

// Granite is Llama with a factor on embeddings, on what blocks add, on scores
// and on logits each.

func init() {
	register(&architecture{name: "granite", gguf: []string{"granite"}, hf: []string{"granite"}, readGGUF: graniteGGUF, readHF: graniteHF})
}

func graniteGGUF(r *fields) description {
	d := sizesGGUF(r)
	d.interleaved = true
	d.embedding = r.factor("embedding_scale", 1)
	d.residual = r.factor("residual_scale", 1)
	d.logits = 1 / r.factor("logit_scale", 1)
	d.scale = float32(r.optional("attention.scale"))
	// The key is how files of this family say that positions do not rotate.
	if !r.flag("rope.scaling.finetuned", true) {
		d.noRope = make([]bool, d.Layers)
		for i := range d.noRope {
			d.noRope[i] = true
		}
	}
	return d
}

func graniteHF(r *fields) description {
	d := sizesHF(r, 2048, 1e-6, ropeDefaults{})
	d.embedding = r.factor("embedding_multiplier", 1)
	d.residual = r.factor("residual_multiplier", 1)
	d.logits = 1 / r.factor("logits_scaling", 1)
	d.scale = float32(r.positive("attention_multiplier", 1))
	return d
}
