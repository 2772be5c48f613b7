// Package cpu runs plans on the processor: one thread team a process that
// walks the step list side by side (fine), or whole runs side by side on
// serial sessions (coarse).
//
// Kernels are bound to steps by a table (kernels.go); an op without a row runs
// its reference implementation on one worker, so a new op works at once and
// gets fast later. The package implements plan.Backend and imports kernel/*;
// only whoever opens a model imports it.
package cpu

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/amx"
	"hotpath/internal/kernel/cpu"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/i16"
	"hotpath/internal/kernel/int8"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// Options configure a backend; the zero value uses every core.
type Options struct {
	// Workers is the size of a fine run; 0 means one a core that the process
	// may use. More workers than cores work, but nothing gets faster.
	Workers int
	// Precision asks for the compute class of products with weights.
	Precision Precision
	// Test keeps arenas on the Go heap, puts a barrier before each step and
	// fills buffers with NaN when they die.
	Test bool
	// What follows switches one optimisation off, to see what it is worth.
	// NoFusion publishes no patterns, NoPack keeps matrices as the file has
	// them, NoReuse lays every activation out in memory of its own.
	NoFusion, NoPack, NoReuse bool
}

// MaxWorkers bounds the team.
const MaxWorkers = cpu.MaxThreads

// Backend is the CPU.
type Backend struct {
	opts    Options
	workers int
	team    *team
	closed  bool
	ropes   ropeTables
	delays  atomic.Pointer[delays] // nil unless Delay was called
	packed  resident
}

// New starts, or joins, the process's team.
func New(o Options) (*Backend, error) {
	if err := cpu.Err(); err != nil {
		return nil, err
	}
	n := o.Workers
	if n == 0 {
		n = cpu.Threads()
	}
	if n < 1 || n > MaxWorkers {
		return nil, fmt.Errorf("cpu: %d workers, expected 1 to %d", n, MaxWorkers)
	}
	theTeam.acquire(n)
	return &Backend{opts: o, workers: n, team: theTeam}, nil
}

// Caps describes the CPU.
func (b *Backend) Caps() plan.Caps {
	return plan.Caps{Name: "cpu", Workers: b.workers, ByRows: true, NoReuse: b.opts.NoReuse, OwnScratch: ownScratch, Beside: b.besideBytes,
		Coarse: func(ctx context.Context, n int, f func(int)) error {
			return b.team.run(ctx, min(n, b.workers), f)
		}}
}

// Patterns are the fusions that kernels.go has kernels for.
func (b *Backend) Patterns() []plan.Pattern {
	if b.opts.NoFusion {
		return nil
	}
	return append(slices.Clip(patterns), plan.Pattern{Kind: "linear+linear", Root: graph.OpLinear, Siblings: b.beside})
}

// Arena maps memory off the Go heap.
func (b *Backend) Arena(_ plan.Class, bytes int64) (plan.Arena, error) {
	a, err := newArena(bytes, b.opts.Test)
	if err != nil {
		return nil, err // not a nil *arena inside the interface
	}
	return a, nil
}

// Close leaves the team; the last backend ends it.
func (b *Backend) Close() error {
	if !b.closed {
		b.closed = true
		b.team.release()
	}
	return nil
}

// weight is the one resident layout of a tensor: file rows, or panels for
// matrices that only products read.
type weight struct {
	dtype  tensor.DType
	rows   []byte       // nil where panels hold it
	panels *gemm.Packed // f32
	tiles  *amx.Packed  // bf16
	int8   *int8.Packed // the file's codes
	i16    *i16.Packed
}

// unpackRow widens row r of a packed matrix.
func (w *weight) unpackRow(dst []float32, r int) {
	switch {
	case w.tiles != nil:
		w.tiles.UnpackRow(dst, r)
	case w.int8 != nil:
		w.int8.UnpackRow(dst, r)
	case w.i16 != nil:
		w.i16.UnpackRow(dst, r)
	default:
		p := w.panels
		for k := range dst {
			dst[k] = p.Data[(r/p.NR*p.K+k)*p.NR+r%p.NR]
		}
	}
}

// Decoded reports whether runs make panels of the file's rows.
func (w *weight) Decoded() bool { return w.rows != nil }

func (w *weight) Bytes() int64 {
	switch {
	case w.panels != nil:
		return int64(len(w.panels.Data)) * 4
	case w.tiles != nil:
		return int64(len(w.tiles.Data)) * 2
	case w.int8 != nil:
		return int64(len(w.int8.Data))
	case w.i16 != nil:
		return w.i16.Bytes()
	}
	return int64(len(w.rows))
}

// Pack keeps rows as the file has them, except for matrices of floats that
// only linear steps read: those become panels of their compute class, and
// their pages are given back.
func (b *Backend) Pack(w plan.Weight, readers []*graph.Node) (plan.Packed, error) {
	if w.DType == tensor.F32 && len(w.Data) > 0 && uintptr(unsafe.Pointer(&w.Data[0]))%4 != 0 {
		w.Data = append(make([]byte, 0, len(w.Data)), w.Data...)
	}
	class := b.opts.Precision.Class(w.Value.Node.Leaf.Role, w.DType)
	if class == I8G32 && readBy(w.Value, readers, graph.OpLinear, graph.OpEmbed) {
		return b.packInt8(w)
	}
	if b.opts.NoPack || w.DType.Quantized() || !onlyProducts(w.Value, readers) || class == F32 && w.DType != tensor.F32 {
		return &weight{dtype: w.DType, rows: w.Data}, nil
	}
	n, k := w.Value.Shape.NumRows(tensor.Bind{}), w.Value.Shape.RowLen()
	if class == F32 {
		p := gemm.NewPacked(floats(b.packed.take(gemm.PackedLen(n, k)*4)), n, k)
		p.PackB(floats(w.Data), k, 0, gemm.NumPanels(n))
		w.Drop()
		return &weight{dtype: tensor.F32, panels: &p}, nil
	}
	stored, err := gemm.NewStored(w.Data, w.DType, n, k)
	if err != nil {
		return nil, err
	}
	if class == I16G32 {
		return b.packI16(w, stored)
	}
	mem := b.packed.take(amx.PackedLen(n, k) * 2)
	tiles := amx.Pack(unsafe.Slice((*uint16)(unsafe.Pointer(&mem[0])), len(mem)/2), amx.NewStored(stored), n, k)
	w.Drop()
	return &weight{dtype: w.DType, tiles: tiles}, nil
}

// packI16 makes 16-bit panels of float weights.
func (b *Backend) packI16(w plan.Weight, stored *gemm.Stored) (plan.Packed, error) {
	mem := b.packed.take(i16.PackedBytes(stored.N, stored.K))
	n := i16.PackedLen(stored.N, stored.K)
	codes := unsafe.Slice((*int16)(unsafe.Pointer(&mem[0])), n)
	p := i16.Pack(codes, floats(mem[2*n:]), stored)
	w.Drop()
	return &weight{dtype: w.DType, i16: p}, nil
}

// packInt8 lays the file's codes out for dot products, and gives the file's
// pages back: the same bytes, in another order.
func (b *Backend) packInt8(w plan.Weight) (plan.Packed, error) {
	n, k := w.Value.Shape.NumRows(tensor.Bind{}), w.Value.Shape.RowLen()
	stored, err := gemm.NewStored(w.Data, w.DType, n, k)
	if err != nil {
		return nil, err
	}
	size, err := int8.Len32(stored)
	if err != nil {
		return nil, err
	}
	p, err := int8.Pack32(b.packed.take(size), stored)
	if err != nil {
		return nil, err
	}
	w.Drop()
	return &weight{dtype: w.DType, int8: p}, nil
}

// onlyProducts reports whether every reader multiplies with v.
func onlyProducts(v *graph.Value, readers []*graph.Node) bool {
	return readBy(v, readers, graph.OpLinear)
}

// readBy reports whether v is only the matrix of ops of these kinds.
func readBy(v *graph.Value, readers []*graph.Node, ops ...*graph.OpDef) bool {
	for _, n := range readers {
		matrix := 1 // its operand of a product
		if n.Op == graph.OpEmbed {
			matrix = 0
		}
		if !slices.Contains(ops, n.Op) || n.In[matrix] != v {
			return false
		}
		for i, in := range n.In {
			if in == v && i != matrix {
				return false
			}
		}
	}
	return len(readers) > 0
}

// Bind picks a kernel for each step.
func (b *Backend) Bind(p *plan.Plan, m *plan.Memory, o plan.BindOptions) (plan.Exec, error) {
	n := b.workers
	if o.Workers > 0 {
		n = min(n, o.Workers)
	}
	if o.Serial {
		n = 1
	}
	e := &exec{be: b, plan: p, mem: m, workers: make([]worker, n), arrived: make([]arrival, n)}
	e.job = e.walk
	for i := range e.arrived {
		e.arrived[i].wake = make(chan struct{}, 1)
	}
	bd := &binder{be: b, plan: p, mem: m, workers: n, invariant: o.Invariant, roundings: map[*graph.Value]rounding{}}
	for i := range p.Steps {
		s := &p.Steps[i]
		make, ok := kernels[s.Kind]
		if !ok {
			make = bindReference
		}
		bd.step = s
		k, err := make(bd, s)
		if err != nil {
			return nil, fmt.Errorf("cpu: %s: %w", s.Name, err)
		}
		e.bound = append(e.bound, k)
	}
	for i := range e.workers {
		e.workers[i] = worker{lane: i, scratch: newScratch(bd)}
	}
	e.labelled, e.program = labelling.Load(), o.Program
	e.kernels = e.dressed(nil)
	e.claimed = make([]claims, len(e.kernels))
	for i := range e.claimed {
		e.claimed[i] = make(claims, n)
	}
	if b.opts.Test {
		e.dead = plan.Deaths(p)
	}
	return e, nil
}

// scratch is one worker's workspace, shared by all its steps.
type scratch struct {
	gemm    *gemm.Scratch
	tiles   *amx.Scratch      // nil where no product is in bf16
	few     *amx.FewScratch   // nil where no few rows run on tiles
	codes   *gemm.CodeScratch // nil where none multiply with codes
	one     oneRow
	int8    *int8.Scratch
	i16     *i16.Scratch
	head    *amx.Head  // nil where no attention runs in bf16
	heads   *amx.Heads // the same of short sequences
	headF32 *gemm.Head // nil where none runs in f32
	keys    []float32  // one block of one head, decoded
	values  []float32
	f       []float32 // as much as the hungriest step asked for
	// Operands of the product at hand; on the heap once, because a Task holds
	// them behind an interface.
	rows    gemm.Rows
	natural gemm.Natural
	cached  gemm.Stored // a run of a cache's rows
}

func newScratch(b *binder) *scratch {
	s := &scratch{gemm: gemm.NewScratch(nil), f: make([]float32, b.scratch)}
	if b.tileDepth > 0 {
		s.tiles = amx.NewScratch(b.tileDepth)
	}
	s.one.buf = make([]float32, gemm.XSumsLen(b.rowDepth))
	if b.fewDepth > 0 {
		s.few = amx.NewFewScratch(b.fewDepth)
	}
	if b.codeDepth > 0 {
		s.codes = gemm.NewCodeScratch(b.codeDepth)
	}
	if b.int8Depth > 0 {
		s.int8 = int8.NewScratch(b.int8Depth)
	}
	s.keys, s.values = make([]float32, b.keyRoom), make([]float32, b.keyRoom)
	if b.i16Depth > 0 {
		s.i16 = i16.NewScratch(b.i16Depth)
	}
	if b.headKeys > 0 {
		s.head, s.heads = amx.NewHead(b.headDim, b.headKeys), amx.NewHeads(b.headDim)
	}
	if b.f32Keys > 0 {
		s.headF32 = gemm.NewHead(b.f32Dim, b.f32Keys)
	}
	return s
}
