package model

// SmolLM3 is Llama, but in every fourth layer positions do not rotate.

func init() {
	register(&architecture{name: "smollm3", gguf: []string{"smollm3"}, hf: []string{"smollm3"}, readGGUF: smollm3GGUF, readHF: smollm3HF})
}

// smollm3GGUF: files do not say which layers they are.
func smollm3GGUF(r *fields) description {
	d := sizesGGUF(r)
	d.interleaved = true
	d.stills(func(layer int) bool { return (layer+1)%4 == 0 })
	d.windowGGUF(r)
	return d
}

func smollm3HF(r *fields) description {
	d := sizesHF(r, 32768, 1e-6, ropeDefaults{theta: 2e6})
	d.tied = r.flag("tie_word_embeddings", true)
	period := r.sizeOr("no_rope_layer_interval", maxLayers, 4)
	d.stills(func(layer int) bool { return (layer+1)%period == 0 })
	if key := "no_rope_layers"; r.has(key) {
		list, err := r.hf.IDs(key) // 1 where positions rotate, whatever the name says
		r.keep(err)
		if r.failed() == nil && len(list) != d.Layers {
			r.invalid(key, "%d entries, expected one for each of %d layers", len(list), d.Layers)
		}
		if r.failed() == nil {
			d.stills(func(layer int) bool { return list[layer] == 0 })
		}
	}
	sliding := r.layerTypes(d.Layers) // it counts whatever the flag says
	if r.flag("use_sliding_window", false) || sliding != nil {
		if size := r.window("sliding_window", 0); size > 0 {
			d.windows(size, func(layer int) bool { return sliding == nil && d.noRope[layer] || sliding != nil && sliding[layer] })
		}
	}
	return d
}

// stills sets the layers whose positions do not rotate.
func (d *decoder) stills(still func(layer int) bool) {
	d.noRope = make([]bool, d.Layers)
	for i := range d.noRope {
		d.noRope[i] = still(i)
	}
}
