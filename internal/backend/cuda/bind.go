package cuda

import (
	"errors"

	"hotpath/internal/backend/device"
	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// binder turns the steps of a plan into launches.
type binder struct {
	device.Binder
	be       *Backend
	sizes    address // of T, S and R on the card, and whether the run is profiled
	launches []launch
}

// Bind records the launches of a plan.
func (b *Backend) Bind(p *plan.Plan, m *plan.Memory, _ plan.BindOptions) (plan.Exec, error) {
	e := &exec{be: b, io: m.Arenas[plan.IO].(*ioArena)}
	e.lanes.Plan = p
	err := b.do(func() error { return e.record(m) })
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// record binds every step. How much scratch steps want is known after a first
// pass, which launches nothing.
func (e *exec) record(m *plan.Memory) (err error) {
	p := e.lanes.Plan
	b := &binder{be: e.be}
	b.Plan, b.Memory, b.IO, b.Keep, b.Copy = p, m, e.io.IOArena, e.take, copier{e.be.drv}
	if e.host, err = e.be.drv.hostAlloc(hostBytes(p)); err != nil {
		return err
	}
	if e.end, err = e.be.drv.newEvent(); err != nil {
		return err
	}
	if b.sizes, err = e.take(sizesBytes, "sizes"); err != nil {
		return err
	}
	if e.clocks, err = e.take(8*int64(stamps(p)), "stamps"); err != nil {
		return err
	}
	e.lanes.In, e.lanes.Out = device.Travel(p)
	inputs, outputs := parts(e.lanes.In, e.io, false), parts(e.lanes.Out, e.io, true)
	for i := range inputs {
		if t := &inputs[i]; t.bytes >= leastRow {
			in := &e.lanes.In[i]
			c, err := e.io.changesOf(e.be.drv, in.Offset, in.Size(p.Graph.Max))
			if err != nil {
				return err
			}
			t.changes = hostAt(c.list, 0)
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
		b.launch("k_transfer", [3]int{transferBlocks(e.lanes.In, p.Graph.Max, false), len(inputs), 1}, 256, b.sizes, e.hostAt(0), in, len(inputs), e.clocks, address(0), 0)
		for i := range p.Steps {
			s := &p.Steps[i]
			e.begins = append(e.begins, len(b.launches))
			b.Next(s)
			ops[s.Kind](b, s.Root())
		}
		if pass == 0 {
			e.begins = e.begins[:0]
			if err = b.TakeScratch(); err != nil {
				return err
			}
			continue
		}
		e.begins = append(e.begins, len(b.launches))
		b.launch("k_transfer", [3]int{transferBlocks(e.lanes.Out, p.Graph.Max, true), len(outputs), 1}, 256, address(0), e.hostAt(0), out, len(outputs), e.clocks, e.hostAt(stampsAt), stamps(p))
		if b.Failed != nil {
			return b.Failed
		}
		b.startEarly()
		if e.list, err = e.be.drv.record(b.launches); err == nil {
			e.stamped, err = e.be.drv.record(e.withStamps(b.launches))
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

// transferBlocks is the number of blocks per value that travels: a word per thread,
// and at most 16. Of inputs that travel by their changes it is a few words, so they
// add no blocks: each block asks host memory for the sizes, and 144 that do so took
// 20 us of every decode step of an H200.
func transferBlocks(values []device.Travels, most tensor.Bind, back bool) int {
	blocks := int64(1)
	for i := range values {
		if back || values[i].Bytes < leastRow {
			blocks = max(blocks, min(16, (values[i].Size(most)/4+255)/256))
		}
	}
	return int(blocks)
}

// travels is one value on its way; the layout is Part's in transfer.cu.
type travels struct {
	to, from      address
	sym, mul, add int32
	bytes         int32
	changes       address // 0: all rows travel
}

// parts are values as the kernel takes them; back: from the card to the host.
func parts(values []device.Travels, io *ioArena, back bool) (out []travels) {
	for _, v := range values {
		t := travels{io.At + address(v.Offset), hostAt(io.Host(), v.Offset), int32(v.Rows.Sym), int32(v.Rows.Mul), int32(v.Rows.Add), int32(v.Bytes), 0}
		if back {
			t.to, t.from = t.from, t.to
		}
		out = append(out, t)
	}
	return out
}

// launch adds a kernel.
func (b *binder) launch(kernel string, grid [3]int, block int, arguments ...any) {
	a := args{make([]byte, stampBytes)}
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

// spread is a grid for n threads of work in blocks of 256: at most a few blocks
// per unit of the card, whose threads take several elements.
func (b *binder) spread(n int) [3]int {
	return [3]int{min((n+255)/256, 16*b.be.drv.describe().Units), 1, 1}
}

// each launches a kernel over the elements of v.
func (b *binder) each(kernel string, v *graph.Value, more ...any) {
	b.launch(kernel, b.spread(b.Most(v)*v.Shape.RowLen()), 256, append([]any{b.sizes, v.Shape.Outer, v.Shape.RowLen()}, more...)...)
}

// warps launches a kernel with one warp per unit of work.
func (b *binder) warps(kernel string, n int, more ...any) {
	b.launch(kernel, b.spread(32*n), 256, append([]any{b.sizes}, more...)...)
}

func (b *binder) constants(values []float64) address { return b.Constant(device.Bytes(values)) }

func (b *binder) addresses(values []uint64) address { return b.Constant(device.Bytes(values)) }
