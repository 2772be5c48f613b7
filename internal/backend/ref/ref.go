// Package ref runs the reference implementation of every op, one after the
// other on the caller: the oracle of every test. It publishes no fusion and
// packs nothing, so it also shows what the planner's passes must not change.
//
// It implements plan.Backend; optest, tests and backend/null import it.
package ref

import (
	"context"
	"math"
	"unsafe"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// Backend is the reference backend. Poison fills buffers with NaN when they
// die, so that a step that reads one shows it.
type Backend struct{ Poison bool }

// New returns a reference backend that poisons dead buffers.
func New() *Backend { return &Backend{Poison: true} }

func (*Backend) Caps() plan.Caps           { return plan.Caps{Name: "ref", Workers: 1} }
func (*Backend) Supports(*graph.Node) bool { return true }
func (*Backend) Patterns() []plan.Pattern  { return nil }
func (*Backend) Rules(bool) []plan.Rule    { return nil }
func (*Backend) Close() error              { return nil }

// raw is a weight as the file has it.
type raw struct {
	dtype tensor.DType
	data  []byte
}

func (r raw) Bytes() int64 { return int64(len(r.data)) }

// Pack keeps the file's rows.
func (*Backend) Pack(w plan.Weight, _ *plan.Format) (plan.Packed, error) {
	return raw{w.DType, w.Data}, nil
}

// HostArena is memory on the Go heap, which the race detector sees.
type HostArena []byte

// NewHostArena allocates zeroed memory aligned to plan.Align.
func NewHostArena(bytes int64) HostArena {
	b := make([]byte, bytes+plan.Align)
	skip := -uintptr(unsafe.Pointer(&b[0])) % plan.Align
	return b[skip : int64(skip)+bytes : int64(skip)+bytes]
}

func (a HostArena) Host() []byte { return a }
func (a HostArena) Read(off int64, dst []byte) error {
	copy(dst, a[off:])
	return nil
}
func (a HostArena) Write(off int64, src []byte) error {
	copy(a[off:], src)
	return nil
}
func (a HostArena) Free() error { return nil }

func (*Backend) Arena(_ plan.Class, bytes int64) (plan.Arena, error) {
	return NewHostArena(bytes), nil
}

// Bind prepares one call a node.
func (b *Backend) Bind(p *plan.Plan, m *plan.Memory, _ plan.BindOptions) (plan.Exec, error) {
	e := &exec{plan: p, mem: m}
	weight := func(v *graph.Value) (tensor.DType, []byte) {
		w := m.Weights[v.ID].(raw)
		return w.dtype, w.data
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		e.calls = append(e.calls, plan.BindNode(p, m, s, s.Root(), weight))
	}
	if b.Poison {
		e.dead = plan.Deaths(p)
	}
	return e, nil
}

type exec struct {
	plan  *plan.Plan
	mem   *plan.Memory
	calls []*plan.BoundCall
	dead  [][]plan.Place // [step] places whose content nobody reads after it
}

func (e *exec) Describe(p *profile.Plan) {
	p.Lanes = []string{"caller"}
	for i := range p.Steps {
		p.Steps[i].Kernel = "reference"
		p.Steps[i].Class = "f32"
	}
}

func (e *exec) Enqueue(ctx context.Context, b tensor.Bind, run *profile.Run) error {
	var lane *profile.LaneSlots
	if run != nil {
		lane = &run.Lanes[0]
		lane.Wake = profile.Now()
	}
	for i, c := range e.calls {
		if i <= e.plan.Commit && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if lane != nil {
			lane.Steps[i].Begin = profile.Now()
			lane.Steps[i].Arrive = lane.Steps[i].Begin
		}
		c.Set(b)
		c.Call.Node.Op.Ref(&c.Call)
		if e.dead != nil {
			Poison(e.mem, e.dead[i])
		}
		if lane != nil {
			lane.Steps[i].End = profile.Now()
		}
	}
	if lane != nil {
		lane.Done = profile.Now()
	}
	return nil
}

func (e *exec) Wait() error  { return nil }
func (e *exec) Close() error { return nil }

// Poison fills places with NaN.
func Poison(m *plan.Memory, places []plan.Place) {
	nan := math.Float32frombits(0x7fc0dead)
	for _, p := range places {
		b := m.Arenas[p.Class].Host()[p.Offset : p.Offset+p.Bytes]
		if len(b) == 0 {
			continue
		}
		f := unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b)/4)
		for i := range f {
			f[i] = nan
		}
	}
}
