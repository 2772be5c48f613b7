package tensor

import (
	"fmt"
	"strings"
)

// DType is the logical encoding of a tensor: what the file says or what an op
// produces. It never describes how a backend packs.
type DType uint8

const (
	F32 DType = iota
	F16
	BF16
	Q8_0
	Q4_0
	Q4_1
	Q5_0
	Q5_1
	Q2_K
	Q3_K
	Q4_K
	Q5_K
	Q6_K
	IQ4_NL
	IQ4_XS
	MXFP4
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
	F32:    {"F32", 1, 4},
	F16:    {"F16", 1, 2},
	BF16:   {"BF16", 1, 2},
	Q8_0:   {"Q8_0", 32, 34},
	Q4_0:   {"Q4_0", 32, 18},
	Q4_1:   {"Q4_1", 32, 20},
	Q5_0:   {"Q5_0", 32, 22},
	Q5_1:   {"Q5_1", 32, 24},
	Q2_K:   {"Q2_K", 256, 84},
	Q3_K:   {"Q3_K", 256, 110},
	Q4_K:   {"Q4_K", 256, 144},
	Q5_K:   {"Q5_K", 256, 176},
	Q6_K:   {"Q6_K", 256, 210},
	IQ4_NL: {"IQ4_NL", 32, 18},
	IQ4_XS: {"IQ4_XS", 256, 136},
	MXFP4:  {"MXFP4", 32, 17},
	I32:    {"I32", 1, 4},
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

// Codecs are the encodings that Dequantize and Quantize know, in the order of
// their declaration.
func Codecs() []DType {
	var out []DType
	for d := range numDTypes {
		if codecs[d].encode != nil {
			out = append(out, d)
		}
	}
	return out
}

// ByName finds an encoding by its name, in any case.
func ByName(name string) (DType, bool) {
	for d, i := range infos {
		if strings.EqualFold(i.Name, name) {
			return DType(d), true
		}
	}
	return 0, false
}

// RowBytes is the size of a row of n elements; n must be whole blocks.
func (d DType) RowBytes(n int) int {
	i := d.Info()
	return n / i.BlockLen * i.BlockBytes
}
