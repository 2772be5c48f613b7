package plan

import (
	"context"
	"fmt"
	"slices"
	"unsafe"

	"hotpath/internal/aligned"
	"hotpath/internal/graph"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// parts runs a plan with some steps on the host. The steps between host steps are
// plans of their own, which the backend binds. A run goes from part to part: the
// host waits for the device, copies the operands of its steps from the device's
// memory, computes the steps by their reference implementations, and copies the
// results back.
type parts struct {
	plan *Plan
	list []part

	// Of the run in flight.
	ctx  context.Context
	bind tensor.Bind
	run  *profile.Run
	next int // part that is under way
}

// part is steps [first, first+n) of the plan. exec is nil for a part of the host.
type part struct {
	first, n int
	exec     Exec
	calls    []hostCall

	view   profile.Run // what exec stamps
	extras int         // in the profile: its first step behind the plan's own
}

// hostCall is one step of the host.
type hostCall struct {
	*BoundCall
	in, out []move
}

// move is a value that is copied between the memory of the device and its mirror.
type move struct {
	value *graph.Value
	from  Arena
	at    int64
	host  []byte
}

func (m *move) bytes(b tensor.Bind) []byte {
	return m.host[:min(int64(len(m.host)), valueBytes(m.value, b))]
}

// mirror is the host's copy of an arena of the device, for host steps. Its pages
// cost nothing until a host step touches them.
type mirror []byte

func newMirror(bytes int64) mirror {
	b := make([]byte, bytes+Align)
	skip := int64(-uintptr(unsafe.Pointer(&b[0])) % Align)
	return b[skip : skip+bytes : skip+bytes]
}

func (m mirror) Host() []byte                     { return m }
func (m mirror) Read(off int64, dst []byte) error { copy(dst, m[off:]); return nil }
func (m mirror) Write(off int64, b []byte) error  { copy(m[off:], b); return nil }
func (m mirror) Free() error                      { return nil }

// hostSide is the state of a session's host steps.
type hostSide struct {
	mem     Memory                  // mirrors, and the arenas that the host reaches
	weights map[*graph.Value]Weight // as the file has them
}

// newHostSide mirrors the arenas of m.
func newHostSide(p *Program, m *Memory, rows map[*graph.Value]Weight) *hostSide {
	h := &hostSide{weights: rows}
	for c, a := range m.Arenas {
		if a == nil || a.Host() != nil {
			h.mem.Arenas[c] = a
			continue
		}
		var bytes int64
		for _, pl := range p.Plans {
			bytes = max(bytes, pl.ArenaBytes[c])
		}
		h.mem.Arenas[c] = newMirror(bytes)
	}
	return h
}

// bindPlan binds a plan to the backend, or its parts if some steps run on the
// host.
func bindPlan(be Backend, p *Plan, m *Memory, h *hostSide, o BindOptions) (Exec, error) {
	if !slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Host }) {
		return be.Bind(p, m, o)
	}
	e := &parts{plan: p}
	for i := 0; i < len(p.Steps); {
		n := 1
		for i+n < len(p.Steps) && p.Steps[i+n].Host == p.Steps[i].Host {
			n++
		}
		pt := part{first: i, n: n}
		if p.Steps[i].Host {
			pt.calls = h.bind(p, m, p.Steps[i:i+n])
		} else {
			var err error
			if pt.exec, err = be.Bind(p.part(i, n), m, o); err != nil {
				_ = e.Close() // the first error is the one to know
				return nil, err
			}
		}
		e.list = append(e.list, pt)
		i += n
	}
	return e, nil
}

// part is the plan of n steps from step first on.
func (p *Plan) part(first, n int) *Plan {
	q := *p
	q.Steps, q.later = p.Steps[first:first+n:first+n], p.Steps[first+n:]
	q.Commit = min(max(p.Commit-first, 0), n)
	return &q
}

// bind prepares steps that follow each other on the host. Values that one of them
// makes are in the mirror when the next reads them.
func (h *hostSide) bind(p *Plan, m *Memory, steps []Step) []hostCall {
	var calls []hostCall
	made := map[*graph.Value]bool{}
	file := func(v *graph.Value) (tensor.DType, []byte) { return h.weights[v].DType, h.weights[v].Data }
	moved := func(v *graph.Value) (move, bool) {
		pl, ok := p.Form(v, nil)
		if isWeight(v) || !ok || pl.Bytes == 0 || m.Arenas[pl.Class].Host() != nil {
			return move{}, false
		}
		return move{v, m.Arenas[pl.Class], pl.Offset, h.mem.Arenas[pl.Class].Host()[pl.Offset : pl.Offset+pl.Bytes]}, true
	}
	for i := range steps {
		s := &steps[i]
		c := hostCall{BoundCall: BindNode(p, &h.mem, s, s.Root(), file)}
		for _, v := range s.In {
			if mv, ok := moved(v); ok && !made[v] {
				c.in = append(c.in, mv)
			}
		}
		for _, v := range s.Out {
			if mv, ok := moved(v); ok {
				c.out = append(c.out, mv)
			}
			made[v] = true
		}
		calls = append(calls, c)
	}
	return calls
}

// HostKernel is the kernel that profiles name for steps of the host.
const HostKernel = "reference on the host"

// Describe merges the descriptions of the parts: their kernels and, after the
// plan's own steps, the steps that each part adds.
func (e *parts) Describe(p *profile.Plan) {
	p.Lanes = []string{"caller"}
	for i := range e.list {
		pt := &e.list[i]
		if pt.exec == nil {
			for k := range p.Steps[pt.first : pt.first+pt.n] {
				p.Steps[pt.first+k].Kernel, p.Steps[pt.first+k].Class = HostKernel, "f32"
			}
			continue
		}
		sub := profile.Plan{ID: p.ID, Steps: slices.Clone(p.Steps[pt.first : pt.first+pt.n])}
		for k := range sub.Steps {
			sub.Steps[k].ID = k
		}
		pt.exec.Describe(&sub)
		p.Device, p.Lanes, p.HostLanes = sub.Device, sub.Lanes, sub.HostLanes
		pt.extras = len(p.Steps)
		for k, s := range sub.Steps {
			if k < pt.n {
				s.ID = pt.first + k
				p.Steps[s.ID] = s
				continue
			}
			s.ID = len(p.Steps)
			s.Name = fmt.Sprintf("%s, steps %d to %d", s.Name, pt.first, pt.first+pt.n-1)
			p.Steps = append(p.Steps, s)
		}
		pt.view.Lanes = aligned.Slice[profile.LaneSlots](len(sub.Lanes))
		for l := range pt.view.Lanes {
			pt.view.Lanes[l].Init(len(sub.Steps), new(profile.LaneTime))
		}
	}
}

// Enqueue starts the first part.
func (e *parts) Enqueue(ctx context.Context, b tensor.Bind, run *profile.Run) error {
	e.ctx, e.bind, e.run, e.next = ctx, b, run, 0
	return e.start()
}

// start runs host parts until it has started a part of the backend, or the plan
// has ended.
func (e *parts) start() error {
	for ; e.next < len(e.list); e.next++ {
		pt := &e.list[e.next]
		ctx := e.ctx
		if pt.first > e.plan.Commit { // what is half committed is not cancelled
			ctx = context.WithoutCancel(ctx)
		}
		if pt.exec != nil {
			return pt.exec.Enqueue(ctx, e.bind, pt.viewOf(e.run))
		}
		for i := range pt.calls {
			if pt.first+i <= e.plan.Commit && ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := e.call(pt.first+i, &pt.calls[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// call runs one step on the host. Its time in the profile has the copies in it.
func (e *parts) call(step int, c *hostCall) error {
	begin := profile.Now()
	for i := range c.in {
		if err := c.in[i].from.Read(c.in[i].at, c.in[i].bytes(e.bind)); err != nil {
			return err
		}
	}
	c.Set(e.bind)
	c.Call.Node.Op.Ref(&c.Call)
	for i := range c.out {
		if err := c.out[i].from.Write(c.out[i].at, c.out[i].bytes(e.bind)); err != nil {
			return err
		}
	}
	if e.run == nil {
		return nil
	}
	lane := &e.run.Lanes[0]
	if lane.Wake == 0 {
		lane.Wake = begin
	}
	lane.Done = profile.Now()
	lane.Steps[step] = profile.StepStamps{Arrive: begin, Begin: begin, End: lane.Done}
	return nil
}

// Wait continues from part to part until the plan has ended.
func (e *parts) Wait() error {
	for e.next < len(e.list) {
		pt := &e.list[e.next]
		if err := pt.exec.Wait(); err != nil {
			return err
		}
		if e.run != nil {
			pt.stamp(e.run)
		}
		e.next++
		if err := e.start(); err != nil {
			return err
		}
	}
	return nil
}

// viewOf returns a separate run for the part to stamp.
func (p *part) viewOf(run *profile.Run) *profile.Run {
	if run == nil {
		return nil
	}
	lanes, stamps := p.view.Lanes, p.view.Stamps
	p.view = *run
	p.view.Lanes, p.view.Stamps = lanes, stamps[:0]
	for i := range lanes {
		l := &lanes[i]
		clear(l.Steps)
		l.Wake, l.Done, l.Absent = 0, 0, run.Lanes[i].Absent
	}
	return &p.view
}

// stamp copies the part's stamps into the run.
func (p *part) stamp(run *profile.Run) {
	if p.view.Timing != nil {
		p.view.Timing.Times(&p.view)
	}
	for i := range p.view.Lanes {
		from, to := &p.view.Lanes[i], &run.Lanes[i]
		copy(to.Steps[p.first:p.first+p.n], from.Steps[:p.n])
		copy(to.Steps[p.extras:], from.Steps[p.n:])
		if to.Wake == 0 {
			to.Wake = from.Wake
		}
		to.Done, to.Absent = max(to.Done, from.Done), from.Absent
		to.Gap, to.Wait = to.Gap+from.Gap, from.Wait
	}
}

func (e *parts) Close() error {
	var first error
	for i := range e.list {
		if x := e.list[i].exec; x != nil {
			if err := x.Close(); first == nil {
				first = err
			}
		}
	}
	return first
}
