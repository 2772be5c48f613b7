package gemm

import (
	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

//go:noescape
func mixF32AVX2(dst, p *[4]*float32, w *byte, rowBytes, rows, blocks, add int)

//go:noescape
func mixF32AVX512(dst, p *[4]*float32, w *byte, rowBytes, rows, blocks, add int)

//go:noescape
func mixF16AVX2(dst, p *[4]*float32, w *byte, rowBytes, rows, blocks, add int)

//go:noescape
func mixF16AVX512(dst, p *[4]*float32, w *byte, rowBytes, rows, blocks, add int)

//go:noescape
func mixQ8_0AVX2(dst, p *[4]*float32, w *byte, rowBytes, rows, blocks, add int)

//go:noescape
func mixQ8_0AVX512(dst, p *[4]*float32, w *byte, rowBytes, rows, blocks, add int)

// CanMix says whether there are kernels that sum rows of a type as they lie.
func CanMix(d tensor.DType) bool {
	return isa.Vector() != isa.Generic && (d == tensor.F32 || d == tensor.F16 || d == tensor.Q8_0)
}

// mixFast sums for as many rows of weights at a time as the registers hold;
// missing ones repeat the last, which writes the same result twice.
func mixFast(dst []float32, ldd int, p []float32, ldp, m int, w *Stored, n int, add bool) bool {
	if !CanMix(w.DType) {
		return false
	}
	wide := isa.Vector() == isa.AVX512
	step, plus := 2, 0
	if wide {
		step = 4
	}
	if add {
		plus = 1
	}
	for i := 0; i < m; i += step {
		var ds, ps [4]*float32
		for j := range ds {
			r := min(i+j, m-1)
			ds[j], ps[j] = &dst[r*ldd], &p[r*ldp]
		}
		switch {
		case w.DType == tensor.F32 && wide:
			mixF32AVX512(&ds, &ps, &w.Data[0], w.RowBytes, n, w.K/32, plus)
		case w.DType == tensor.F32:
			mixF32AVX2(&ds, &ps, &w.Data[0], w.RowBytes, n, w.K/32, plus)
		case w.DType == tensor.F16 && wide:
			mixF16AVX512(&ds, &ps, &w.Data[0], w.RowBytes, n, w.K/32, plus)
		case w.DType == tensor.F16:
			mixF16AVX2(&ds, &ps, &w.Data[0], w.RowBytes, n, w.K/32, plus)
		case wide:
			mixQ8_0AVX512(&ds, &ps, &w.Data[0], w.RowBytes, n, w.K/32, plus)
		default:
			mixQ8_0AVX2(&ds, &ps, &w.Data[0], w.RowBytes, n, w.K/32, plus)
		}
	}
	return true
}
