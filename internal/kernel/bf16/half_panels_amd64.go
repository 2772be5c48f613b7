package bf16

import "hotpath/internal/tensor"

//go:noescape
func halfQ4_0(t *panelArgs)

//go:noescape
func halfQ4_1(t *panelArgs)

//go:noescape
func halfQ8_0(t *panelArgs)

//go:noescape
func packHalves(dst *uint16, src *float32, lds, steps, rows int, order *fewOrder, factors *float32)

// halfInOrder and halfEverySecond are orders of f16 numbers: a scratch tells by the
// order which numbers it holds.
var halfInOrder, halfEverySecond = inOrder, everySecond

var halfConstants = func() (t halfTables) {
	for i := range t.codes {
		t.codes[i] = byte(tensor.F32ToF16(float32(i%16-8)) >> 8)
	}
	for i := range t.pairs {
		t.pairs[i] = uint16(i / 2)
	}
	return t
}()

// halfKernels are the types that have a kernel for tiles of f16.
var halfKernels = map[tensor.DType]*panelKernel{
	tensor.Q4_0: {run: halfQ4_0, order: &halfInOrder, depth: kStep, tables: &halfConstants},
	tensor.Q4_1: {run: halfQ4_1, order: &halfInOrder, depth: kStep, tables: &halfConstants},
	tensor.Q8_0: {run: halfQ8_0, order: &halfEverySecond, depth: kStep, tables: &halfConstants},
}
