package gemm

import "hotpath/internal/kernel/isa"

//go:noescape
func longQ4_KAVX2(dst *float32, q *byte, scales *float32, spans int)

//go:noescape
func longQ4_KAVX512(dst *float32, q *byte, scales *float32, spans int)

//go:noescape
func longQ5_KAVX2(dst *float32, q, high *byte, scales *float32, first, spans int)

//go:noescape
func longQ5_KAVX512(dst *float32, q, high *byte, scales *float32, first, spans int)

//go:noescape
func longQ6_KAVX2(dst *float32, low, high *byte, scales *float32, first, spans int)

//go:noescape
func longQ6_KAVX512(dst *float32, low, high *byte, scales *float32, first, spans int)

//go:noescape
func longQ2_KAVX2(dst *float32, q *byte, scales *float32, first, spans int)

//go:noescape
func longQ2_KAVX512(dst *float32, q *byte, scales *float32, first, spans int)

//go:noescape
func longQ3_KAVX2(dst *float32, q, high *byte, scales *float32, first, spans int)

//go:noescape
func longQ3_KAVX512(dst *float32, q, high *byte, scales *float32, first, spans int)

//go:noescape
func longIQ4_XSAVX2(dst *float32, q *byte, scales *float32, spans int)

//go:noescape
func longIQ4_XSAVX512(dst *float32, q *byte, scales *float32, spans int)

func longQ4(tier isa.Tier, dst *float32, q *byte, scales *float32, spans int) {
	if tier == isa.AVX512 {
		longQ4_KAVX512(dst, q, scales, spans)
	} else {
		longQ4_KAVX2(dst, q, scales, spans)
	}
}

func longQ5(tier isa.Tier, dst *float32, q, high *byte, scales *float32, first, spans int) {
	if tier == isa.AVX512 {
		longQ5_KAVX512(dst, q, high, scales, first, spans)
	} else {
		longQ5_KAVX2(dst, q, high, scales, first, spans)
	}
}

func longQ6(tier isa.Tier, dst *float32, low, high *byte, scales *float32, first, spans int) {
	if tier == isa.AVX512 {
		longQ6_KAVX512(dst, low, high, scales, first, spans)
	} else {
		longQ6_KAVX2(dst, low, high, scales, first, spans)
	}
}

func longQ2(tier isa.Tier, dst *float32, q *byte, scales *float32, first, spans int) {
	if tier == isa.AVX512 {
		longQ2_KAVX512(dst, q, scales, first, spans)
	} else {
		longQ2_KAVX2(dst, q, scales, first, spans)
	}
}

func longQ3(tier isa.Tier, dst *float32, q, high *byte, scales *float32, first, spans int) {
	if tier == isa.AVX512 {
		longQ3_KAVX512(dst, q, high, scales, first, spans)
	} else {
		longQ3_KAVX2(dst, q, high, scales, first, spans)
	}
}

func longIQ4(tier isa.Tier, dst *float32, q *byte, scales *float32, spans int) {
	if tier == isa.AVX512 {
		longIQ4_XSAVX512(dst, q, scales, spans)
	} else {
		longIQ4_XSAVX2(dst, q, scales, spans)
	}
}
