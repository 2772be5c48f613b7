package gemm

import (
	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

//go:noescape
func rowsF32AVX2(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsF32AVX512(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsF16AVX2(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsF16AVX512(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsBF16AVX2(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsBF16AVX512(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsQ8_0AVX2(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsQ8_0AVX512(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsQ4_1AVX2(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsQ4_1AVX512(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsQ4_0AVX2(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsQ4_0AVX512(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsQ5_0AVX2(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsQ5_0AVX512(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsQ5_1AVX2(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsQ5_1AVX512(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsIQ4_NLAVX2(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsIQ4_NLAVX512(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsMXFP4AVX2(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

//go:noescape
func rowsMXFP4AVX512(w *byte, x0, x1, x2, x3, d0, d1, d2, d3 *float32, rowBytes, blocks, groups int)

// rowHeight is the number of weight rows that a kernel of a tier takes at a time.
func rowHeight(tier isa.Tier) int {
	if tier == isa.AVX512 {
		return 4
	}
	return 2
}

func rows4(tier isa.Tier, w *Stored, n int, x, d *[4]*float32, rowBytes, blocks, groups int) {
	p := &w.Data[n*w.RowBytes]
	wide := tier == isa.AVX512
	switch w.DType {
	case tensor.F32:
		if wide {
			rowsF32AVX512(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		} else {
			rowsF32AVX2(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		}
	case tensor.F16:
		if wide {
			rowsF16AVX512(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		} else {
			rowsF16AVX2(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		}
	case tensor.BF16:
		if wide {
			rowsBF16AVX512(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		} else {
			rowsBF16AVX2(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		}
	case tensor.Q8_0:
		if wide {
			rowsQ8_0AVX512(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		} else {
			rowsQ8_0AVX2(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		}
	case tensor.Q4_1:
		if wide {
			rowsQ4_1AVX512(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		} else {
			rowsQ4_1AVX2(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		}
	case tensor.Q4_0:
		if wide {
			rowsQ4_0AVX512(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		} else {
			rowsQ4_0AVX2(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		}
	case tensor.Q5_0:
		if wide {
			rowsQ5_0AVX512(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		} else {
			rowsQ5_0AVX2(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		}
	case tensor.Q5_1:
		if wide {
			rowsQ5_1AVX512(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		} else {
			rowsQ5_1AVX2(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		}
	case tensor.IQ4_NL:
		if wide {
			rowsIQ4_NLAVX512(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		} else {
			rowsIQ4_NLAVX2(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		}
	case tensor.MXFP4:
		if wide {
			rowsMXFP4AVX512(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		} else {
			rowsMXFP4AVX2(p, x[0], x[1], x[2], x[3], d[0], d[1], d[2], d[3], rowBytes, blocks, groups)
		}
	}
}
