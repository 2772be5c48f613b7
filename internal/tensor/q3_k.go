package tensor

import "encoding/binary"

// A Q3_K block is 32 bytes of the codes' third bits, 64 bytes of their low two
// bits, laid out as in Q2_K, 12 bytes with sixteen 6-bit scales of 16 elements
// each, and a half d: x = d*(scale-32)*(q-4). Bit j of byte i of the third
// bits belongs to element 32j+i.

func groupQ3_K(dst *[32]float32, block []byte, g int) {
	d := F16ToF32(binary.LittleEndian.Uint16(block[108:]))
	q, high, shift := (*[32]byte)(block[32+32*(g/4):]), (*[32]byte)(block), 2*(g%4)
	for half := range 2 {
		dl := d * float32(scaleQ3_K(block[96:108], 2*g+half)-32)
		var t [8]float32 // the possible values
		for c := range t {
			t[c] = dl * float32(c-4)
		}
		for i := 16 * half; i < 16*half+16; i++ {
			dst[i] = t[q[i]>>shift&3|high[i]>>g&1<<2]
		}
	}
}

// scaleQ3_K is scale j: its low four bits are a nibble of the first eight
// bytes, its high two are in the last four.
func scaleQ3_K(s []byte, j int) int {
	return int(s[j%8]>>(4*(j/8))&15 | s[8+j%4]>>(2*(j/4))&3<<4)
}

func encodeQ3_K(dst []byte, src, weight []float32) error {
	var s scaledSuper
	for block := 0; len(src) >= 256; block, dst, src = block+1, dst[110:], src[256:] {
		if err := s.fit(Q3_K, block, src[:256], weightsOf(weight, block, 256), 16, codes3, -32, 31); err != nil {
			return err
		}
		clear(dst[:110])
		for i, c := range s.q {
			u := byte(c + 4)
			dst[i%32] |= u >> 2 << (i / 32)
			dst[32+32*(i/128)+i%32] |= u & 3 << (2 * (i / 32 % 4))
		}
		for j := range 16 {
			u := byte(s.scale[j] + 32)
			dst[96+j%8] |= u & 15 << (4 * (j / 8))
			dst[104+j%4] |= u >> 4 << (2 * (j / 4))
		}
		binary.LittleEndian.PutUint16(dst[108:], s.hd)
	}
	return nil
}
