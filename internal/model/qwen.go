package model

// Qwen 2 is Llama with biases on q, k and v; Qwen 3 has norms of every query
// and key head instead. Both may have a window in their upper layers.

func init() {
	register(&architecture{name: "qwen2", gguf: []string{"qwen2"}, hf: []string{"qwen2"}, readGGUF: qwen2GGUF, readHF: qwen2HF})
	register(&architecture{name: "qwen3", gguf: []string{"qwen3"}, hf: []string{"qwen3"}, readGGUF: qwen3GGUF, readHF: qwen3HF})
}

func qwen2GGUF(r *fields) description {
	d := sizesGGUF(r)
	d.windowGGUF(r)
	return d
}

func qwen3GGUF(r *fields) description {
	d := sizesGGUF(r)
	d.headNorms = eachHeadNorms
	d.windowGGUF(r)
	return d
}

func qwen2HF(r *fields) description {
	d := sizesHF(r, 32768, 1e-6, ropeDefaults{})
	d.upperWindows(r)
	return d
}

func qwen3HF(r *fields) description {
	d := sizesHF(r, 32768, 1e-6, ropeDefaults{head: 128})
	d.headNorms = eachHeadNorms
	d.upperWindows(r)
	return d
}

// upperWindows reads which layers of a Qwen have a window, if any.
func (d *decoder) upperWindows(r *fields) {
	sliding := r.layerTypes(d.Layers)
	if !r.flag("use_sliding_window", false) {
		return
	}
	first, err := r.hf.IDOr("max_window_layers", 28)
	r.keep(err)
	if size := r.window("sliding_window", 4096); size > 0 {
		d.windows(size, func(layer int) bool { return sliding == nil && layer >= first || sliding != nil && sliding[layer] })
	}
}
