package tensor

import "encoding/binary"

// A Q6_K block is 128 bytes of the codes' low four bits, 64 bytes of their
// high two, 16 signed scales of 16 elements each and a half d:
// x = d*scale*(q-32). Each half of the block has its own 64 and 32 bytes: byte
// i of the 64 has elements i (low nibble) and i+64, byte i of the 32 has
// elements i, i+32, i+64 and i+96, low bits first.

func groupQ6_K(dst *[32]float32, block []byte, g int) {
	d := F16ToF32(binary.LittleEndian.Uint16(block[208:]))
	h, part := g/4, g%4
	low, high := block[64*h+32*(part%2):][:32], block[128+32*h:][:32]
	for half := range 2 {
		dl := d * float32(int8(block[192+2*g+half]))
		for i := 16 * half; i < 16*half+16; i++ {
			c := int(low[i]>>(4*(part/2))&15) | int(high[i]>>(2*part)&3)<<4
			dst[i] = dl * float32(c-32)
		}
	}
}

func encodeQ6_K(dst []byte, src, weight []float32) error {
	var s scaledSuper
	for block := 0; len(src) >= 256; block, dst, src = block+1, dst[210:], src[256:] {
		if err := s.fit(Q6_K, block, src[:256], weightsOf(weight, block, 256), 16, codes6, -128, 127); err != nil {
			return err
		}
		clear(dst[:192])
		for i, c := range s.q {
			u, h, part, at := byte(c+32), i/128, i/32%4, i%32
			dst[64*h+32*(part%2)+at] |= u & 15 << (4 * (part / 2))
			dst[128+32*h+at] |= u >> 4 << (2 * part)
		}
		for j := range 16 {
			dst[192+j] = byte(int8(s.scale[j]))
		}
		binary.LittleEndian.PutUint16(dst[208:], s.hd)
	}
	return nil
}
