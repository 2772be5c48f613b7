package i16

//go:noescape
func dotAVX2(t *dotArgs)

//go:noescape
func dotAVXVNNI(t *dotArgs)

//go:noescape
func dotVNNI(t *dotArgs)

//go:noescape
func quantizeAVX2(dst *int16, src, scales *float32, lds, stride, groups, rows int, limit, inverse float32)

//go:noescape
func widenQ8AVX2(dst *int16, src *byte, scales *float32, ldd, rowBytes, stride, groups, rows int)

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
	quantizeAVX2(&dst[0], &src[0], &scales[0], q.lds*4, q.stride*4, q.groups, q.rows, q.limit, 1/q.limit)
}

func (w *widener) codes(f kernelFamily, dst []int16, src []byte, scales []float32) {
	if f == generic {
		w.generic(dst, src, scales)
		return
	}
	_, _, _ = dst[(w.rows-1)*w.ldd+w.groups*Group-1], src[(w.rows-1)*w.rowBytes+w.groups*34-1], scales[(w.groups-1)*NR+w.rows-1]
	widenQ8AVX2(&dst[0], &src[0], &scales[0], w.ldd*2, w.rowBytes, NR*4, w.groups, w.rows)
}
