package tensor

import (
	"encoding/binary"
	"math"
)

// A Q8_0 block is a half scale d and 32 signed bytes q: x = d*q.

func decodeQ8_0(dst []float32, src []byte) {
	for ; len(dst) >= 32; dst, src = dst[32:], src[34:] {
		d := F16ToF32(binary.LittleEndian.Uint16(src))
		q, x := src[2:34], dst[:32]
		for i, c := range q {
			x[i] = d * float32(int8(c))
		}
	}
}

func encodeQ8_0(dst []byte, src, _ []float32) error {
	for block := 0; len(src) >= 32; block, dst, src = block+1, dst[34:], src[32:] {
		x := src[:32]
		var largest float32
		for _, v := range x {
			largest = max(largest, v, -v) // the built-in keeps a NaN
		}
		d := largest / 127
		h, err := halfScale(Q8_0, block, d)
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint16(dst, h)
		id, q := inverse(d), dst[2:34]
		for i, v := range x {
			q[i] = byte(int8(math.Round(float64(float32(v * id)))))
		}
	}
	return nil
}
