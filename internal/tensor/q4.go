package tensor

import "encoding/binary"

// A Q4_0 block is a half scale d and 16 bytes, whose low nibbles are the codes
// of elements 0-15 and whose high nibbles are those of elements 16-31:
// x = d*(q-8). A Q4_1 block has a half minimum m behind its scale:
// x = d*q + m.

func decodeQ4_0(dst []float32, src []byte) {
	for ; len(dst) >= 32; dst, src = dst[32:], src[18:] {
		d := F16ToF32(binary.LittleEndian.Uint16(src))
		q, x := src[2:18], dst[:32]
		for i, c := range q {
			x[i] = d * float32(int(c&15)-8)
			x[i+16] = d * float32(int(c>>4)-8)
		}
	}
}

func encodeQ4_0(dst []byte, src, weight []float32) error {
	var q [32]int8
	for block := 0; len(src) >= 32; block, dst, src = block+1, dst[18:], src[32:] {
		h, err := encodeScaled(Q4_0, block, &q, src[:32], weightsOf(weight, block, 32), codes4)
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint16(dst, h)
		packNibbles(dst[2:18], &q, 8)
	}
	return nil
}

func decodeQ4_1(dst []float32, src []byte) {
	for ; len(dst) >= 32; dst, src = dst[32:], src[20:] {
		d := F16ToF32(binary.LittleEndian.Uint16(src))
		m := F16ToF32(binary.LittleEndian.Uint16(src[2:]))
		q, x := src[4:20], dst[:32]
		for i, c := range q {
			// The conversions forbid a fused multiply-add, which would round once
			// instead of twice on some machines.
			x[i] = float32(d*float32(c&15)) + m
			x[i+16] = float32(d*float32(c>>4)) + m
		}
	}
}

func encodeQ4_1(dst []byte, src, weight []float32) error {
	var q [32]int8
	for block := 0; len(src) >= 32; block, dst, src = block+1, dst[20:], src[32:] {
		hd, hm, err := encodeShifted(Q4_1, block, &q, src[:32], weightsOf(weight, block, 32), 15)
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint16(dst, hd)
		binary.LittleEndian.PutUint16(dst[2:], hm)
		packNibbles(dst[4:20], &q, 0)
	}
	return nil
}

// packNibbles writes the low four bits of 32 codes, each plus add.
func packNibbles(dst []byte, q *[32]int8, add int8) {
	for i := range dst[:16] {
		dst[i] = byte(q[i]+add)&15 | byte(q[i+16]+add)<<4
	}
}
