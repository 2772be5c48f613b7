package tensor

import "encoding/binary"

// The scales of long blocks, for kernels that decode the codes themselves.

// ScalesK are the factor and the offset of each group of 32 elements of a Q4_K
// or Q5_K block: x = factor*q - offset.
func ScalesK(dst *[8][2]float32, block []byte) {
	d := F16ToF32(binary.LittleEndian.Uint16(block))
	dmin := F16ToF32(binary.LittleEndian.Uint16(block[2:]))
	s := block[4:16]
	for g := range 4 {
		dst[g] = [2]float32{d * float32(s[g]&63), dmin * float32(s[g+4]&63)}
		dst[g+4] = [2]float32{d * float32(s[g+8]&15|s[g]>>6<<4), dmin * float32(s[g+8]>>4|s[g+4]>>6<<4)}
	}
}

// ScalesQ6_K are the factors of each 16 elements of a Q6_K block: x =
// factor*(q-32).
func ScalesQ6_K(dst *[16]float32, block []byte) {
	d := F16ToF32(binary.LittleEndian.Uint16(block[208:]))
	for j, s := range block[192:208] {
		dst[j] = d * float32(int8(s))
	}
}

// ScalesQ2_K are the factor and the offset of each 16 elements of a Q2_K block:
// x = factor*q - offset.
func ScalesQ2_K(dst *[16][2]float32, block []byte) {
	d := F16ToF32(binary.LittleEndian.Uint16(block[80:]))
	dmin := F16ToF32(binary.LittleEndian.Uint16(block[82:]))
	for j, s := range block[:16] {
		dst[j] = [2]float32{d * float32(s&15), dmin * float32(s>>4)}
	}
}

// ScalesQ3_K are the factors of each 16 elements of a Q3_K block: x =
// factor*(q-4).
func ScalesQ3_K(dst *[16]float32, block []byte) {
	d := F16ToF32(binary.LittleEndian.Uint16(block[108:]))
	for j := range dst {
		dst[j] = d * float32(scaleQ3_K(block[96:108], j)-32)
	}
}

// ScalesIQ4_XS are the factors of each 16 elements of an IQ4_XS block, two by
// two the same: x = factor*LevelIQ4_NL(q).
func ScalesIQ4_XS(dst *[16]float32, block []byte) {
	d := F16ToF32(binary.LittleEndian.Uint16(block))
	for g := range 8 {
		dst[2*g] = d * float32(scaleIQ4_XS(block, g)-32)
		dst[2*g+1] = dst[2*g]
	}
}
