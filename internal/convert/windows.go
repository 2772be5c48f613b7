package convert

// Windows of attention. Files of some architectures say them to llama.cpp too;
// those of the families here say them to hotpath alone, and a warning tells.

// quietWindow writes a window that llama.cpp does not read from files of the
// architecture. size is 0 where there is none; in says which layers have it.
func (j *job) quietWindow(size int, in func(layer int) bool) {
	some, all := false, true
	pattern := make([]bool, j.layers)
	kinds := j.layerTypes()
	for i := range pattern {
		pattern[i] = in(i)
		if i < len(kinds) {
			pattern[i] = kinds[i] == "sliding_attention"
		}
		some, all = some || pattern[i], all && pattern[i]
	}
	if size == 0 || size >= j.family.context(j) || !some {
		return
	}
	j.set("attention.sliding_window", uint32(size))
	if !all {
		j.set("attention.sliding_window_pattern", pattern)
	}
	j.warnWindow(size)
}

func (j *job) warnWindow(size int) {
	j.warn("attention sees %d tokens in this model, which llama.cpp does not read from files of %s models: its answers differ beyond that", size, j.arch)
}

// windowSize is the field, 0 where it is null.
func (j *job) windowSize() int {
	if j.config.c.Null("sliding_window") {
		return 0
	}
	return j.config.countOr(missing[j.kind].window, "sliding_window")
}

func everyLayer(int) bool { return true }

// mistralWindow is what Mistral and Mixtral have in all layers; Llama has none.
func mistralWindow(j *job) {
	if j.kind != "llama" {
		j.quietWindow(j.windowSize(), everyLayer)
	}
}

// starcoderWindow is in all layers.
func starcoderWindow(j *job) { j.quietWindow(j.windowSize(), everyLayer) }

// askedWindow is one that use_sliding_window turns on.
func (j *job) askedWindow(in func(layer int) bool) {
	if j.config.flag(false, "use_sliding_window") {
		j.quietWindow(j.windowSize(), in)
	}
}

// qwenWindow is in the upper layers.
func qwenWindow(j *job) {
	first := j.config.countOr(28, "max_window_layers")
	j.askedWindow(func(layer int) bool { return layer >= first })
}

// qwen2MoEWindow is in every second of the lower layers.
func qwen2MoEWindow(j *job) {
	first := j.config.countOr(28, "max_window_layers")
	j.askedWindow(func(layer int) bool { return layer%2 == 0 && layer < first })
}

func qwen3MoEWindow(j *job) { j.askedWindow(everyLayer) }

// smollmWindow is in the layers whose positions do not rotate, or in those that
// a list says whatever the flag does.
func smollmWindow(j *job) {
	if j.layerTypes() != nil {
		j.quietWindow(j.windowSize(), everyLayer)
		return
	}
	j.askedWindow(func(layer int) bool { return (layer+1)%4 == 0 })
}
