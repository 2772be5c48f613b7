package tensor

import "encoding/binary"

// A Q5_0 block is a half scale d, 32 bits that are the fifth bits of the codes
// of elements 0-31, and 16 bytes of low four bits as in Q4_0: x = d*(q-16). A
// Q5_1 block has a half minimum m behind its scale: x = d*q + m.

func decodeQ5_0(dst []float32, src []byte) {
	for ; len(dst) >= 32; dst, src = dst[32:], src[22:] {
		d := F16ToF32(binary.LittleEndian.Uint16(src))
		high := binary.LittleEndian.Uint32(src[2:])
		q, x := src[6:22], dst[:32]
		for i, c := range q {
			x[i] = d * float32(int(c&15|byte(high>>i&1)<<4)-16)
			x[i+16] = d * float32(int(c>>4|byte(high>>(i+16)&1)<<4)-16)
		}
	}
}

func encodeQ5_0(dst []byte, src, weight []float32) error {
	var q [32]int8
	for block := 0; len(src) >= 32; block, dst, src = block+1, dst[22:], src[32:] {
		h, err := encodeScaled(Q5_0, block, &q, src[:32], weightsOf(weight, block, 32), codes5)
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint16(dst, h)
		packFifths(dst[2:6], &q, 16)
		packNibbles(dst[6:22], &q, 16)
	}
	return nil
}

func decodeQ5_1(dst []float32, src []byte) {
	for ; len(dst) >= 32; dst, src = dst[32:], src[24:] {
		d := F16ToF32(binary.LittleEndian.Uint16(src))
		m := F16ToF32(binary.LittleEndian.Uint16(src[2:]))
		high := binary.LittleEndian.Uint32(src[4:])
		q, x := src[8:24], dst[:32]
		for i, c := range q {
			// Two roundings, as in decodeQ4_1.
			x[i] = float32(d*float32(c&15|byte(high>>i&1)<<4)) + m
			x[i+16] = float32(d*float32(c>>4|byte(high>>(i+16)&1)<<4)) + m
		}
	}
}

func encodeQ5_1(dst []byte, src, weight []float32) error {
	var q [32]int8
	for block := 0; len(src) >= 32; block, dst, src = block+1, dst[24:], src[32:] {
		hd, hm, err := encodeShifted(Q5_1, block, &q, src[:32], weightsOf(weight, block, 32), 31)
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint16(dst, hd)
		binary.LittleEndian.PutUint16(dst[2:], hm)
		packFifths(dst[4:8], &q, 0)
		packNibbles(dst[8:24], &q, 0)
	}
	return nil
}

// packFifths writes the fifth bits of 32 codes, each plus add.
func packFifths(dst []byte, q *[32]int8, add int8) {
	var high uint32
	for i, c := range q {
		high |= uint32(c+add) >> 4 & 1 << i
	}
	binary.LittleEndian.PutUint32(dst, high)
}
