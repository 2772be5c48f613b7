//go:build !amd64

package i16

// No other architecture has kernels of this class yet.

func dot(kernelFamily, *dotArgs) {}

func quantizeRow(_ kernelFamily, dst []int16, src, scales []float32, stride int, limit float32) {
	quantizeGeneric(dst, src, scales, stride, limit)
}

func widenRow(_ kernelFamily, dst []int16, src []byte, scales []float32) {
	widenGeneric(dst, src, scales)
}
