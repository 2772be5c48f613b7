package cuda

import (
	"errors"

	"hotpath/internal/backend/device"
	"hotpath/internal/graph"
	"hotpath/internal/plan"
)

// binder turns the steps of a plan into launches.
type binder struct {
	device.Binder
	be       *Backend
	sizes    address // of T, S and R on the card, and whether the run is profiled
	launches []launch
	// Norms without a kernel, by the steps before and behind them, and their own.
	joins, factors map[*plan.Step]*foldedNorm
	folded         map[*plan.Step]bool
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
	e.lanes.In, e.lanes.Out = device.Travel(p)
	inputs, outputs := parts(e.lanes.In, e.io, p.Max, false), parts(e.lanes.Out, e.io, p.Max, true)
	back := transferGrid(outputs)
	e.ends = back[0] * back[1]
	if e.host, err = e.be.drv.hostAlloc(stampsAt + 8*int64(stamps(p)+e.ends)); err != nil {
		return err
	}
	clear(e.host) // blocks without work write no end
	if e.end, err = e.be.drv.newEvent(); err != nil {
		return err
	}
	if b.sizes, err = e.take(sizesBytes, "sizes"); err != nil {
		return err
	}
	if e.clocks, err = e.take(8*int64(stamps(p)), "stamps"); err != nil {
		return err
	}
	for i := range inputs {
		if t, in := &inputs[i], &e.lanes.In[i]; byChanges(in) {
			c, err := e.io.changesOf(e.be.drv, in.Offset, in.Size(p.Graph.Max))
			if err != nil {
				return err
			}
			t.changes, t.ahead = hostAt(c.list, 0), int32(min(changesAhead, c.room()))
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
		b.foldNorms()
		b.launch("k_transfer", transferGrid(inputs), transferThreads, b.sizes, e.hostAt(0), in, len(inputs), e.clocks, address(0), 0)
		for i := range p.Steps {
			s := &p.Steps[i]
			e.begins = append(e.begins, len(b.launches))
			b.Next(s)
			if !b.folded[s] {
				ops[s.Kind](b, s.Root())
			}
		}
		if pass == 0 {
			e.begins = e.begins[:0]
			if err = b.TakeScratch(); err != nil {
				return err
			}
			continue
		}
		e.begins = append(e.begins, len(b.launches))
		b.launch("k_transfer", back, transferThreads, address(0), e.hostAt(0), out, len(outputs), e.clocks, e.hostAt(stampsAt), stamps(p))
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
