package gemm

import (
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"hotpath/internal/kernel/codes"
	"hotpath/internal/tensor"
)

// Stored is weights in their storage type: N rows of K values, as they lie in a
// file, RowBytes apart, or in panels of codes. As the B operand of a Task it is W transposed, decoded a panel at a
// time; GemvRows multiplies it with one vector.
type Stored struct {
	Data     []byte
	DType    tensor.DType
	N, K     int
	RowBytes int
	// InPanels says that Data is the panels of package codes.
	InPanels bool
	// Halves says of panels that codes.Halves holds for them.
	Halves bool
}

// NewStored checks that data holds n rows of k values of type d.
func NewStored(data []byte, d tensor.DType, n, k int) (*Stored, error) {
	if !slices.Contains(tensor.Codecs(), d) {
		return nil, fmt.Errorf("gemm: weights of type %v, expected floats or a block encoding", d)
	}
	if n < 0 || k < 0 || k%d.Info().BlockLen != 0 {
		return nil, fmt.Errorf("gemm: weights [%d, %d] of type %v, expected whole blocks of %d", n, k, d, d.Info().BlockLen)
	}
	rb := d.RowBytes(k)
	if rb > 0 && len(data)/rb < n {
		return nil, fmt.Errorf("gemm: %d bytes for [%d, %d] of type %v, expected %d", len(data), n, k, d, n*rb)
	}
	return &Stored{Data: data, DType: d, N: n, K: k, RowBytes: rb}, nil
}

// NewPanels checks that data holds the panels of n rows of k values of type d.
func NewPanels(data []byte, d tensor.DType, n, k int) (*Stored, error) {
	if !codes.Has(d) {
		return nil, fmt.Errorf("gemm: panels of type %v, which has none", d)
	}
	w, err := NewStored(data, d, n, k)
	if err != nil {
		return nil, err
	}
	if want := codes.Bytes(d, n, k); len(data) < want {
		return nil, fmt.Errorf("gemm: %d bytes for panels of [%d, %d] of type %v, expected %d", len(data), n, k, d, want)
	}
	w.InPanels = true
	return w, nil
}

// UnpackedLen is the memory in which Unpacked finds rows x cols values of any
// type with panels.
func UnpackedLen(rows, cols int) int {
	return rows * tensor.Q8_0.RowBytes((cols+2*longest-1)/longest*longest)
}

// longest is the number of values of the longest blocks that have panels.
const longest = 256

// Unpacked is a part of w as the file has it, and the column of that part where
// column k is: rows [n0, n0+rows) and the blocks that hold columns [k, k+cols).
// It is made in buf where w is in panels.
func (w *Stored) Unpacked(buf []byte, n0, rows, k, cols int) (Stored, int) {
	length := w.DType.Info().BlockLen
	from, to := k/length*length, (k+cols+length-1)/length*length
	part := Stored{DType: w.DType, N: rows, K: to - from, RowBytes: w.RowBytes}
	if !w.InPanels {
		part.Data = w.Data[n0*w.RowBytes+w.DType.RowBytes(from):]
		return part, k - from
	}
	part.RowBytes = w.DType.RowBytes(part.K)
	part.Data = buf[:rows*part.RowBytes]
	codes.Unpack(part.Data, w.Data, w.DType, w.K, n0, n0+rows, from, to)
	return part, k - from
}

// part is the bytes of columns [k0, k1) of row n; whole blocks only.
func (w *Stored) part(n, k0, k1 int) []byte {
	row := w.Data[n*w.RowBytes:] // the last row of a head of a cache ends early
	return row[w.DType.RowBytes(k0):w.DType.RowBytes(k1)]
}

const (
	unpackCols = 64 // width of a decoded block: it stays in L1 with the part of the panel that it becomes
	unpackLD   = unpackCols + 8
)

// UnpackLen is the workspace that Panel finds behind its result in scratch:
// rows decoded but not yet transposed.
const UnpackLen = maxNR * unpackLD

// Panel decodes columns [k0, k1) of NR rows and transposes them into scratch.
func (w *Stored) Panel(p, k0, k1 int, scratch []float32) []float32 {
	nr := NR()
	n0 := p * nr
	rows := min(nr, w.N-n0)
	dst := scratch[:(k1-k0)*nr]
	if w.DType == tensor.F32 {
		if v, ok := floats(w.Data); ok {
			return Rows{W: v, N: w.N, K: w.K, LD: w.K}.Panel(p, k0, k1, scratch)
		}
	}
	if rows < nr {
		clear(dst)
	}
	tmp := scratch[len(dst):][:UnpackLen] // [nr][unpackLD]
	for k := k0; k < k1; k += unpackCols {
		cols := min(unpackCols, k1-k)
		w.Decode(tmp, unpackLD, n0, rows, k, cols)
		transpose(dst[(k-k0)*nr:], tmp, nr, unpackLD, rows, cols)
	}
	return dst
}

// Decode leaves columns [k, k+cols) of rows from n0 on in dst, ld apart.
func (w *Stored) Decode(dst []float32, ld, n0, rows, k, cols int) {
	if w.InPanels {
		w.decodePanels(dst, ld, n0, rows, k, cols)
	} else {
		w.decodeRows(dst, ld, n0, rows, k, cols)
	}
}

// decodeRows is Decode for the file's rows.
func (w *Stored) decodeRows(dst []float32, ld, n0, rows, k, cols int) {
	if w.DType.Info().BlockLen > 32 && k%span == 0 && cols%span == 0 && w.decodeLong(dst, ld, n0, rows, k, cols) {
		return
	}
	src := w.Data[n0*w.RowBytes+w.DType.RowBytes(k):]
	full := dequantRows(dst, w.DType, src, ld, w.RowBytes, cols, rows)
	if full == cols {
		return
	}
	for r := range rows {
		if err := tensor.DequantizeFrom(dst[r*ld+full:][:cols-full], w.DType, w.part(n0+r, 0, w.K), k+full); err != nil {
			panic(err)
		}
	}
}

// unpackedRows and unpackedCols are the part of a panel that is unpacked at a time.
const (
	unpackedRows = codes.Rows
	unpackedCols = longest
)

type unpackedBuf [unpackedRows * (unpackedCols / 32) * 34]byte

// unpacked lends buffers for parts of panels.
var unpacked = sync.Pool{New: func() any { return new(unpackedBuf) }}

// decodePanels is Decode for panels: by way of the file's rows.
func (w *Stored) decodePanels(dst []float32, ld, n0, rows, k, cols int) {
	buf := unpacked.Get().(*unpackedBuf)
	defer unpacked.Put(buf)
	for end := k + cols; k < end; {
		next := min(end, (k/unpackedCols+1)*unpackedCols)
		for r := 0; r < rows; {
			height := min(rows-r, unpackedRows-(n0+r)%unpackedRows)
			part, at := w.Unpacked(buf[:], n0+r, height, k, next-k)
			part.decodeRows(dst[r*ld:], ld, 0, height, at, next-k)
			r += height
		}
		dst = dst[min(len(dst), next-k):]
		k = next
	}
}

// span is the number of values that kernels for long blocks decode together.
const span = 64

// StoredT is Stored weights W[N,K] as the B operand [K'=N, N'=K]: what the
// gradient of the input multiplies with when the base is frozen.
type StoredT struct{ W *Stored }

// Panel decodes NR columns of rows [k0, k1) into scratch; it decodes whole
// blocks of 32 columns and keeps what the panel needs.
func (b StoredT) Panel(p, k0, k1 int, scratch []float32) []float32 {
	w := b.W
	nr := NR()
	n0 := p * nr
	cols := min(nr, w.K-n0)
	dst := scratch[:(k1-k0)*nr]
	if cols < nr {
		clear(dst)
	}
	bl := min(w.DType.Info().BlockLen, 32)
	from := n0 / bl * bl
	to := (n0 + cols + bl - 1) / bl * bl
	tmp := scratch[len(dst):][:UnpackLen] // [maxNR][unpackLD]
	for k := k0; k < k1; k += maxNR {
		rows := min(maxNR, k1-k)
		w.Decode(tmp, unpackLD, k, rows, from, to-from)
		for r := range rows {
			copy(dst[(k-k0+r)*nr:][:cols], tmp[r*unpackLD+n0-from:])
		}
	}
	return dst
}

// Dequantize decodes len(dst) values, which src must hold exactly; anything
// else is a programming mistake and panics. Its results are those of
// tensor.Dequantize, bit for bit, under every tier.
func Dequantize(dst []float32, d tensor.DType, src []byte) {
	if d == tensor.F32 {
		if v, ok := floats(src); ok && len(v) == len(dst) {
			copy(dst, v)
			return
		}
	}
	if d.Info().BlockLen > 32 && len(dst) > 0 && len(dst)%d.Info().BlockLen == 0 && len(src) == d.RowBytes(len(dst)) {
		w := Stored{Data: src, DType: d, N: 1, K: len(dst), RowBytes: len(src)}
		w.Decode(dst, 0, 0, 1, 0, len(dst))
		return
	}
	full := 0
	if len(src) == d.RowBytes(len(dst)) {
		full = dequantRows(dst, d, src, 0, 0, len(dst), 1)
	}
	if full < len(dst) {
		if err := tensor.Dequantize(dst[full:], d, src[d.RowBytes(full):]); err != nil {
			panic(err)
		}
	}
}

// floats views bytes as f32 values where their address allows it.
func floats(b []byte) ([]float32, bool) {
	if len(b) == 0 {
		return nil, true
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(p)%4 != 0 || !littleEndian {
		return nil, false
	}
	return unsafe.Slice((*float32)(p), len(b)/4), true
}

var littleEndian = func() bool {
	x := uint16(1)
	return *(*byte)(unsafe.Pointer(&x)) == 1
}()
