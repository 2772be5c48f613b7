package vec

import (
	"encoding/binary"

	"hotpath/internal/tensor"
)

// ToF16 writes src as half floats, two bytes each, rounded to nearest even.
func ToF16(dst []byte, src []float32) {
	dst = dst[:2*len(src)]
	done := toF16Fast(dst, src)
	for i, v := range src[done:] {
		binary.LittleEndian.PutUint16(dst[2*(done+i):], tensor.F32ToF16(v))
	}
}
