package tensor

import "math"

// F16ToF32 widens an IEEE half; every value but a signalling NaN, which is
// quieted as hardware does, is kept exactly.
func F16ToF32(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	em := uint32(h & 0x7fff)
	switch {
	case em > 0x7c00:
		return math.Float32frombits(sign | 0x7fc00000 | em<<13)
	case em == 0x7c00:
		return math.Float32frombits(sign | 0x7f800000)
	case em >= 0x0400:
		return math.Float32frombits(sign | (em<<13 + 112<<23))
	}
	// A subnormal counts units of 2^-24, a product that float32 holds exactly.
	return math.Float32frombits(sign | math.Float32bits(float32(em)*0x1p-24))
}

// F32ToF16 rounds to the nearest half, ties to even; what is too large
// becomes an infinity, and a NaN stays a quiet NaN.
func F32ToF16(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b>>16) & 0x8000
	a := b & 0x7fffffff
	switch {
	case a > 0x7f800000:
		return sign | 0x7e00 | uint16(a>>13)&0x3ff
	case a >= 0x477ff000: // 65520 lies half way between the largest half and the next power of two
		return sign | 0x7c00
	case a >= 0x38800000: // 2^-14, the smallest normal half
		a += 0xfff + a>>13&1
		return sign | uint16((a-112<<23)>>13)
	}
	// The numbers from 0.5 to 1 are 2^-24 apart, the unit of subnormal
	// halves, so the addition rounds to that unit, ties to even.
	v := math.Float32frombits(a) + 0.5
	return sign | uint16(math.Float32bits(v)-0x3f000000)
}

// BF16ToF32 widens a bfloat16 exactly.
func BF16ToF32(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// F32ToBF16 rounds to the nearest bfloat16, ties to even; a NaN stays a quiet
// NaN.
func F32ToBF16(f float32) uint16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 64
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}
