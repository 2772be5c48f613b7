package study

import (
	"fmt"
	"sync"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// requantized is the CPU with the matrices of products in another storage type
// than the file has: what a quantized file of the same model would give.
type requantized struct {
	*cpu.Backend
	to    tensor.DType
	again sync.Map // keys of the weights that stored named
}

// Caps says which weights are encoded anew, so that plans are made for their new
// type.
func (b *requantized) Caps() plan.Caps {
	c := b.Backend.Caps()
	c.StoredAs = b.stored
	return c
}

// stored is the type of a matrix that only products read, if its rows are whole
// blocks of it, else the file's.
func (b *requantized) stored(v *graph.Value, readers []*graph.Node) tensor.DType {
	product := len(readers) > 0 && (!b.to.Quantized() || v.Shape.RowLen()%b.to.Info().BlockLen == 0)
	for _, n := range readers {
		product = product && n.Op == graph.OpLinear && n.In[1] == v
	}
	if !product {
		return v.DType
	}
	b.again.Store(v.Node.Leaf.Key, true)
	return b.to
}

// Pack encodes a matrix anew before the backend sees it.
func (b *requantized) Pack(w plan.Weight, f *plan.Format) (plan.Packed, error) {
	if _, ok := b.again.Load(w.Value.Node.Leaf.Key); !ok || w.DType == b.to {
		return b.Backend.Pack(w, f)
	}
	rows, cols := w.Value.Shape.NumRows(tensor.Bind{}), w.Value.Shape.RowLen()
	wide := make([]float32, rows*cols)
	if err := tensor.Dequantize(wide, w.DType, w.Data); err != nil {
		return nil, fmt.Errorf("as %s: %w", b.to, err)
	}
	data := make([]byte, rows*b.to.RowBytes(cols))
	if err := tensor.Quantize(data, b.to, wide); err != nil {
		return nil, fmt.Errorf("as %s: %w", b.to, err)
	}
	w.Drop()
	w.DType, w.Data, w.Drop = b.to, data, func() {}
	return b.Backend.Pack(w, f)
}
