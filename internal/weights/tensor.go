package weights

import (
	"fmt"
	"slices"

	"hotpath/internal/format"
	"hotpath/internal/tensor"
)

// Tensor is a weight as its file stores it. Data is a view of the Store's
// memory map unless a method says that it copies: it must not be written to,
// and not be read after the Store is closed.
type Tensor struct {
	Name  string
	DType tensor.DType
	Dims  []int  // outermost first, at least one
	Data  []byte // [Dims...], rows of whole blocks
}

// Len is the number of elements.
func (t Tensor) Len() int {
	n := 1
	for _, d := range t.Dims {
		n *= d
	}
	return n
}

// Rows is a view of the outermost rows from (included) to to (excluded).
func (t Tensor) Rows(from, to int) (Tensor, error) {
	if from < 0 || to > t.Dims[0] || from >= to {
		return Tensor{}, fmt.Errorf("tensor %q: rows %d to %d, expected a range within %d", t.Name, from, to, t.Dims[0])
	}
	if len(t.Dims) == 1 {
		if b := t.DType.Info().BlockLen; from%b != 0 || to%b != 0 {
			return Tensor{}, fmt.Errorf("tensor %q: elements %d to %d, expected whole blocks of %d", t.Name, from, to, b)
		}
	}
	begin, end := t.bytesBefore(from), t.bytesBefore(to)
	t.Dims = slices.Clone(t.Dims)
	t.Dims[0] = to - from
	t.Data = t.Data[begin:end:end]
	return t, nil
}

// bytesBefore is where outermost row i begins.
func (t Tensor) bytesBefore(i int) int {
	for _, d := range t.Dims[1:] {
		i *= d
	}
	return t.DType.RowBytes(i)
}

// Transpose is a copy of a matrix with rows and columns exchanged. Encodings
// that store a row in blocks have no transpose.
func (t Tensor) Transpose() (Tensor, error) {
	if len(t.Dims) != 2 || t.DType.Quantized() {
		return Tensor{}, fmt.Errorf("tensor %q: %s %v, expected a matrix that is not quantized: %w", t.Name, t.DType, t.Dims, format.ErrUnsupported)
	}
	rows, cols, size := t.Dims[0], t.Dims[1], t.DType.Info().BlockBytes
	out := make([]byte, len(t.Data))
	// Squares of 32 keep both sides within the first-level cache.
	const tile = 32
	for r0 := 0; r0 < rows; r0 += tile {
		for c0 := 0; c0 < cols; c0 += tile {
			for r := r0; r < min(r0+tile, rows); r++ {
				for c := c0; c < min(c0+tile, cols); c++ {
					copy(out[(c*rows+r)*size:][:size], t.Data[(r*cols+c)*size:][:size])
				}
			}
		}
	}
	t.Dims, t.Data = []int{cols, rows}, out
	return t, nil
}

// F32 is a decoded copy.
func (t Tensor) F32() ([]float32, error) {
	out := make([]float32, t.Len())
	if err := tensor.Dequantize(out, t.DType, t.Data); err != nil {
		return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	return out, nil
}
