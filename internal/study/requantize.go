package study

import (
	"fmt"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// requantized is the CPU with the matrices of products in another storage type
// than the file has: what a quantized file of the same model would give.
type requantized struct {
	*cpu.Backend
	to tensor.DType
}

// Pack encodes a matrix anew before the backend sees it.
func (b *requantized) Pack(w plan.Weight, readers []*graph.Node) (plan.Packed, error) {
	product := len(readers) > 0
	for _, n := range readers {
		product = product && n.Op == graph.OpLinear && n.In[1] == w.Value
	}
	rows, cols := w.Value.Shape.NumRows(tensor.Bind{}), w.Value.Shape.RowLen()
	if !product || w.DType == b.to || b.to.Quantized() && cols%b.to.Info().BlockLen != 0 {
		return b.Backend.Pack(w, readers)
	}
	f := make([]float32, rows*cols)
	if err := tensor.Dequantize(f, w.DType, w.Data); err != nil {
		return nil, fmt.Errorf("as %s: %w", b.to, err)
	}
	data := make([]byte, rows*b.to.RowBytes(cols))
	if err := tensor.Quantize(data, b.to, f); err != nil {
		return nil, fmt.Errorf("as %s: %w", b.to, err)
	}
	w.Drop()
	w.DType, w.Data, w.Drop = b.to, data, func() {}
	return b.Backend.Pack(w, readers)
}
