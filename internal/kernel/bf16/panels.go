package bf16

import (
	"fmt"

	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

// Panels is the B operand of a Task, [K,N] cut into panels of NR columns.
type Panels interface {
	// Panel returns panel p as [K/32][2 tiles][16 pairs of k][16 columns][2],
	// zero where N or K end. It may build it in scratch, which holds as much.
	Panel(p int, scratch []uint16) []uint16
	// Wide is what gemm.Panels of the active tier return, of values rounded to
	// bf16, for products without tiles.
	Wide(p, k0, k1 int, scratch []float32) []float32
}

// Packed holds all panels of W[N,K]: the resident form of bf16 weights.
type Packed struct {
	Data []uint16
	N, K int
}

// PackedLen is the number of bf16 values that Packed needs.
func PackedLen(n, k int) int { return NumPanels(n) * NR * padK(k) }

// Pack fills data (PackedLen values) with the weights of src.
func Pack(data []uint16, src Panels, n, k int) *Packed {
	if len(data) < PackedLen(n, k) {
		panic(fmt.Sprintf("bf16: packed buffer has %d values, expected %d", len(data), PackedLen(n, k)))
	}
	p := &Packed{Data: data, N: n, K: k}
	for i := range NumPanels(n) {
		dst := p.Panel(i, nil)
		if b := src.Panel(i, dst); &b[0] != &dst[0] {
			copy(dst, b)
		}
	}
	return p
}

// Panel is a slice of Data.
func (p *Packed) Panel(i int, _ []uint16) []uint16 {
	size := NR * padK(p.K)
	return p.Data[i*size : (i+1)*size]
}

// PutRows packs rows [r0,r1) of W[N][ld] anew; both are multiples of NR, or N.
func (p *Packed) PutRows(w []float32, ld, r0, r1 int) {
	for r := r0; r < r1; r += NR {
		packRows(p.Panel(r/NR, nil), w[r*ld:], ld, min(NR, r1-r), p.K)
	}
}

// PutDepth packs rows [k0,k1) of B in its natural order, W[K][ld], anew: a part
// of the depth of every panel. Both are multiples of 32, or K.
func (p *Packed) PutDepth(w []float32, ld, k0, k1 int) {
	for i := range NumPanels(p.N) {
		n0 := i * NR
		packCols(p.Panel(i, nil)[k0*NR:], w[k0*ld+n0:], ld, min(NR, p.N-n0), k1-k0)
	}
}

// UnpackRow writes row n of the weights back, as they were rounded.
func (p *Packed) UnpackRow(w []float32, n int) {
	panel := p.Panel(n/NR, nil)
	for k := range w[:p.K] {
		w[k] = at(panel, k, n%NR)
	}
}

// Rows is B given as weight rows, W[N][LD] with K values a row.
type Rows struct {
	W        []float32
	N, K, LD int
}

// Panel rounds and transposes NR rows.
func (b *Rows) Panel(p int, scratch []uint16) []uint16 {
	n0 := p * NR
	packRows(scratch, b.W[n0*b.LD:], b.LD, min(NR, b.N-n0), b.K)
	return scratch
}

// Natural is B in its natural order, W[K][LD] with N values a row.
type Natural struct {
	W        []float32
	N, K, LD int
}

// Panel rounds NR columns.
func (b *Natural) Panel(p int, scratch []uint16) []uint16 {
	n0 := p * NR
	packCols(scratch, b.W[n0:], b.LD, min(NR, b.N-n0), b.K)
	return scratch
}

// Stored is weights as they lie in a file, decoded a panel at a time.
type Stored struct {
	W *gemm.Stored
	// buf has NR rows of storedCols decoded values; one worker at a time.
	buf []float32
	job unpackJob
}

// storedCols is the width of a decoded block, which stays in L1.
const storedCols = 128

// NewStored makes the view of one worker.
func NewStored(w *gemm.Stored) *Stored { return &Stored{W: w, buf: make([]float32, NR*storedCols)} }

// Panel decodes, rounds and transposes NR rows.
func (b *Stored) Panel(p int, scratch []uint16) []uint16 {
	if b.job.addPanel(b.W, p, scratch) {
		b.job.finish()
		return scratch
	}
	return b.wide(p, scratch)
}

// wide is Panel by way of f32.
func (b *Stored) wide(p int, scratch []uint16) []uint16 {
	n0 := p * NR
	rows := min(NR, b.W.N-n0)
	for k := 0; k < b.W.K; k += storedCols {
		cols := min(storedCols, b.W.K-k)
		b.W.Decode(b.buf, storedCols, n0, rows, k, cols)
		packRows(scratch[k*NR:padK(k+cols)*NR], b.buf, storedCols, rows, cols)
	}
	return scratch
}

// packRows makes a panel of rows x k weights, ld apart, with zeros around.
func packRows(dst []uint16, w []float32, ld, rows, k int) {
	tiles := isa.Active() >= isa.AMX
	for half := range 2 {
		n := max(0, min(16, rows-16*half))
		steps := 0
		if tiles && n == 16 {
			if steps = k / kStep; steps > 0 {
				packRowsFast(dst[half*512:], w[half*16*ld:], ld, steps)
			}
		}
		for s := steps; s < padK(k)/kStep; s++ {
			k0 := s * kStep
			cols := min(kStep, k-k0)
			tile := dst[(s*2+half)*512:][:512]
			if n == 0 {
				clear(tile)
				continue
			}
			var edge [16 * kStep]float32 // [row][k], zero where there is nothing
			for r := range n {
				copy(edge[r*kStep:][:cols], w[(half*16+r)*ld+k0:])
			}
			if tiles {
				packRowsFast(tile, edge[:], kStep, 1)
				continue
			}
			for i := range kStep {
				for r := range 16 {
					tile[i/2*32+r*2+i%2] = tensor.F32ToBF16(edge[r*kStep+i])
				}
			}
		}
	}
}

// packCols makes a panel of k x cols values in natural order.
func packCols(dst []uint16, w []float32, ld, cols, k int) {
	tiles := isa.Active() >= isa.AMX
	for half := range 2 {
		n := max(0, min(16, cols-16*half))
		steps := 0
		if tiles && n == 16 {
			if steps = k / kStep; steps > 0 {
				packColsFast(dst[half*512:], w[half*16:], ld, steps)
			}
		}
		for s := steps; s < padK(k)/kStep; s++ {
			k0 := s * kStep
			tile := dst[(s*2+half)*512:][:512]
			if n == 0 {
				clear(tile)
				continue
			}
			if tiles && n == 16 {
				packEnd(tile, w[k0*ld+half*16:], ld, k-k0)
				continue
			}
			var edge [kStep * 16]float32 // [k][column]
			for i := range min(kStep, k-k0) {
				copy(edge[i*16:][:n], w[(k0+i)*ld+half*16:])
			}
			if tiles {
				packColsFast(tile, edge[:], 16, 1)
				continue
			}
			for i := range kStep {
				for c := range 16 {
					tile[i/2*32+c*2+i%2] = tensor.F32ToBF16(edge[i*16+c])
				}
			}
		}
	}
}
