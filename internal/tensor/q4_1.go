package tensor

import "encoding/binary"

// A Q4_1 block is a half scale d, a half minimum m and 16 bytes, whose low
// nibbles are the codes of elements 0-15 and whose high nibbles are those of
// elements 16-31: x = d*q + m.

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

func encodeQ4_1(dst []byte, src []float32) error {
	for block := 0; len(src) >= 32; block, dst, src = block+1, dst[20:], src[32:] {
		x := src[:32]
		lo, hi := x[0], x[0]
		for _, v := range x[1:] {
			lo, hi = min(lo, v), max(hi, v) // the built-ins keep a NaN
		}
		d := (hi - lo) / 15
		hd, err := halfScale(Q4_1, block, d)
		if err != nil {
			return err
		}
		hm, err := halfScale(Q4_1, block, lo)
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint16(dst, hd)
		binary.LittleEndian.PutUint16(dst[2:], hm)
		id, q := inverse(d), dst[4:20]
		for i := range q {
			q[i] = code4(x[i], lo, id) | code4(x[i+16], lo, id)<<4
		}
	}
	return nil
}

func code4(v, lo, id float32) byte {
	return byte(min(int32(float32((v-lo)*id)+0.5), 15))
}
