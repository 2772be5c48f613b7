//go:build !amd64

package i16

import "hotpath/internal/tensor"

// No other architecture has kernels of this class yet.

func dot(kernelFamily, *dotArgs) {}

func (q *quantizer) codes(_ kernelFamily, dst []int16, src, scales []float32) {
	q.generic(dst, src, scales)
}

func (q *quantizer) stored(kernelFamily, tensor.DType, []int16, []byte, int, []float32) bool {
	return false
}

func (w *widener) codes(_ kernelFamily, dst []int16, src []byte, scales []float32) {
	w.generic(dst, src, scales)
}

func (w *widener) panel(kernelFamily, Panel, []byte) bool { return false }
