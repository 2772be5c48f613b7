package tensor

import "encoding/binary"

// A Q4_K block is a half d, a half dmin, 12 bytes with eight 6-bit scales and
// eight 6-bit minima of 32 elements each, and 128 bytes of 4-bit codes; a Q5_K
// block has 32 bytes of the codes' fifth bits before those:
// x = d*scale*q - dmin*min. Of every 32 code bytes the low nibbles belong to
// 32 elements and the high ones to the next 32; bit g of byte i of the fifth
// bits belongs to element 32g+i.

func groupQ4_K(dst *[32]float32, block []byte, g int) {
	dl, ml := scaleMinK(block, g)
	q, shift := block[16+32*(g/2):][:32], 4*(g%2)
	for i, c := range q {
		dst[i] = float32(dl*float32(c>>shift&15)) - ml
	}
}

func groupQ5_K(dst *[32]float32, block []byte, g int) {
	dl, ml := scaleMinK(block, g)
	high, q, shift := block[16:48], block[48+32*(g/2):][:32], 4*(g%2)
	for i, c := range q {
		dst[i] = float32(dl*float32(c>>shift&15|high[i]>>g&1<<4)) - ml
	}
}

// scaleMinK are the factor and the offset of group g. The first four scales
// and minima are the low six bits of a byte each; of the other four, four bits
// are in the last four bytes and two on top of the first eight.
func scaleMinK(block []byte, g int) (scale, minimum float32) {
	d := F16ToF32(binary.LittleEndian.Uint16(block))
	dmin := F16ToF32(binary.LittleEndian.Uint16(block[2:]))
	s := block[4:16]
	if g < 4 {
		return d * float32(s[g]&63), dmin * float32(s[g+4]&63)
	}
	return d * float32(s[g+4]&15|s[g-4]>>6<<4), dmin * float32(s[g+4]>>4|s[g]>>6<<4)
}

// packScaleMinK writes the first 16 bytes of a block.
func packScaleMinK(dst []byte, s *shiftedSuper) {
	binary.LittleEndian.PutUint16(dst, s.hd)
	binary.LittleEndian.PutUint16(dst[2:], s.hmin)
	p := dst[4:16]
	for g := range 4 {
		p[g] = s.scale[g] | s.scale[g+4]>>4<<6
		p[g+4] = s.min[g] | s.min[g+4]>>4<<6
		p[g+8] = s.scale[g+4]&15 | s.min[g+4]<<4
	}
}

func encodeQ4_K(dst []byte, src, weight []float32) error {
	var s shiftedSuper
	for block := 0; len(src) >= 256; block, dst, src = block+1, dst[144:], src[256:] {
		if err := s.fit(Q4_K, block, src[:256], weightsOf(weight, block, 256), 32, 15, 63); err != nil {
			return err
		}
		packScaleMinK(dst, &s)
		packCodesK(dst[16:144], &s.q)
	}
	return nil
}

func encodeQ5_K(dst []byte, src, weight []float32) error {
	var s shiftedSuper
	for block := 0; len(src) >= 256; block, dst, src = block+1, dst[176:], src[256:] {
		if err := s.fit(Q5_K, block, src[:256], weightsOf(weight, block, 256), 32, 31, 63); err != nil {
			return err
		}
		packScaleMinK(dst, &s)
		packCodesK(dst[48:176], &s.q)
		high := dst[16:48]
		clear(high)
		for i, c := range s.q {
			high[i%32] |= byte(c) >> 4 << (i / 32)
		}
	}
	return nil
}

// packCodesK writes the low four bits of 256 codes.
func packCodesK(dst []byte, q *[256]int8) {
	for i := range dst[:128] {
		lo := i/32*64 + i%32
		dst[i] = byte(q[lo])&15 | byte(q[lo+32])<<4
	}
}
