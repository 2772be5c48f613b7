package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"hotpath"
)

// element is what the numbers of a vector are written as.
type element struct {
	name  string // value of --quantize
	descr string // NumPy's name of it
	// width is the count of numbers that dim elements become.
	width func(dim int) int
	// numbers appends them in digits, separated by commas; raw in bytes, little-endian.
	numbers func(b []byte, v []float32) ([]byte, error)
	raw     func(b []byte, v []float32) []byte
	// scale is what the numbers are to be multiplied by; nil where they are the
	// elements themselves, or signs.
	scale func(v []float32) float32
}

// elements is the table of them, f32 first.
var elements = []*element{
	{"", "<f4", sameWidth, appendFloats, appendF32, nil},
	{"int8", "|i1", sameWidth, appendInt8Numbers, appendInt8, func(v []float32) float32 {
		return hotpath.QuantizeInt8(make([]int8, len(v)), v)
	}},
	{"binary", "|i1", bitWidth, appendSignedBits, func(b []byte, v []float32) []byte {
		for _, x := range bits(v) {
			b = append(b, x-128)
		}
		return b
	}, nil},
	{"ubinary", "|u1", bitWidth, appendBits, func(b []byte, v []float32) []byte { return append(b, bits(v)...) }, nil},
}

func findElement(name string) *element {
	if i := slices.IndexFunc(elements, func(e *element) bool { return e.name == name }); i >= 0 {
		return elements[i]
	}
	return nil
}

func sameWidth(dim int) int { return dim }
func bitWidth(dim int) int  { return (dim + 7) / 8 }

// appendFloats separates by commas, with the digits that give the same f32 back.
func appendFloats(b []byte, vector []float32) ([]byte, error) {
	for i, x := range vector {
		if i > 0 {
			b = append(b, ',')
		}
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return b, fmt.Errorf("the embedding has %v at position %d, expected a number", x, i)
		}
		b = strconv.AppendFloat(b, float64(x), 'g', -1, 32)
	}
	return b, nil
}

func appendF32(b []byte, v []float32) []byte {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func int8s(v []float32) []int8 {
	q := make([]int8, len(v))
	hotpath.QuantizeInt8(q, v)
	return q
}

func appendInt8(b []byte, v []float32) []byte {
	for _, x := range int8s(v) {
		b = append(b, byte(x))
	}
	return b
}

func appendInt8Numbers(b []byte, v []float32) ([]byte, error) { return appendInts(b, int8s(v), 0), nil }

func bits(v []float32) []byte {
	packed := make([]byte, bitWidth(len(v)))
	hotpath.QuantizeBinary(packed, v)
	return packed
}

func appendBits(b []byte, v []float32) ([]byte, error) { return appendInts(b, bits(v), 0), nil }

func appendSignedBits(b []byte, v []float32) ([]byte, error) {
	return appendInts(b, bits(v), 128), nil
}

func appendInts[T int8 | byte](b []byte, v []T, less int64) []byte {
	for i, x := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(x)-less, 10)
	}
	return b
}

// vectorFormat is a value of embed --format: how one answer is written.
type vectorFormat struct {
	name   string
	append func(b []byte, el *element, in text, e hotpath.Embedding) ([]byte, error)
	// fails appends what stands in place of an answer; nil where nothing can.
	fails func(b []byte, in text, err error) []byte
	// Files of this format can be gone on with: they are lines, or rows of one
	// size behind a header.
	lines, rows bool
	header      int
}

// npyHead is the size of an .npy file's header: room for any number of rows.
const npyHead = 128

// vectorFormats is the table of them, the default first.
var vectorFormats = []*vectorFormat{
	{name: "text", append: appendTextLine},
	{name: "json", append: appendRecord},
	{name: "jsonl", append: appendRecordLine, fails: appendFailure, lines: true},
	{name: "csv", append: appendCSV, lines: true},
	{name: "npy", append: appendRow, rows: true, header: npyHead},
	{name: "bin", append: appendRow, rows: true},
}

func findFormat(name string) *vectorFormat {
	return vectorFormats[slices.IndexFunc(vectorFormats, func(f *vectorFormat) bool { return f.name == name })]
}

func formatNames() []string {
	var out []string
	for _, f := range vectorFormats {
		out = append(out, f.name)
	}
	return out
}

// appendTextLine shows people that there is a vector and what it begins with.
func appendTextLine(b []byte, el *element, in text, e hotpath.Embedding) ([]byte, error) {
	numbers, err := el.numbers(nil, e.Vector) // all of it: what a number becomes may depend on the largest
	if err != nil {
		return b, err
	}
	var head strings.Builder
	for i, x := range strings.SplitN(string(numbers), ",", 5) {
		if f, err := strconv.ParseFloat(x, 32); err == nil && i < 4 {
			if el.name == "" {
				x = fmt.Sprintf("% .4f", f)
			}
			head.WriteString(x + " ")
		}
	}
	return fmt.Appendf(b, "%d: %s… (%d dimensions, %d tokens) %s\n", in.index, head.String(), len(e.Vector), e.Tokens, excerpt(in.body, 40)), nil
}

// appendRecord is {"index":0,"tokens":3,"embedding":[...]}, written without
// reflection: it is most of what a long file costs beside the model.
func appendRecord(b []byte, el *element, in text, e hotpath.Embedding) ([]byte, error) {
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(in.index), 10)
	b = append(b, `,"tokens":`...)
	b = strconv.AppendInt(b, int64(e.Tokens), 10)
	if e.Chunks > 1 {
		b = append(b, `,"chunks":`...)
		b = strconv.AppendInt(b, int64(e.Chunks), 10)
	}
	if e.Truncated {
		b = append(b, `,"truncated":true`...)
	}
	if el.scale != nil {
		b = append(b, `,"scale":`...)
		b = strconv.AppendFloat(b, float64(el.scale(e.Vector)), 'g', -1, 32)
	}
	b, err := el.numbers(append(b, `,"embedding":[`...), e.Vector)
	return appendCarried(append(b, "]}"...), in.carry), err
}

func appendRecordLine(b []byte, el *element, in text, e hotpath.Embedding) ([]byte, error) {
	b, err := appendRecord(b, el, in, e)
	return append(b, '\n'), err
}

// appendFailure is {"index":0,"error":"..."}.
func appendFailure(b []byte, in text, err error) []byte {
	message, _ := json.Marshal(oneLine(err.Error())) // a string always encodes
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(in.index), 10)
	b = append(append(append(b, failureMark...), message...), '}')
	return append(appendCarried(b, in.carry), '\n')
}

// failureMark follows the index of a record that is an error.
const failureMark = `,"error":`

// appendCSV is one line a text, numbers only.
func appendCSV(b []byte, el *element, _ text, e hotpath.Embedding) ([]byte, error) {
	b, err := el.numbers(b, e.Vector)
	return append(b, '\n'), err
}

// appendRow is a row of npy and bin.
func appendRow(b []byte, el *element, _ text, e hotpath.Embedding) ([]byte, error) {
	return el.raw(b, e.Vector), nil
}

// npyHeader fills npyHead bytes.
func npyHeader(el *element, rows, dim int) string {
	h := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%d, %d), }", el.descr, rows, el.width(dim))
	h += strings.Repeat(" ", npyHead-10-1-len(h)) + "\n"
	return "\x93NUMPY\x01\x00" + string(binary.LittleEndian.AppendUint16(nil, uint16(len(h)))) + h
}
