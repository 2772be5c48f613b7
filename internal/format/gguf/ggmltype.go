package gguf

import (
	"fmt"
	"strings"

	"hotpath/internal/tensor"
)

// GGMLType is the encoding of a tensor, numbered as in the file.
type GGMLType uint32

// ggmlTypes has a row for every encoding that files hold, so that a tensor's
// place can be checked and its encoding named even if hotpath cannot read it.
// dtype is one more than the tensor.DType, 0 where hotpath has none.
var ggmlTypes = [...]struct {
	name                 string
	blockLen, blockBytes int
	dtype                tensor.DType
}{
	0:  {"F32", 1, 4, 1 + tensor.F32},
	1:  {"F16", 1, 2, 1 + tensor.F16},
	2:  {"Q4_0", 32, 18, 1 + tensor.Q4_0},
	3:  {"Q4_1", 32, 20, 1 + tensor.Q4_1},
	6:  {"Q5_0", 32, 22, 1 + tensor.Q5_0},
	7:  {"Q5_1", 32, 24, 1 + tensor.Q5_1},
	8:  {"Q8_0", 32, 34, 1 + tensor.Q8_0},
	10: {"Q2_K", 256, 84, 1 + tensor.Q2_K},
	11: {"Q3_K", 256, 110, 1 + tensor.Q3_K},
	12: {"Q4_K", 256, 144, 1 + tensor.Q4_K},
	13: {"Q5_K", 256, 176, 1 + tensor.Q5_K},
	14: {"Q6_K", 256, 210, 1 + tensor.Q6_K},
	16: {"IQ2_XXS", 256, 66, 0},
	17: {"IQ2_XS", 256, 74, 0},
	18: {"IQ3_XXS", 256, 98, 0},
	19: {"IQ1_S", 256, 50, 0},
	20: {"IQ4_NL", 32, 18, 1 + tensor.IQ4_NL},
	21: {"IQ3_S", 256, 110, 0},
	22: {"IQ2_S", 256, 82, 0},
	23: {"IQ4_XS", 256, 136, 1 + tensor.IQ4_XS},
	24: {"I8", 1, 1, 0},
	25: {"I16", 1, 2, 0},
	26: {"I32", 1, 4, 1 + tensor.I32},
	27: {"I64", 1, 8, 0},
	28: {"F64", 1, 8, 0},
	29: {"IQ1_M", 256, 56, 0},
	30: {"BF16", 1, 2, 1 + tensor.BF16},
	34: {"TQ1_0", 256, 54, 0},
	35: {"TQ2_0", 256, 66, 0},
	39: {"MXFP4", 32, 17, 1 + tensor.MXFP4},
}

func (t GGMLType) known() bool { return int(t) < len(ggmlTypes) && ggmlTypes[t].name != "" }

func (t GGMLType) String() string {
	if !t.known() {
		return fmt.Sprintf("GGMLType(%d)", uint32(t))
	}
	return ggmlTypes[t].name
}

// DType is the encoding in hotpath's terms, false if it has none.
func (t GGMLType) DType() (tensor.DType, bool) {
	if !t.known() || ggmlTypes[t].dtype == 0 {
		return 0, false
	}
	return ggmlTypes[t].dtype - 1, true
}

// ggmlTypeOf is the inverse of DType.
func ggmlTypeOf(d tensor.DType) (GGMLType, bool) {
	for i, t := range ggmlTypes {
		if t.name != "" && t.dtype == d+1 {
			return GGMLType(i), true
		}
	}
	return 0, false
}

// knownTypes lists the encodings that hotpath reads, for errors.
func knownTypes() string {
	var names []string
	for _, t := range ggmlTypes {
		if t.dtype != 0 {
			names = append(names, t.name)
		}
	}
	return strings.Join(names, ", ")
}
