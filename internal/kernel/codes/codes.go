// Package codes lays quantized weights out in panels of 16 rows, so that kernels
// read them as one stream and find a weight row in each lane of a vector. A
// panel has the bytes of its 16 rows in the file, in another order: nothing is
// rounded, and the file's rows can be had back.
//
// It imports tensor and kernel/isa. Shapes and sizes are checked by whoever opens a file;
// buffers that do not fit them are programming mistakes and panic.
package codes

import (
	"encoding/binary"
	"fmt"

	"hotpath/internal/tensor"
)

// Rows is the number of weight rows of a panel. The last panel of a matrix is
// filled up with rows of zeros.
const Rows = 16

// A panel holds, for each block of its type in order of columns, what follows.
// Every part has an entry per row, rows in order.
//
//	Q4_0  16 f16 d, codes of 32 columns
//	Q4_1  16 f16 d, 16 f16 m, codes of 32 columns
//	Q8_0  16 f16 d, 8 vectors of bytes
//	Q4_K  16 f16 d, 16 f16 dmin, 3 vectors of the 12 bytes of 6-bit scales and
//	      minima as the file has them, 8 times codes of 32 columns
//	Q6_K  16 f16 d, 4 vectors of the 16 scales, 8 times codes of 32 columns each
//	      followed by their high bits
//
// A vector is 64 bytes, a dword per row. Vector j of bytes has bytes 4j to 4j+3
// of each row. Codes of 32 columns are four vectors; vector j has the 4-bit codes
// c0 to c7 of columns 8j to 8j+7:
//
//	bits   0   4   8  12  16  20  24  28
//	code  c0  c2  c4  c6  c1  c3  c5  c7
//
// So words that are shifted right by 4s begin with the pair of codes 2s and 2s+1,
// and the low and the high nibbles of bytes are the quads (c0,c4,c1,c5) and
// (c2,c6,c3,c7). High bits of 32 columns are two vectors; vector h has those of
// columns 16h to 16h+15: bits 2q and 2q+1 of byte i belong to code i of quad q of
// the four quads of vectors 2h and 2h+1.
//
// layout is the size of that.
type layout struct {
	values int // of a row in a block
	bytes  int // of a block of 16 rows
	file   int // of a block of one row in the file
	scales int // bytes at the beginning that are f16 numbers
	limit  int // bits of the largest such number with which all weights of its block are finite in f16; 0: none
	// pack moves row r of a block from the file's form into a panel's, unpack
	// back.
	pack   func(dst, src []byte, r int)
	unpack func(dst, src []byte, r int)
}

var layouts = [1 << 8]*layout{
	tensor.Q4_0: {32, 288, 18, halves, 0x6bff, packQ4_0, unpackQ4_0},
	tensor.Q4_1: {32, 320, 20, 2 * halves, 0x6bff, packQ4_1, unpackQ4_1},
	tensor.Q8_0: {32, 544, 34, halves, 0x5fff, packQ8_0, unpackQ8_0},
	tensor.Q4_K: {256, 2304, 144, 0, 0, packQ4_K, unpackQ4_K},
	tensor.Q6_K: {256, 3360, 210, 0, 0, packQ6_K, unpackQ6_K},
}

// Types are the storage types that have panels.
func Types() []tensor.DType {
	return []tensor.DType{tensor.Q4_0, tensor.Q4_1, tensor.Q8_0, tensor.Q4_K, tensor.Q6_K}
}

// Has reports whether there are panels for a storage type.
func Has(d tensor.DType) bool { return layouts[d] != nil }

// PanelBytes is the size of one panel of k columns.
func PanelBytes(d tensor.DType, k int) int { return k / layouts[d].values * layouts[d].bytes }

// Bytes is the size of the panels of n rows of k columns.
func Bytes(d tensor.DType, n, k int) int { return NumPanels(n) * PanelBytes(d, k) }

// NumPanels is the number of panels of n rows.
func NumPanels(n int) int { return (n + Rows - 1) / Rows }

// Pack makes panels [p0,p1) of src, n rows of k columns as the file has them; dst
// and src begin with the first row of the matrix. dst is zeroed before.
func Pack(dst, src []byte, d tensor.DType, n, k, p0, p1 int) {
	l := layouts[d]
	size, row := PanelBytes(d, k), d.RowBytes(k)
	if k%l.values != 0 || p0 < 0 || p1 > NumPanels(n) || len(dst) < p1*size || len(src) < n*row {
		panic(fmt.Sprintf("codes: panels %d..%d of [%d,%d] %v from %d bytes into %d", p0, p1, n, k, d, len(src), len(dst)))
	}
	for p := p0; p < p1; p++ {
		panel := dst[p*size:][:size]
		if (p+1)*Rows <= n && fast(d, true, src[p*Rows*row:], row, panel, k/l.values) {
			continue
		}
		for r := range min(Rows, n-p*Rows) {
			from := src[(p*Rows+r)*row:][:row]
			for b := range k / l.values {
				l.pack(panel[b*l.bytes:][:l.bytes], from[b*l.file:][:l.file], r)
			}
		}
	}
}

// Unpack writes columns [k0,k1), whole blocks, of rows [n0,n1) as the file has
// them, row behind row; src is the panels of the matrix, of k columns.
func Unpack(dst, src []byte, d tensor.DType, k, n0, n1, k0, k1 int) {
	l, size := layouts[d], PanelBytes(d, k)
	first, blocks := k0/l.values, (k1-k0)/l.values
	for n := n0; n < n1; {
		part := src[n/Rows*size+first*l.bytes:][:blocks*l.bytes]
		if n%Rows == 0 && n+Rows <= n1 && fast(d, false, dst, blocks*l.file, part, blocks) {
			dst = dst[Rows*blocks*l.file:]
			n += Rows
			continue
		}
		for b := range blocks {
			l.unpack(dst[:l.file], part[b*l.bytes:][:l.bytes], n%Rows)
			dst = dst[l.file:]
		}
		n++
	}
}

// half is a number of 16 bits of row r, the r-th one of a part.
func half(part []byte, r int) []byte { return part[2*r:][:2] }

// dword is row r's of a vector.
func dword(vector []byte, r int) []byte { return vector[4*r:][:4] }

const (
	halves = 2 * Rows // bytes of a number of 16 bits per row
	vector = 4 * Rows // bytes of a dword per row
	nibble = 4 * vector
)

func packQ4_0(dst, src []byte, r int) {
	copy(half(dst, r), src)
	packHalves(dst[halves:], src[2:18], r)
}

func unpackQ4_0(dst, src []byte, r int) {
	copy(dst, half(src, r))
	unpackHalves(dst[2:18], src[halves:], r)
}

func packQ4_1(dst, src []byte, r int) {
	copy(half(dst, r), src)
	copy(half(dst[halves:], r), src[2:])
	packHalves(dst[2*halves:], src[4:20], r)
}

func unpackQ4_1(dst, src []byte, r int) {
	copy(dst, half(src, r))
	copy(dst[2:], half(src[halves:], r))
	unpackHalves(dst[4:20], src[2*halves:], r)
}

func packQ8_0(dst, src []byte, r int) {
	copy(half(dst, r), src)
	packBytes(dst[halves:], src[2:34], r)
}

func unpackQ8_0(dst, src []byte, r int) {
	copy(dst, half(src, r))
	unpackBytes(dst[2:34], src[halves:], r)
}

func packQ4_K(dst, src []byte, r int) {
	copy(half(dst, r), src)
	copy(half(dst[halves:], r), src[2:])
	packBytes(dst[2*halves:], src[4:16], r)
	for g := range 8 {
		packNibbles(dst[2*halves+3*vector+g*nibble:], src[16+32*(g/2):], 4*(g%2), r)
	}
}

func unpackQ4_K(dst, src []byte, r int) {
	copy(dst, half(src, r))
	copy(dst[2:], half(src[halves:], r))
	unpackBytes(dst[4:16], src[2*halves:], r)
	clear(dst[16:144])
	for g := range 8 {
		unpackNibbles(dst[16+32*(g/2):], src[2*halves+3*vector+g*nibble:], 4*(g%2), r)
	}
}

// sixths is the bytes of 32 columns of Q6_K.
const sixths = nibble + 2*vector

func packQ6_K(dst, src []byte, r int) {
	copy(half(dst, r), src[208:])
	packBytes(dst[halves:], src[192:208], r)
	for g := range 8 {
		part, h, at := dst[halves+4*vector+g*sixths:], g/4, g%4
		packNibbles(part, src[64*h+32*(at%2):], 4*(at/2), r)
		for v := range 2 {
			high := src[128+32*h+16*v:][:16]
			first, second := binary.LittleEndian.Uint64(high)>>(2*at), binary.LittleEndian.Uint64(high[8:])>>(2*at)
			binary.LittleEndian.PutUint32(dword(part[nibble+v*vector:], r), eight(first&pairs, 2)|eight(second&pairs, 2)<<4)
		}
	}
}

func unpackQ6_K(dst, src []byte, r int) {
	clear(dst[:192])
	copy(dst[208:], half(src, r))
	unpackBytes(dst[192:208], src[halves:], r)
	for g := range 8 {
		part, h, at := src[halves+4*vector+g*sixths:], g/4, g%4
		unpackNibbles(dst[64*h+32*(at%2):], part, 4*(at/2), r)
		for v := range 2 {
			w := binary.LittleEndian.Uint32(dword(part[nibble+v*vector:], r))
			high := dst[128+32*h+16*v:][:16]
			merge(high, bytesOf(w&0x0f0f0f0f, 2)&pairs, 2*at)
			merge(high[8:], bytesOf(w>>4&0x0f0f0f0f, 2)&pairs, 2*at)
		}
	}
}

// merge puts 8 codes to a bit of as many bytes.
func merge(dst []byte, q uint64, shift int) {
	binary.LittleEndian.PutUint64(dst, binary.LittleEndian.Uint64(dst)|q<<shift)
}

// packBytes writes dwords of a row to as many vectors.
func packBytes(dst, src []byte, r int) {
	for j := range len(src) / 4 {
		copy(dword(dst[j*vector:], r), src[4*j:])
	}
}

func unpackBytes(dst, src []byte, r int) {
	for j := range len(dst) / 4 {
		copy(dst[4*j:], dword(src[j*vector:], r))
	}
}

// The lowest 4 and the lowest 2 bits of bytes.
const (
	nibbles = 0x0f0f0f0f0f0f0f0f
	pairs   = 0x0303030303030303
)

// eight makes the dword of 8 codes of a number of bits, a byte each.
func eight(q uint64, bits int) uint32 {
	q |= q >> (16 - bits) // c0 c2, c1 c3, -, -, c4 c6, c5 c7
	return uint32(q&0xff | q>>24&0xff00 | q<<8&0xff0000 | q>>16&0xff000000)
}

// bytesOf is the inverse of eight, but for what is above the codes.
func bytesOf(w uint32, bits int) uint64 {
	q := uint64(w)
	q = q&0xff | q<<24&0xff00000000 | q>>8&0xff00 | q<<16&0xff0000000000
	return q | q<<(16-bits)
}

// packNibbles writes 32 codes that begin at a bit of as many bytes.
func packNibbles(dst, src []byte, shift, r int) {
	for j := range 4 {
		q := binary.LittleEndian.Uint64(src[8*j:]) >> shift
		binary.LittleEndian.PutUint32(dword(dst[j*vector:], r), eight(q&nibbles, 4))
	}
}

func unpackNibbles(dst, src []byte, shift, r int) {
	for j := range 4 {
		merge(dst[8*j:], bytesOf(binary.LittleEndian.Uint32(dword(src[j*vector:], r)), 4)&nibbles, shift)
	}
}

// packHalves writes 32 codes whose first half are the low nibbles of 16 bytes
// and whose second half are the high ones.
func packHalves(dst, src []byte, r int) {
	for j := range 2 {
		q := binary.LittleEndian.Uint64(src[8*j:])
		binary.LittleEndian.PutUint32(dword(dst[j*vector:], r), eight(q&nibbles, 4))
		binary.LittleEndian.PutUint32(dword(dst[(2+j)*vector:], r), eight(q>>4&nibbles, 4))
	}
}

func unpackHalves(dst, src []byte, r int) {
	for j := range 2 {
		low := bytesOf(binary.LittleEndian.Uint32(dword(src[j*vector:], r)), 4) & nibbles
		high := bytesOf(binary.LittleEndian.Uint32(dword(src[(2+j)*vector:], r)), 4) & nibbles
		binary.LittleEndian.PutUint64(dst[8*j:], low|high<<4)
	}
}
