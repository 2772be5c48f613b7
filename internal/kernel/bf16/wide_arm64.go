package bf16

//go:noescape
func widenNEON(dst *float32, src *uint16, ldd, pairs int)

// wideCols is how many columns widen takes at a time.
const wideCols = 8

func widen(dst []float32, src []uint16, ldd, pairs int) { widenNEON(&dst[0], &src[0], ldd, pairs) }
