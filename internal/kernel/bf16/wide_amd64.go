package bf16

//go:noescape
func widenAVX2(dst *float32, src *uint16, ldd, pairs int)

// wideCols is how many columns widen takes at a time.
const wideCols = 16

func widen(dst []float32, src []uint16, ldd, pairs int) { widenAVX2(&dst[0], &src[0], ldd, pairs) }
