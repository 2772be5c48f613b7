package tensor

import "encoding/binary"

// A Q2_K block is 16 bytes of scales (low nibble) and minima (high nibble) of
// 16 elements each, 64 bytes of 2-bit codes, a half d and a half dmin:
// x = d*scale*q - dmin*min. Byte i of the first 32 code bytes has the codes of
// elements i, i+32, i+64 and i+96, low bits first; the second 32 bytes have
// those of elements 128-255.

func groupQ2_K(dst *[32]float32, block []byte, g int) {
	d := F16ToF32(binary.LittleEndian.Uint16(block[80:]))
	dmin := F16ToF32(binary.LittleEndian.Uint16(block[82:]))
	q, shift := (*[32]byte)(block[16+32*(g/4):]), 2*(g%4)
	for half := range 2 {
		s := block[2*g+half]
		dl, ml := d*float32(s&15), dmin*float32(s>>4)
		var t [4]float32 // the possible values
		for c := range t {
			t[c] = float32(dl*float32(c)) - ml
		}
		for i := 16 * half; i < 16*half+16; i++ {
			dst[i] = t[q[i]>>shift&3]
		}
	}
}

func encodeQ2_K(dst []byte, src, weight []float32) error {
	var s shiftedSuper
	for block := 0; len(src) >= 256; block, dst, src = block+1, dst[84:], src[256:] {
		if err := s.fit(Q2_K, block, src[:256], weightsOf(weight, block, 256), 16, 3, 15); err != nil {
			return err
		}
		clear(dst[:84])
		for j := range 16 {
			dst[j] = s.scale[j] | s.min[j]<<4
		}
		for i, c := range s.q {
			dst[16+32*(i/128)+i%32] |= byte(c) << (2 * (i / 32 % 4))
		}
		binary.LittleEndian.PutUint16(dst[80:], s.hd)
		binary.LittleEndian.PutUint16(dst[82:], s.hmin)
	}
	return nil
}
