// Package cpu runs plans on the processor with one team of threads per process.
// In fine mode the workers share the steps of one run. In coarse mode each worker
// has whole runs on a serial session of its own.
//
// A table (kernels.go) binds kernels to steps. An op without a row runs its
// reference implementation on one worker, so a new op works at once and can be
// made fast later. The package implements plan.Backend and imports kernel/*. Only
// packages that open a model import it.
package cpu

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/limit"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// Options configure a backend; the zero value uses every core.
type Options struct {
	// Workers is the number of workers of a fine run; 0: one per core that the
	// process may use. More workers than cores are allowed, but not faster.
	Workers int
	// Precision selects the compute class of products with weights.
	Precision Precision
	// InPlace reads quantized weights directly from the mapped file instead of
	// packing them. It is slower. It is for models that do not fit in memory
	// twice, as packing requires.
	InPlace bool
	// Test keeps arenas on the Go heap, puts a barrier before each step and
	// fills buffers with NaN when they die.
	Test bool
	// Each of these switches one optimisation off, to measure its benefit.
	// NoFusion publishes no patterns, NoPack keeps matrices as in the file,
	// NoReuse gives every activation memory of its own.
	NoFusion, NoPack, NoReuse bool
	// ChunkRows is how many rows of logits a training step computes at a time; 0:
	// as many as are fast and save memory.
	ChunkRows int
}

// MaxWorkers bounds the team.
const MaxWorkers = isa.MaxThreads

// Backend is the CPU.
type Backend struct {
	opts    Options
	workers int
	team    *team
	closed  bool
	ropes   ropeTables
	delays  atomic.Pointer[delays] // nil unless Delay was called
	packed  resident
	probers probers
}

// New starts, or joins, the process's team.
func New(o Options) (*Backend, error) {
	if err := isa.Err(); err != nil {
		return nil, err
	}
	n := o.Workers
	if n == 0 {
		n = isa.Threads()
	}
	if n < 1 || n > MaxWorkers {
		return nil, fmt.Errorf("cpu: %d workers, expected 1 to %d", n, MaxWorkers)
	}
	theTeam.acquire(n)
	return &Backend{opts: o, workers: n, team: theTeam}, nil
}

// Caps describes the CPU.
func (b *Backend) Caps() plan.Caps {
	c := plan.Caps{Name: "cpu", Workers: b.workers, NoReuse: b.opts.NoReuse, OwnScratch: ownScratch, Buckets: buckets, Chunk: b.chunk,
		Coarse: func(ctx context.Context, n int, f func(int)) error {
			return b.team.join(ctx, min(n, b.workers), f)
		}}
	if !b.opts.NoFusion {
		c.Merges = merges
	}
	return c
}

// buckets are the maximum row counts of smaller plans: single rows; rows that are
// few enough to merge steps; and runs that use so little memory that a compact
// layout helps.
var buckets = []int{1, mergedRows, 64}

// Supports is true for every node: a node without a kernel runs its reference
// implementation.
func (*Backend) Supports(*graph.Node) bool { return true }

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
		b.probers.free()
		b.packed.close()
		b.team.release()
	}
	return nil
}

// Pack lays a weight out as lowering chose, and gives the file's pages back; or
// it keeps the file's rows.
func (b *Backend) Pack(w plan.Weight, f *plan.Format) (plan.Packed, error) {
	if w.DType == tensor.F32 && len(w.Data) > 0 && uintptr(unsafe.Pointer(&w.Data[0]))%4 != 0 {
		w.Data = append(make([]byte, 0, len(w.Data)), w.Data...)
	}
	if f == nil {
		return &fileRows{w.DType, w.Data}, nil
	}
	pack := b.packer(w.DType, f)
	if pack == nil {
		return nil, fmt.Errorf("cpu: no class packs weights as %s", f)
	}
	p, err := pack(b, w, w.Value.Shape.NumRows(tensor.Bind{}), w.Value.Shape.RowLen())
	if err == nil {
		w.Drop()
	}
	return p, err
}

// packer is the function that packs weights of a type into a format; nil if there
// is none.
func (b *Backend) packer(d tensor.DType, f *plan.Format) func(b *Backend, w plan.Weight, n, k int) (weight, error) {
	if codePanels[d] == f {
		return packCodes
	}
	for _, c := range classes {
		if c.packs == f {
			return c.pack
		}
	}
	return nil
}

// Bind picks a kernel for each step.
func (b *Backend) Bind(p *plan.Plan, m *plan.Memory, o plan.BindOptions) (plan.Exec, error) {
	n := b.workers
	if o.Workers > 0 {
		n = min(n, o.Workers)
	}
	if o.Serial {
		n = 1 + o.Helpers
	}
	e := &exec{be: b, plan: p, mem: m, workers: newWorkers(n), serial: o.Serial}
	bd := &binder{be: b, plan: p, mem: m, workers: n, rooms: map[string]room{}}
	for i := range p.Steps {
		s := &p.Steps[i]
		build, ok := kernels[s.Kind]
		if !ok {
			build = bindReference
		}
		bd.step = s
		k, err := build(bd, s)
		if err = cmp.Or(err, bd.err); err != nil {
			return nil, fmt.Errorf("cpu: %s: %w", s.Name, err)
		}
		if s.Chunk.Rows > 0 {
			k = &chunked{k, s.Chunk}
		}
		e.bound = append(e.bound, k)
	}
	for _, r := range bd.rooms {
		r.open(n)
		e.rooms = append(e.rooms, r)
	}
	for i := range e.workers {
		e.workers[i] = worker{lane: i, scratch: newScratch(bd)}
	}
	e.labelled, e.program = labelling.Load(), o.Program
	e.kernels = e.dressed(nil)
	switch {
	case b.opts.Test:
		e.dead = plan.Deaths(p)
	case n > 1 && !o.Fixed && !o.Serial:
		e.limits = limit.NewClasses(n)
	}
	e.ready()
	return e, nil
}

// scratch is one worker's workspace, shared by all its steps. What classes need
// is theirs: scratchFor.
type scratch struct {
	keys   []float32 // one block of one head, decoded
	values []float32
	f      []float32 // as much as the hungriest step asked for
	// Operands of the current product. They are allocated once, because a Task
	// holds them behind an interface.
	rows    gemm.Rows
	natural gemm.Natural
	cached  gemm.Cached // a run of a cache's rows
	read    [2]readKeys // in layers without a window, and with one
}

func newScratch(b *binder) *scratch {
	return &scratch{f: make([]float32, b.scratch), keys: make([]float32, b.keyRoom), values: make([]float32, b.keyRoom)}
}
