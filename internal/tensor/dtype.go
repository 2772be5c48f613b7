package tensor

import "fmt"

// DType is the logical encoding of a tensor: what the file says or what an op
// produces. It never describes how a backend packs.
type DType uint8

const (
	F32 DType = iota
	F16
	BF16
	Q8_0
	Q4_1
	I32
	numDTypes
)

// Info describes a DType: BlockLen consecutive elements of a row take
// BlockBytes bytes.
type Info struct {
	Name       string
	BlockLen   int
	BlockBytes int
}

var infos = [numDTypes]Info{
	F32:  {"F32", 1, 4},
	F16:  {"F16", 1, 2},
	BF16: {"BF16", 1, 2},
	Q8_0: {"Q8_0", 32, 34},
	Q4_1: {"Q4_1", 32, 20},
	I32:  {"I32", 1, 4},
}

// Info returns the row of the table for d.
func (d DType) Info() Info {
	if d >= numDTypes {
		return Info{Name: fmt.Sprintf("DType(%d)", uint8(d)), BlockLen: 1}
	}
	return infos[d]
}

func (d DType) String() string { return d.Info().Name }

// Quantized reports whether d stores elements in blocks that share scales.
func (d DType) Quantized() bool { return d.Info().BlockLen > 1 }

// RowBytes is the size of a row of n elements; n must be whole blocks.
func (d DType) RowBytes(n int) int {
	i := d.Info()
	return n / i.BlockLen * i.BlockBytes
}
