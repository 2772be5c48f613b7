package tensor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unsafe"
)

// ErrNoCodec reports a DType that has no conversion to and from float32.
var ErrNoCodec = errors.New("no codec for this encoding")

// codec is the reference conversion of one DType. Both functions get whole
// blocks and buffers of matching length: Dequantize and Quantize check that.
type codec struct {
	decode func(dst []float32, src []byte)
	// encode fails on values that the encoding cannot hold.
	encode func(dst []byte, src []float32) error
}

// A new encoding is one file with its two functions and one row here.
var codecs = [numDTypes]codec{
	F32:  {decodeF32, encodeF32},
	F16:  {decodeF16, encodeF16},
	BF16: {decodeBF16, encodeBF16},
	Q8_0: {decodeQ8_0, encodeQ8_0},
	Q4_1: {decodeQ4_1, encodeQ4_1},
}

// Dequantize decodes len(dst) elements from src, which must hold exactly
// those. It allocates nothing.
func Dequantize(dst []float32, d DType, src []byte) error {
	c, err := codecOf(d, len(dst), len(src))
	if err != nil {
		return err
	}
	c.decode(dst, src)
	return nil
}

// Quantize encodes src into dst, which must have exactly the room. Block
// encodings refuse values whose scale a half cannot hold, NaN and infinities
// among them. It allocates nothing unless it fails.
func Quantize(dst []byte, d DType, src []float32) error {
	c, err := codecOf(d, len(src), len(dst))
	if err != nil {
		return err
	}
	return c.encode(dst, src)
}

func codecOf(d DType, elems, bytes int) (codec, error) {
	if d >= numDTypes || codecs[d].decode == nil {
		return codec{}, fmt.Errorf("%s: %w", d, ErrNoCodec)
	}
	i := infos[d]
	if elems%i.BlockLen != 0 {
		return codec{}, fmt.Errorf("%s: %d elements, expected a multiple of %d", d, elems, i.BlockLen)
	}
	if want := elems / i.BlockLen; bytes%i.BlockBytes != 0 || bytes/i.BlockBytes != want {
		return codec{}, fmt.Errorf("%s: %d bytes for %d elements, expected %d", d, bytes, elems, want*i.BlockBytes)
	}
	return codecs[d], nil
}

// littleEndian machines, nearly all, hold F32 as the file does.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// bytesOf is the memory of x.
func bytesOf(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

func decodeF32(dst []float32, src []byte) {
	if littleEndian {
		copy(bytesOf(dst), src)
		return
	}
	for i := range dst {
		dst[i], src = math.Float32frombits(binary.LittleEndian.Uint32(src)), src[4:]
	}
}

func encodeF32(dst []byte, src []float32) error {
	if littleEndian {
		copy(dst, bytesOf(src))
		return nil
	}
	for _, v := range src {
		binary.LittleEndian.PutUint32(dst, math.Float32bits(v))
		dst = dst[4:]
	}
	return nil
}

func decodeF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i], src = F16ToF32(binary.LittleEndian.Uint16(src)), src[2:]
	}
}

func encodeF16(dst []byte, src []float32) error {
	for _, v := range src {
		binary.LittleEndian.PutUint16(dst, F32ToF16(v))
		dst = dst[2:]
	}
	return nil
}

func decodeBF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i], src = BF16ToF32(binary.LittleEndian.Uint16(src)), src[2:]
	}
}

func encodeBF16(dst []byte, src []float32) error {
	for _, v := range src {
		binary.LittleEndian.PutUint16(dst, F32ToBF16(v))
		dst = dst[2:]
	}
	return nil
}

// halfScale rounds the scale or the minimum of a block, and refuses one that
// would make the whole block infinite or NaN.
func halfScale(d DType, block int, v float32) (uint16, error) {
	h := F32ToF16(v)
	if h&0x7c00 == 0x7c00 {
		return 0, fmt.Errorf("%s: block %d: its scale is %g, expected a finite number that a half can hold", d, block, v)
	}
	return h, nil
}

// inverse is the factor from values to codes: 0 for a block of zeros and for
// one so small that 1/d overflows.
func inverse(d float32) float32 {
	if id := 1 / d; !math.IsInf(float64(id), 0) {
		return id
	}
	return 0
}
