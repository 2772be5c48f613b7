package opencl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"hotpath/internal/backend/device"
	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// extent is a number of groups: mul times a size, divided by per and rounded up.
type extent struct {
	dim      tensor.Dim
	mul, per int
	most     int // 0: no limit
}

func groups(n int) extent { return extent{dim: tensor.Fixed(n), mul: 1, per: 1} }

func (e extent) of(b tensor.Bind) int {
	n := (e.dim.Size(b)*e.mul + e.per - 1) / e.per
	if e.most > 0 {
		n = min(n, e.most)
	}
	return max(n, 1)
}

// errGroup reports a kernel that needs so many registers that its groups do not fit.
var errGroup = errors.New("groups")

// launch is a kernel whose arguments are set.
type launch struct {
	name   string
	kernel kernel
	groups [2]extent
	lanes  int // work items of a group
	// idle reports whether a run of some sizes needs no such launch; nil: never.
	idle func(tensor.Bind) bool
}

// start enqueues the kernel for a run of some sizes.
func (l *launch) start(drv driver, b tensor.Bind, o order) (event, error) {
	return drv.launch(l.kernel, [2]int{l.groups[0].of(b) * l.lanes, l.groups[1].of(b)}, [2]int{l.lanes, 1}, o)
}

// binder turns the steps of a plan into launches. The first pass launches nothing: it
// lists programs, which are then compiled in parallel.
type binder struct {
	device.Binder
	be     *Backend
	exec   *exec
	sizes  address // of T, S and R on the device
	wanted []code  // of the first pass
}

// newBinder binds kernels outside of a plan.
func newBinder(be *Backend, e *exec, at address) *binder {
	b := &binder{be: be, exec: e}
	b.At = at
	return b
}

// Bind makes the launches of a plan.
func (b *Backend) Bind(p *plan.Plan, m *plan.Memory, o plan.BindOptions) (plan.Exec, error) {
	e := b.newExec()
	e.io, e.apart, e.lanes.Plan = m.Arenas[plan.IO].(*device.IOArena), o.Slots > 1, p
	if err := e.record(m); err != nil {
		return nil, firstOf(err, e.Close())
	}
	return e, nil
}

// record binds every step. How much scratch steps want is known after a first
// pass.
func (e *exec) record(m *plan.Memory) (err error) {
	p := e.lanes.Plan
	b := &binder{be: e.be, exec: e}
	b.Plan, b.Memory, b.IO, b.Keep, b.Copy = p, m, e.io, e.kept.Take, e.be
	if e.host, e.pinned, err = e.be.pinned(12, "sizes"); err != nil {
		return err
	}
	if b.sizes, err = e.kept.Take(12, "sizes"); err != nil {
		return err
	}
	e.sizes = b.sizes
	e.lanes.In, e.lanes.Out = device.Travel(p)
	for pass := range 2 {
		e.begins = e.begins[:0]
		for i := range p.Steps {
			s := &p.Steps[i]
			bind := ops[s.Kind]
			if bind == nil {
				return fmt.Errorf("%w: there is no kernel for %s (%s)", ErrDevice, s.Kind, s.Name)
			}
			e.begins = append(e.begins, len(e.launches))
			b.Next(s)
			bind(b, s.Root())
			if b.Failed != nil {
				return b.Failed
			}
		}
		if pass == 0 {
			if err = firstOf(b.TakeScratch(), e.be.prepare(b.wanted)); err != nil {
				return err
			}
		}
	}
	e.begins = append(e.begins, len(e.launches))
	return nil
}

// launch adds a kernel that has neither a type nor a tile.
func (b *binder) launch(name string, groups [2]extent, lanes int, arguments ...any) {
	b.launchOf(plain(name), name, groups, lanes, arguments...)
}

// launchOf adds a kernel of a program, which is compiled on the way.
func (b *binder) launchOf(c code, name string, groups [2]extent, lanes int, arguments ...any) {
	if b.Failed != nil {
		return
	}
	used := slabsOf(nil, arguments)
	if len(used) > maxSlabs {
		b.Fail(fmt.Errorf("%w: kernel %s: operands lie in %d buffers, expected at most %d", ErrDevice, name, len(used), maxSlabs))
		return
	}
	if len(used) > 1 {
		c.slabs = maxSlabs
	}
	if b.At == 0 { // the first pass: scratch is taken to lie in the slab of the others
		b.wanted = append(b.wanted, c)
		return
	}
	p, err := b.be.program(c)
	if err != nil {
		b.Fail(err)
		return
	}
	k, err := b.be.drv.kernel(p, name)
	if err != nil {
		b.Fail(fmt.Errorf("kernel %s: %w", name, err))
		return
	}
	b.exec.launches = append(b.exec.launches, launch{name: name, kernel: k, groups: groups, lanes: lanes})
	if most, err := b.be.drv.limit(k); err != nil || most < lanes {
		b.Fail(firstOf(err, fmt.Errorf("%w: kernel %s on %s: %w of %d work items, expected %d", ErrDevice, name, b.be.about.Name, errGroup, most, lanes)))
		return
	}
	var values [][]byte
	for i := range max(1, c.slabs) {
		values = append(values, nil)
		if i < len(used) {
			values[i] = binary.LittleEndian.AppendUint64(nil, uint64(b.be.slabs.buffer(used[i])))
		}
	}
	for _, v := range arguments {
		values = append(values, encode(v, used))
	}
	for i, v := range values {
		if err := b.be.drv.set(k, i, v); err != nil {
			b.Fail(fmt.Errorf("argument %d of %s: %w", i, name, err))
			return
		}
	}
}

// maxSlabs is the number of slabs that the kernels take which are not compiled for a
// single one.
const maxSlabs = 8

// bundle are arguments of a kernel in one struct. Addresses come first, so that all
// fields are aligned.
type bundle []any

// slabsOf adds the slabs that arguments lie in to a list.
func slabsOf(used []int, arguments []any) []int {
	for _, v := range arguments {
		switch v := v.(type) {
		case bundle:
			used = slabsOf(used, v)
		case address:
			if slabOf(v) >= 0 && !slices.Contains(used, slabOf(v)) {
				used = append(used, slabOf(v))
			}
		}
	}
	return used
}

// encode gives the bytes of an argument. Addresses count the slabs of the kernel, from 1.
func encode(v any, used []int) []byte {
	i32 := func(values ...int) []byte {
		var out []byte
		for _, v := range values {
			out = binary.LittleEndian.AppendUint32(out, uint32(int32(v)))
		}
		return out
	}
	f32 := func(v float32) []byte { return binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)) }
	truth := func(v bool) int {
		if v {
			return 1
		}
		return 0
	}
	switch v := v.(type) {
	case address:
		if v != 0 {
			v = address(slices.Index(used, slabOf(v))+1)<<slabShift | address(offsetOf(v))
		}
		return binary.LittleEndian.AppendUint64(nil, uint64(v))
	case bundle:
		var out []byte
		for _, field := range v {
			out = append(out, encode(field, used)...)
		}
		return append(out, make([]byte, -len(out)&7)...) // structs with addresses are aligned to 8 bytes
	case uint64:
		return binary.LittleEndian.AppendUint64(nil, v)
	case int:
		return i32(v)
	case bool:
		return i32(truth(v))
	case float32:
		return f32(v)
	case tensor.DType:
		return i32(int(v))
	case tensor.Dim:
		return i32(int(v.Sym), v.Mul, v.Add)
	case graph.RopeAttr:
		turn := append(i32(v.HeadDim, v.RotDim, truth(v.Interleaved), truth(v.Inverse)), f32(v.Magnitude)...)
		return append(append(turn, i32(v.Context)...), f32(float32(v.Stretch))...)
	case graph.AttentionAttr:
		mask := i32(v.Heads, v.KVHeads, v.HeadDim, truth(v.Causal), v.Window)
		return append(append(append(mask, f32(v.Scale)...), f32(v.SoftCap)...), i32(truth(v.Alibi))...)
	}
	panic(fmt.Sprintf("opencl: an argument of type %T, which no kernel takes", v))
}

// itemsOf is the size of groups in which work items share nothing.
const itemsOf = 256

// spread has work items of their own for mul elements per unit of a size: at most
// some groups per unit of the device, whose items take several elements.
func (b *binder) spread(d tensor.Dim, mul int) [2]extent {
	return [2]extent{{d, mul, itemsOf, 32 * b.be.about.Units}, groups(1)}
}

// each launches a kernel over the elements of v.
func (b *binder) each(name string, v *graph.Value, more ...any) {
	b.launch(name, b.spread(v.Shape.Outer, v.Shape.RowLen()), itemsOf, append([]any{b.sizes, v.Shape.Outer, v.Shape.RowLen()}, more...)...)
}

// perRow launches a kernel with a group per row of v, or per part of a row.
func (b *binder) perRow(name string, v *graph.Value, chunk int, more ...any) {
	lanes := 32
	for lanes < min(chunk, 256) {
		lanes *= 2
	}
	b.launch(name, [2]extent{{v.Shape.Outer, v.Shape.RowLen() / chunk, 1, 0}, groups(1)}, lanes, append([]any{b.sizes, v.Shape.Outer, v.Shape.RowLen()}, more...)...)
}
