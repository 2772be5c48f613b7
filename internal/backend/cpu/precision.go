package cpu

import (
	"fmt"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/bf16"
	"hotpath/internal/kernel/i16"
	"hotpath/internal/kernel/int8"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

// Precision selects the compute classes of products.
type Precision string

const (
	// Auto is the fastest class with answers close to f32 for any model: bf16
	// with tiles, i16g32 if integer pairs multiply faster than f32, otherwise
	// f32. State, which training rewrites, is multiplied in f32; callers that
	// train ask Training first.
	Auto Precision = "auto"
	// F32 computes every product in f32.
	F32 Precision = "f32"
	// BF16 rounds the operands of products with weights and with state to bf16
	// and sums in f32: on tiles if the processor has them, otherwise with f32
	// instructions, at half of the bytes. Attention is in bf16 on tiles only.
	BF16 Precision = "bf16"
	// I16G32 rounds the operands of products with weights to 16-bit integers with
	// one scale per 32; attention and other ops stay in f32. Auto selects it on
	// machines without tiles.
	I16G32 Precision = "i16g32"
	// I8G32 multiplies the file's own codes with activations that are quantized
	// in groups of 32, and sums in f32. Other weights are as in Auto. It changes
	// a small model's log likelihoods by several per cent. Therefore it is never
	// the default, and only tests and measurements use it.
	I8G32 Precision = "i8g32"
)

// ParsePrecision checks a precision's name; the empty one is Auto.
func ParsePrecision(s string) (Precision, error) {
	switch p := Precision(s); p {
	case "":
		return Auto, nil
	case Auto, F32, BF16:
		return p, nil
	}
	return Auto, fmt.Errorf("cpu: precision %q, expected f32, bf16 or auto", s)
}

// Training is the precision for training: Auto becomes bf16 with tiles, else f32.
func (p Precision) Training() Precision {
	switch {
	case p != Auto && p != "":
		return p
	case bf16.Tiles():
		return BF16
	}
	return F32
}

// class is the compute class of products, but for integers.
func (p Precision) class() Precision {
	switch p {
	case F32, I16G32:
		return F32
	case BF16:
		return BF16
	}
	if bf16.Tiles() {
		return BF16
	}
	return F32
}

// classOf is the compute class of products with weights of a storage type.
func (p Precision) classOf(d tensor.DType) Precision {
	switch {
	case p == I8G32 && int8.Takes(d), p == I16G32:
		return p
	case (p == Auto || p == "" || p == I8G32) && isa.Active() < isa.AMX && i16.Fast():
		return I16G32
	}
	return p.class()
}

// Class is the compute class of products with a weight of a role and a storage
// type, for more rows than a few.
func (p Precision) Class(role graph.Role, d tensor.DType) Precision {
	if role == graph.RoleRouter {
		return F32
	}
	return p.classOf(d)
}

// Attention is the compute class of attention. Without tiles that is f32: its
// factors change with each run, so rounding them would only cost.
func (p Precision) Attention() Precision {
	if !bf16.Tiles() {
		return F32
	}
	return p.class()
}
