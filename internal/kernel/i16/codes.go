package i16

import (
	"encoding/binary"
	"math"

	"hotpath/internal/tensor"
)

// quantizer makes codes of rows of whole groups, one scale a group. Rows of
// codes lie behind each other; scales of a row lie stride apart, those of rows
// beside each other.
type quantizer struct {
	rows, groups int
	lds          int // of the values
	stride       int
	limit        float32
}

// tiny is 2^-100: a group whose largest value is smaller counts as nothing.
const tiny = 0x1p-100

// generic is the twin in plain Go.
func (q *quantizer) generic(dst []int16, src, scales []float32) {
	inverse := 1 / q.limit
	for r := range q.rows {
		for g := range q.groups {
			x := src[r*q.lds+g*Group:][:Group]
			var largest uint32 // of the bits, where a NaN is greatest
			for _, v := range x {
				largest = max(largest, math.Float32bits(v)&0x7fffffff)
			}
			m := math.Float32frombits(max(largest, math.Float32bits(tiny)))
			scales[g*q.stride+r] = m * inverse
			inv := q.limit / m
			codes := dst[(r*q.groups+g)*Group:]
			for i, v := range x {
				c := math.RoundToEven(float64(v * inv))
				if !(math.Abs(c) <= float64(q.limit)) { // a NaN, whose scale says so
					c = -32768
				}
				codes[i] = int16(c)
			}
		}
	}
}

// widener takes the codes of rows of Q8_0: blocks of an f16 scale and 32 codes.
// Scales of a row lie NR apart, those of rows beside each other.
type widener struct {
	rows, groups  int
	ldd, rowBytes int
}

// generic is the twin in plain Go.
func (w *widener) generic(dst []int16, src []byte, scales []float32) {
	for r := range w.rows {
		for g := range w.groups {
			block := src[r*w.rowBytes+g*34:][:34]
			scales[g*NR+r] = tensor.F16ToF32(binary.LittleEndian.Uint16(block))
			for i, c := range block[2:] {
				dst[r*w.ldd+g*Group+i] = int16(int8(c))
			}
		}
	}
}
