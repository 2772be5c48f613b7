package tensor

import "encoding/binary"

// An IQ4_NL block is laid out as one of Q4_0, but its codes stand for the
// values of a table that is denser around zero: x = d*levels[q]. An IQ4_XS
// block is a half d, 16 high bits and 8 nibbles of eight 6-bit scales of 32
// elements each, and 16 bytes of codes for every 32 elements:
// x = d*(scale-32)*levels[q].

// iq4Levels are the values of the codes of both.
var iq4Levels = [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// LevelIQ4_NL is what code q, of 4 bits, stands for before the block's scale.
func LevelIQ4_NL(q int) float32 { return float32(iq4Levels[q&15]) }

func decodeIQ4_NL(dst []float32, src []byte) {
	for ; len(dst) >= 32; dst, src = dst[32:], src[18:] {
		d := F16ToF32(binary.LittleEndian.Uint16(src))
		decodeLevels((*[32]float32)(dst), src[2:18], d, &iq4Levels)
	}
}

// decodeLevels decodes 16 bytes of codes that stand for values of a table.
func decodeLevels(dst *[32]float32, q []byte, d float32, levels *[16]int8) {
	var t [16]float32
	for i, l := range levels {
		t[i] = d * float32(l)
	}
	codes := (*[16]byte)(q)
	for i, c := range codes {
		dst[i] = t[c&15]
		dst[i+16] = t[c>>4]
	}
}

func encodeIQ4_NL(dst []byte, src, weight []float32) error {
	var q [32]int8
	for block := 0; len(src) >= 32; block, dst, src = block+1, dst[18:], src[32:] {
		h, err := encodeScaled(IQ4_NL, block, &q, src[:32], weightsOf(weight, block, 32), codesIQ4)
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint16(dst, h)
		packNibbles(dst[2:18], &q, 0)
	}
	return nil
}

func groupIQ4_XS(dst *[32]float32, block []byte, g int) {
	d := F16ToF32(binary.LittleEndian.Uint16(block))
	decodeLevels(dst, block[8+16*g:][:16], d*float32(scaleIQ4_XS(block, g)-32), &iq4Levels)
}

// scaleIQ4_XS is the scale of group g.
func scaleIQ4_XS(block []byte, g int) int {
	high := binary.LittleEndian.Uint16(block[2:])
	return int(block[4+g/2]>>(4*(g%2))&15) | int(high>>(2*g)&3)<<4
}

func encodeIQ4_XS(dst []byte, src, weight []float32) error {
	var s scaledSuper
	for block := 0; len(src) >= 256; block, dst, src = block+1, dst[136:], src[256:] {
		if err := s.fit(IQ4_XS, block, src[:256], weightsOf(weight, block, 256), 32, codesIQ4, -32, 31); err != nil {
			return err
		}
		clear(dst[:8])
		binary.LittleEndian.PutUint16(dst, s.hd)
		var high uint16
		for g := range 8 {
			u := byte(s.scale[g] + 32)
			high |= uint16(u>>4) << (2 * g)
			dst[4+g/2] |= u & 15 << (4 * (g % 2))
			packNibbles(dst[8+16*g:][:16], (*[32]int8)(s.q[32*g:]), 0)
		}
		binary.LittleEndian.PutUint16(dst[2:], high)
	}
	return nil
}
