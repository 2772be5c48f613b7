package gemm

import "hotpath/internal/kernel/isa"

//go:noescape
func longQ4_KNEON(dst *float32, q *byte, scales *float32, spans int)

//go:noescape
func longQ5_KNEON(dst *float32, q, high *byte, scales *float32, first, spans int)

//go:noescape
func longQ6_KNEON(dst *float32, low, high *byte, scales *float32, first, spans int)

//go:noescape
func longQ2_KNEON(dst *float32, q *byte, scales *float32, first, spans int)

//go:noescape
func longQ3_KNEON(dst *float32, q, high *byte, scales *float32, first, spans int)

//go:noescape
func longIQ4_XSNEON(dst *float32, q *byte, scales *float32, spans int)

func longQ4(_ isa.Tier, dst *float32, q *byte, scales *float32, spans int) {
	longQ4_KNEON(dst, q, scales, spans)
}

func longQ5(_ isa.Tier, dst *float32, q, high *byte, scales *float32, first, spans int) {
	longQ5_KNEON(dst, q, high, scales, first, spans)
}

func longQ6(_ isa.Tier, dst *float32, low, high *byte, scales *float32, first, spans int) {
	longQ6_KNEON(dst, low, high, scales, first, spans)
}

func longQ2(_ isa.Tier, dst *float32, q *byte, scales *float32, first, spans int) {
	longQ2_KNEON(dst, q, scales, first, spans)
}

func longQ3(_ isa.Tier, dst *float32, q, high *byte, scales *float32, first, spans int) {
	longQ3_KNEON(dst, q, high, scales, first, spans)
}

func longIQ4(_ isa.Tier, dst *float32, q *byte, scales *float32, spans int) {
	longIQ4_XSNEON(dst, q, scales, spans)
}
