package i16

import (
	"unsafe"

	"hotpath/internal/tensor"
)

//go:noescape
func dotAVX2(t *dotArgs)

//go:noescape
func dotAVXVNNI(t *dotArgs)

//go:noescape
func dotVNNI(t *dotArgs)

//go:noescape
func quantizeF32AVX2(dst *int16, src *byte, scales *float32, rowBytes, stride, groups, rows int, limit, inverse float32)

//go:noescape
func quantizeF16AVX2(dst *int16, src *byte, scales *float32, rowBytes, stride, groups, rows int, limit, inverse float32)

//go:noescape
func quantizeBF16AVX2(dst *int16, src *byte, scales *float32, rowBytes, stride, groups, rows int, limit, inverse float32)

//go:noescape
func quantizeQ4_0AVX2(dst *int16, src *byte, scales *float32, rowBytes, stride, groups, rows int, limit, inverse float32)

//go:noescape
func quantizeQ4_1AVX2(dst *int16, src *byte, scales *float32, rowBytes, stride, groups, rows int, limit, inverse float32)

//go:noescape
func quantizeQ5_0AVX2(dst *int16, src *byte, scales *float32, rowBytes, stride, groups, rows int, limit, inverse float32)

//go:noescape
func quantizeQ5_1AVX2(dst *int16, src *byte, scales *float32, rowBytes, stride, groups, rows int, limit, inverse float32)

//go:noescape
func quantizeIQ4_NLAVX2(dst *int16, src *byte, scales *float32, rowBytes, stride, groups, rows int, limit, inverse float32)

//go:noescape
func quantizeMXFP4AVX2(dst *int16, src *byte, scales *float32, rowBytes, stride, groups, rows int, limit, inverse float32)

//go:noescape
func widenQ8AVX2(dst *int16, src *byte, scales *float32, ldd, rowBytes, stride, groups, rows int)

//go:noescape
func pairsQ8AVX2(dst *int16, src *byte, scales *float32, rowBytes, groups int)

func dot(f kernelFamily, t *dotArgs) {
	switch f {
	case vnni:
		dotVNNI(t)
	case avxvnni:
		dotAVXVNNI(t)
	default:
		dotAVX2(t)
	}
}

func (q *quantizer) codes(f kernelFamily, dst []int16, src, scales []float32) {
	if f == generic {
		q.generic(dst, src, scales)
		return
	}
	_, _, _ = dst[q.rows*q.groups*Group-1], src[(q.rows-1)*q.lds+q.groups*Group-1], scales[(q.groups-1)*q.stride+q.rows-1]
	quantizeF32AVX2(&dst[0], (*byte)(unsafe.Pointer(&src[0])), &scales[0], q.lds*4, q.stride*4, q.groups, q.rows, q.limit, 1/q.limit)
}

// stored quantizes rows as they lie in a file, rowBytes apart: false where
// there is no kernel that decodes them.
func (q *quantizer) stored(f kernelFamily, d tensor.DType, dst []int16, src []byte, rowBytes int, scales []float32) bool {
	if f == generic || d.Info().BlockLen > Group || q.rows == 0 || q.groups == 0 {
		return false
	}
	_, _, _ = dst[q.rows*q.groups*Group-1], src[(q.rows-1)*rowBytes+d.RowBytes(q.groups*Group)-1], scales[(q.groups-1)*q.stride+q.rows-1]
	switch d {
	case tensor.F32:
		quantizeF32AVX2(&dst[0], &src[0], &scales[0], rowBytes, q.stride*4, q.groups, q.rows, q.limit, 1/q.limit)
	case tensor.F16:
		quantizeF16AVX2(&dst[0], &src[0], &scales[0], rowBytes, q.stride*4, q.groups, q.rows, q.limit, 1/q.limit)
	case tensor.BF16:
		quantizeBF16AVX2(&dst[0], &src[0], &scales[0], rowBytes, q.stride*4, q.groups, q.rows, q.limit, 1/q.limit)
	case tensor.Q4_0:
		quantizeQ4_0AVX2(&dst[0], &src[0], &scales[0], rowBytes, q.stride*4, q.groups, q.rows, q.limit, 1/q.limit)
	case tensor.Q4_1:
		quantizeQ4_1AVX2(&dst[0], &src[0], &scales[0], rowBytes, q.stride*4, q.groups, q.rows, q.limit, 1/q.limit)
	case tensor.Q5_0:
		quantizeQ5_0AVX2(&dst[0], &src[0], &scales[0], rowBytes, q.stride*4, q.groups, q.rows, q.limit, 1/q.limit)
	case tensor.Q5_1:
		quantizeQ5_1AVX2(&dst[0], &src[0], &scales[0], rowBytes, q.stride*4, q.groups, q.rows, q.limit, 1/q.limit)
	case tensor.IQ4_NL:
		quantizeIQ4_NLAVX2(&dst[0], &src[0], &scales[0], rowBytes, q.stride*4, q.groups, q.rows, q.limit, 1/q.limit)
	case tensor.MXFP4:
		quantizeMXFP4AVX2(&dst[0], &src[0], &scales[0], rowBytes, q.stride*4, q.groups, q.rows, q.limit, 1/q.limit)
	default:
		return false
	}
	return true
}

func (w *widener) codes(f kernelFamily, dst []int16, src []byte, scales []float32) {
	if f == generic {
		w.generic(dst, src, scales)
		return
	}
	_, _, _ = dst[(w.rows-1)*w.ldd+w.groups*Group-1], src[(w.rows-1)*w.rowBytes+w.groups*34-1], scales[(w.groups-1)*NR+w.rows-1]
	widenQ8AVX2(&dst[0], &src[0], &scales[0], w.ldd*2, w.rowBytes, NR*4, w.groups, w.rows)
}

// panel makes a whole block of a panel at once: false where there is no kernel.
func (w *widener) panel(f kernelFamily, dst Panel, src []byte) bool {
	if f == generic || w.rows < NR {
		return false
	}
	_, _, _ = dst.codes[w.groups*Group*NR-1], dst.scales[w.groups*NR-1], src[(NR-1)*w.rowBytes+w.groups*34-1]
	for n := 0; n < NR; n += 8 {
		pairsQ8AVX2(&dst.codes[2*n], &src[n*w.rowBytes], &dst.scales[n], w.rowBytes, w.groups)
	}
	return true
}
