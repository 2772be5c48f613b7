package gemm

import (
	"fmt"

	"hotpath/internal/kernel/isa"
)

// Packed is B laid out for the micro-kernel: [NumPanels][K][NR]. It belongs
// to the tier it was packed under.
type Packed struct {
	Data     []float32
	N, K, NR int
}

// PackedLen is the number of f32 values that Packed needs for [N, K] weights.
func PackedLen(n, k int) int { return NumPanels(n) * k * NR() }

// NewPacked wraps data (PackedLen values), to be filled by PackB or PackBT.
func NewPacked(data []float32, n, k int) Packed {
	if len(data) < PackedLen(n, k) {
		panic(fmt.Sprintf("gemm: packed buffer has %d values, expected %d", len(data), PackedLen(n, k)))
	}
	return Packed{Data: data, N: n, K: k, NR: NR()}
}

// Panel is a slice of Data.
func (b Packed) Panel(p, k0, k1 int, _ []float32) []float32 {
	return b.Data[(p*b.K+k0)*b.NR : (p*b.K+k1)*b.NR]
}

// PackB fills panels [p0, p1) from weights as models store them, w[N][ld]
// with K values a row: B is their transpose.
func (b Packed) PackB(w []float32, ld, p0, p1 int) {
	src := Rows{W: w, N: b.N, K: b.K, LD: ld}
	for p := p0; p < p1; p++ {
		src.Panel(p, 0, b.K, b.Panel(p, 0, b.K, nil))
	}
}

// PackBT fills panels [p0, p1) from B in its natural order, w[K][ld] with N
// values a row.
func (b Packed) PackBT(w []float32, ld, p0, p1 int) {
	src := Natural{W: w, N: b.N, K: b.K, LD: ld}
	for p := p0; p < p1; p++ {
		src.Panel(p, 0, b.K, b.Panel(p, 0, b.K, nil))
	}
}

// Unpack writes the weights back as w[N][ld]: the inverse of PackB.
func (b Packed) Unpack(w []float32, ld int) {
	for p := range NumPanels(b.N) {
		n0 := p * b.NR
		transpose(w[n0*ld:], b.Panel(p, 0, b.K, nil), ld, b.NR, b.K, min(b.NR, b.N-n0))
	}
}

// Natural is B in its natural order, W[K][LD] with N values a row; panels are
// copied when they are needed. Gradients of weights and of inputs use it.
type Natural struct {
	W        []float32
	N, K, LD int
}

// Panel copies rows [k0, k1) of NR columns into scratch.
func (b Natural) Panel(p, k0, k1 int, scratch []float32) []float32 {
	nr := NR()
	n0 := p * nr
	cols := min(nr, b.N-n0)
	dst := scratch[:(k1-k0)*nr]
	if k0 < k1 {
		copyPanel(dst, b.W[k0*b.LD+n0:], b.LD, k1-k0, cols)
	}
	return dst
}

// copyPanel copies rows of cols values, ld apart, into rows of NR, with zeros
// behind them.
func copyPanel(dst, src []float32, ld, rows, cols int) {
	tier := isa.Vector()
	nr := shapes[tier].nr
	if cols == nr && copyFast(tier, dst, src, ld, rows) {
		return
	}
	for r := range rows {
		row := dst[r*nr:][:nr]
		n := copy(row, src[r*ld:][:cols])
		clear(row[n:])
	}
}

// Rows is B given as weight rows, W[N][LD] with K values a row; panels are
// transposed when they are needed.
type Rows struct {
	W        []float32
	N, K, LD int
}

// Panel transposes columns [k0, k1) of NR rows into scratch.
func (b Rows) Panel(p, k0, k1 int, scratch []float32) []float32 {
	nr := NR()
	n0 := p * nr
	rows := min(nr, b.N-n0)
	dst := scratch[:(k1-k0)*nr]
	if rows < nr {
		clear(dst)
	}
	for k := k0; k < k1; k += unpackCols { // in pieces that stay in L1
		transpose(dst[(k-k0)*nr:], b.W[n0*b.LD+k:], nr, b.LD, rows, min(unpackCols, k1-k))
	}
	return dst
}
