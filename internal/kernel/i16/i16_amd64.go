package i16

//go:noescape
func dotAVX2(t *dotArgs)

//go:noescape
func dotAVXVNNI(t *dotArgs)

//go:noescape
func dotVNNI(t *dotArgs)

//go:noescape
func quantizeAVX2(dst *int16, src, scales *float32, stride, groups int, limit float32)

//go:noescape
func widenQ8AVX2(dst *int16, src *byte, scales *float32, stride, groups int)

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

// quantizeRow makes codes of whole groups; scales lie stride apart.
func quantizeRow(f kernelFamily, dst []int16, src, scales []float32, stride int, limit float32) {
	if f == generic {
		quantizeGeneric(dst, src, scales, stride, limit)
		return
	}
	n := len(src) / Group
	_, _ = dst[len(src)-1], scales[(n-1)*stride]
	quantizeAVX2(&dst[0], &src[0], &scales[0], stride*4, n, limit)
}

// widenRow takes the codes of a row of Q8_0.
func widenRow(f kernelFamily, dst []int16, src []byte, scales []float32) {
	if f == generic {
		widenGeneric(dst, src, scales)
		return
	}
	n := len(dst) / Group
	_, _ = src[n*34-1], scales[(n-1)*NR]
	widenQ8AVX2(&dst[0], &src[0], &scales[0], NR*4, n)
}
