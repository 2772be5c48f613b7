package cuda

import (
	"errors"
	"unsafe"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// binder turns the steps of a plan into launches.
type binder struct {
	be       *Backend
	plan     *plan.Plan
	mem      *plan.Memory
	io       *ioArena
	sizes    address // of T, S and R on the card
	launches []launch
	scratch  int64   // bytes that one step wants at most
	used     int64   // of them, by the step at hand
	at       address // of the scratch, in the second pass
	exec     *exec
	step     *plan.Step // at hand
	failed   error      // the first that a step met
}

// Bind records the launches of a plan.
func (b *Backend) Bind(p *plan.Plan, m *plan.Memory, _ plan.BindOptions) (plan.Exec, error) {
	e := &exec{be: b, plan: p, io: m.Arenas[plan.IO].(*ioArena)}
	err := b.do(func() error { return e.record(m) })
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// record binds every step. How much scratch steps want is known after a first
// pass, which launches nothing.
func (e *exec) record(m *plan.Memory) (err error) {
	b := &binder{be: e.be, plan: e.plan, mem: m, io: e.io, exec: e}
	if e.host, err = e.be.drv.hostAlloc(hostBytes(e.plan)); err != nil {
		return err
	}
	if e.end, err = e.be.drv.newEvent(); err != nil {
		return err
	}
	if b.sizes, err = e.take(12, "sizes"); err != nil {
		return err
	}
	inputs, outputs := travel(e.plan, e.io)
	e.in, e.out = inputs, outputs
	for i := range inputs {
		if p := &inputs[i]; p.bytes >= leastRow {
			c, err := e.io.changesOf(int64(p.to-e.io.at), p.of(e.plan.Graph.Max))
			if err != nil {
				return err
			}
			p.changes = address(uintptr(unsafe.Pointer(&c.list[0])))
		}
	}
	in, err := e.table(inputs)
	if err != nil {
		return err
	}
	out, err := e.table(outputs)
	if err != nil {
		return err
	}
	for pass := range 2 {
		b.launches = b.launches[:0]
		b.launch("k_transfer", [3]int{transferBlocks, len(inputs), 1}, 256, b.sizes, e.hostAt(0), in, len(inputs))
		for i := range e.plan.Steps {
			s := &e.plan.Steps[i]
			e.begins = append(e.begins, len(b.launches))
			b.step, b.used = s, 0
			ops[s.Kind](b, s.Root())
		}
		if pass == 0 {
			e.begins = e.begins[:0]
			if b.at, err = e.take(max(b.scratch, 1), "scratch"); err != nil {
				return err
			}
			continue
		}
		e.begins = append(e.begins, len(b.launches))
		if len(outputs) > 0 {
			b.launch("k_transfer", [3]int{transferBlocks, len(outputs), 1}, 256, address(0), e.hostAt(0), out, len(outputs))
		}
		if b.failed != nil {
			return b.failed
		}
		b.startEarly()
		if e.list, err = e.be.drv.record(b.launches); err == nil {
			e.stamped, err = e.be.drv.record(e.withStamps(b))
		}
	}
	return err
}

// startEarly lets kernels begin before the ones before them have ended, from the
// second behind the inputs on: sizes may be read before grid_wait then.
func (b *binder) startEarly() {
	for i := range b.launches {
		b.launches[i].early = b.be.wgmma && i > 1
	}
}

// transferBlocks is the number of blocks per value that travels.
const transferBlocks = 16

// travels is one value on its way; the layout is Part's in transfer.cu.
type travels struct {
	to, from      address
	sym, mul, add int32
	bytes         int32
	changes       address // 0: all rows travel
}

// travel lists inputs and outputs.
func travel(p *plan.Plan, io *ioArena) (in, out []travels) {
	part := func(v *graph.Value) (travels, bool) {
		pl, ok := p.Form(v, nil)
		if !ok || pl.Class != plan.IO || pl.Bytes == 0 {
			return travels{}, false
		}
		d := v.Shape.Outer
		return travels{io.at + address(pl.Offset), io.hostAt(pl.Offset), int32(d.Sym), int32(d.Mul), int32(d.Add), int32(v.DType.RowBytes(v.Shape.RowLen())), 0}, true
	}
	read, written := p.Travel()
	for _, v := range read {
		if t, ok := part(v); ok {
			in = append(in, t)
		}
	}
	for _, v := range written {
		if t, ok := part(v); ok {
			t.to, t.from = t.from, t.to
			out = append(out, t)
		}
	}
	return in, out
}

// form is where a value lies in a format; 0 where it does not.
func (b *binder) form(v *graph.Value, f *plan.Format) address {
	pl, ok := b.plan.Form(v, f)
	if !ok || pl.Bytes == 0 {
		return 0
	}
	if pl.Class == plan.IO {
		return b.io.at + address(pl.Offset)
	}
	return b.mem.Arenas[pl.Class].(*arena).at + address(pl.Offset)
}

// value is where a value lies on the card; 0 for one that is absent.
func (b *binder) value(v *graph.Value) address {
	if v == nil {
		return 0
	}
	if v.Node.Leaf != nil && v.Node.Leaf.Kind == graph.WeightLeaf {
		return b.mem.Weights[v.ID].(*packed).at
	}
	return b.form(v, nil)
}

// dtype is the type in which a matrix lies on the card.
func (b *binder) dtype(v *graph.Value) tensor.DType {
	if v.Node.Leaf != nil && v.Node.Leaf.Kind == graph.WeightLeaf {
		return b.mem.Weights[v.ID].(*packed).dtype
	}
	return v.DType
}

// launch adds a kernel.
func (b *binder) launch(kernel string, grid [3]int, block int, arguments ...any) {
	var a args
	for _, v := range arguments {
		a.put(v)
	}
	fn, ok := b.be.funcs[kernel]
	if !ok {
		panic("cuda: no kernel " + kernel)
	}
	for i := range grid {
		grid[i] = max(grid[i], 1)
	}
	b.launches = append(b.launches, launch{kernel: kernel, fn: fn, grid: grid, block: block, args: a.b})
}

// most is the largest number of rows of a run of this plan.
func (b *binder) most(v *graph.Value) int { return v.Shape.NumRows(b.plan.Max) }

// spread is a grid for n threads of work in blocks of 256: at most a few blocks
// per unit of the card, whose threads take several elements.
func (b *binder) spread(n int) [3]int {
	return [3]int{min((n+255)/256, 16*b.be.drv.describe().Units), 1, 1}
}

// each launches a kernel over the elements of v.
func (b *binder) each(kernel string, v *graph.Value, more ...any) {
	b.launch(kernel, b.spread(b.most(v)*v.Shape.RowLen()), 256, append([]any{b.sizes, v.Shape.Outer, v.Shape.RowLen()}, more...)...)
}

// warps launches a kernel with one warp per unit of work.
func (b *binder) warps(kernel string, n int, more ...any) {
	b.launch(kernel, b.spread(32*n), 256, append([]any{b.sizes}, more...)...)
}

// workspace is memory of the step at hand, beside what it has already.
func (b *binder) workspace(bytes int64) address {
	at := b.at + address(b.used)
	b.used += (bytes + 255) / 256 * 256
	b.scratch = max(b.scratch, b.used)
	return at
}

// fail keeps the first error; binding ends with it.
func (b *binder) fail(err error) {
	if b.failed == nil {
		b.failed = err
	}
}

// keep puts bytes on the card for as long as the plan is bound. The first pass
// needs none.
func (b *binder) keep(data []byte) address {
	if b.at == 0 {
		return 0
	}
	a, err := b.exec.take(int64(len(data)), "constants")
	if err == nil {
		err = b.be.drv.write(a, data)
	}
	if err != nil {
		b.fail(err)
	}
	return a
}

func (b *binder) constants(values []float64) address {
	return b.keep(unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), 8*len(values)))
}

func (b *binder) addresses(values []uint64) address {
	return b.keep(unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), 8*len(values)))
}

// readF32 copies a small weight or state back from the card.
func (b *binder) readF32(v *graph.Value) []float32 {
	out := make([]float32, v.Shape.Len(b.plan.Max))
	if err := b.be.drv.read(unsafe.Slice((*byte)(unsafe.Pointer(&out[0])), 4*len(out)), b.value(v)); err != nil {
		b.fail(err)
	}
	return out
}
