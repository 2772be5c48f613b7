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
