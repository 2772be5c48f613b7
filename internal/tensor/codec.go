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

// codec is the reference conversion of one DType. Its functions get whole
// blocks and buffers of matching length: Dequantize and Quantize check that.
type codec struct {
	// decode reads whole blocks. Encodings with blocks of 256 have group
	// instead, which reads 32 elements of one block, the g-th 32.
	decode func(dst []float32, src []byte)
	group  func(dst *[32]float32, block []byte, g int)
	// encode fails on values that the encoding cannot hold. weight is how much
	// the square error of each element counts, nil where all count alike;
	// encodings without a choice to make ignore it.
	encode func(dst []byte, src, weight []float32) error
}

// A new encoding is one file with its two functions and one row here.
var codecs = [numDTypes]codec{
	F32:    {decode: decodeF32, encode: encodeF32},
	F16:    {decode: decodeF16, encode: encodeF16},
	BF16:   {decode: decodeBF16, encode: encodeBF16},
	Q8_0:   {decode: decodeQ8_0, encode: encodeQ8_0},
	Q4_0:   {decode: decodeQ4_0, encode: encodeQ4_0},
	Q4_1:   {decode: decodeQ4_1, encode: encodeQ4_1},
	Q5_0:   {decode: decodeQ5_0, encode: encodeQ5_0},
	Q5_1:   {decode: decodeQ5_1, encode: encodeQ5_1},
	Q2_K:   {group: groupQ2_K, encode: encodeQ2_K},
	Q3_K:   {group: groupQ3_K, encode: encodeQ3_K},
	Q4_K:   {group: groupQ4_K, encode: encodeQ4_K},
	Q5_K:   {group: groupQ5_K, encode: encodeQ5_K},
	Q6_K:   {group: groupQ6_K, encode: encodeQ6_K},
	IQ4_NL: {decode: decodeIQ4_NL, encode: encodeIQ4_NL},
	IQ4_XS: {group: groupIQ4_XS, encode: encodeIQ4_XS},
	MXFP4:  {decode: decodeMXFP4, encode: encodeMXFP4},
}

// Dequantize decodes len(dst) elements from src, which must hold exactly
// those. It allocates nothing.
func Dequantize(dst []float32, d DType, src []byte) error {
	c, err := codecOf(d, len(dst), len(src))
	if err != nil {
		return err
	}
	if c.group == nil {
		c.decode(dst, src)
		return nil
	}
	c.groups(dst, d, src, 0)
	return nil
}

// DequantizeFrom decodes the len(dst) elements of src, whole blocks, from
// element first on. Both numbers are multiples of 32, or of the block where
// that is shorter, so that readers of long blocks need not hold them whole.
func DequantizeFrom(dst []float32, d DType, src []byte, first int) error {
	i := d.Info()
	if d >= numDTypes || codecs[d].encode == nil {
		return fmt.Errorf("%s: %w", d, ErrNoCodec)
	}
	step := min(i.BlockLen, 32)
	if first < 0 || first%step != 0 || len(dst)%step != 0 {
		return fmt.Errorf("%s: elements %d to %d, expected multiples of %d", d, first, first+len(dst), step)
	}
	if have := len(src) / i.BlockBytes * i.BlockLen; first > have || len(dst) > have-first {
		return fmt.Errorf("%s: elements %d to %d of %d", d, first, first+len(dst), have)
	}
	c := codecs[d]
	if c.group == nil {
		c.decode(dst, src[d.RowBytes(first):])
		return nil
	}
	c.groups(dst, d, src, first)
	return nil
}

// groups decodes the elements of long blocks from first on.
func (c codec) groups(dst []float32, d DType, src []byte, first int) {
	i := infos[d]
	for ; len(dst) > 0; dst, first = dst[32:], first+32 {
		block := src[first/i.BlockLen*i.BlockBytes:][:i.BlockBytes]
		c.group((*[32]float32)(dst), block, first%i.BlockLen/32)
	}
}

// Quantize encodes src into dst, which must have exactly the room. Block
// encodings refuse values whose scale they cannot hold, NaN and infinities
// among them. It allocates nothing unless it fails.
func Quantize(dst []byte, d DType, src []float32) error {
	return QuantizeWeighted(dst, d, src, nil)
}

// QuantizeWeighted encodes src so that the sum of weight[i] times the square
// error of element i is small. weight is nil or has a finite value, not
// negative, for every element; a block whose weights are all zero is encoded
// as if there were none.
func QuantizeWeighted(dst []byte, d DType, src, weight []float32) error {
	c, err := codecOf(d, len(src), len(dst))
	if err != nil {
		return err
	}
	if weight != nil {
		if len(weight) != len(src) {
			return fmt.Errorf("%s: %d weights for %d elements, expected one per element", d, len(weight), len(src))
		}
		for i, w := range weight {
			if !(w >= 0 && w <= math.MaxFloat32) {
				return fmt.Errorf("%s: weight %d is %g, expected a finite number of 0 or more", d, i, w)
			}
		}
	}
	return c.encode(dst, src, weight)
}

func codecOf(d DType, elems, bytes int) (codec, error) {
	if d >= numDTypes || codecs[d].encode == nil {
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

// Bytes is x as files have it in F32: the same memory, or a copy on machines whose
// bytes have another order.
func Bytes(x []float32) []byte {
	if littleEndian {
		return bytesOf(x)
	}
	var b []byte
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

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

func encodeF32(dst []byte, src, _ []float32) error {
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

func encodeF16(dst []byte, src, _ []float32) error {
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

func encodeBF16(dst []byte, src, _ []float32) error {
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
