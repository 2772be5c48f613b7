package bf16

import (
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/isa"
)

// unpackJob makes panels of weights in their storage type a tile at a time: at once, or, for
// the panel that comes next, between the steps of a product.
type unpackJob struct {
	units    int // tiles that are left
	kind     int
	rowBytes int
	steps    int // of 32 of K in a row
	left     int // of them in this half of a panel
	//lint:ignore U1000 counted by assembly
	src, dst int // bytes of it that are done with
	half     int // bytes from halves to this one
	halves   [4]struct {
		src *byte
		dst *uint16
	}
	rows [16]uint32 // where the rows of a half begin
	//lint:ignore U1000 counted by assembly
	step int // steps of a long block that are done with, times 32
	//lint:ignore U1000 kept by assembly
	scales [6][16]float32 // what the steps of a long block have in common
	next   uintptr        // the code of the next part of a tile
	//lint:ignore U1000 kept by assembly
	busy, tile uintptr // whether parts of a tile are done, and where it goes
}

// Unpacks reports whether panels of w become tiles without a detour through f32.
func Unpacks(w *gemm.Stored) bool {
	_, ok := unpackKind(w)
	return ok && w.N >= NR && isa.Active() >= isa.AMX
}

// unpackKind is the number of w's type, in panels of codes or not, in the
// assembly.
func unpackKind(w *gemm.Stored) (int, bool) {
	kinds := unpackKinds
	if w.InPanels {
		kinds = panelKinds
	}
	kind, ok := kinds[w.DType]
	return kind, ok
}

// idle is the job of products that have nothing to unpack.
var idle unpackJob

// addPanel takes on panel p of w, into dst, after what it has; false where it cannot:
// the type has no such way, the panel is not whole, or what it has is of
// another shape.
func (j *unpackJob) addPanel(w *gemm.Stored, p int, dst []uint16) bool {
	kind, ok := unpackKind(w)
	steps := w.K / kStep
	if !ok || steps == 0 || (p+1)*NR > w.N || isa.Active() < isa.AMX {
		return false
	}
	if j.units == 0 {
		*j = unpackJob{kind: kind, rowBytes: w.RowBytes, steps: steps, left: steps, next: unpackFirst(kind)}
		for r := range j.rows {
			j.rows[r] = uint32(r * w.RowBytes)
		}
	} else if j.kind != kind || j.steps != steps || j.units > 2*steps || j.left != steps || j.half != 0 {
		return false
	}
	// A panel of codes has the bytes of its rows.
	_, _ = dst[steps*1024-1], w.Data[(p+1)*NR*w.RowBytes-1]
	for h := range 2 {
		to := &j.halves[j.units/steps]
		to.src, to.dst = &w.Data[(p*NR+16*h)*w.RowBytes], &dst[512*h]
		j.units += steps
	}
	return true
}

// finish does what is left.
func (j *unpackJob) finish() {
	if j.units > 0 {
		unpackFast(j)
	}
}

// ahead are the panels of an operand, each made while the one before is
// multiplied with, where its type allows that.
type ahead struct {
	b       Panels
	stored  *gemm.Stored // of b, where it is weights in their storage type
	buf     [2][]uint16  // where panels are made, in turn
	next    int          // the panel in buf[next%2], or on its way there
	pending bool
}

// panel is panel p; it is no longer needed when panel p+1 is asked for.
func (a *ahead) panel(p int) []uint16 {
	if a.pending && a.next == p {
		a.pending = false
		return a.buf[p%2]
	}
	return a.b.Panel(p, a.buf[p%2])
}

// prepare lets j make panel p.
func (a *ahead) prepare(j *unpackJob, p int) {
	if a.stored != nil && j.addPanel(a.stored, p, a.buf[p%2]) {
		a.next, a.pending = p, true
	}
}

// begin walks the panels of b, whose buffers are as large as one.
func (a *ahead) begin(b Panels, size int) {
	a.b, a.stored, a.pending = b, nil, false
	if s, ok := b.(*Stored); ok {
		a.stored = s.W
	}
	for i := range a.buf {
		a.buf[i] = a.buf[i][:size]
	}
}
