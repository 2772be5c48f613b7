package cuda

import (
	"context"
	"encoding/binary"
	"errors"
	"unsafe"

	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// exec is a plan whose launches are recorded.
type exec struct {
	be      *Backend
	plan    *plan.Plan
	io      *ioArena
	host    []byte    // sizes of the run, then a stamp per step and one before them
	in, out []travels // values that a run carries to the card, and back
	blocks  []address
	begins  []int // [step] its first launch; one more at the end
	list    list
	stamped list // the same with the card's clock between steps
	run     *profile.Run
	sent    int64 // bytes that the last run carried to the card
	started int64
	// end is behind the run where marked says so: another run was enqueued since.
	end    event
	marked bool
}

// stampsAt is where stamps begin in host memory.
const stampsAt = 64

func hostBytes(p *plan.Plan) int64 { return stampsAt + 8*int64(len(p.Steps)+3) }

func (e *exec) hostAt(offset int) address {
	return address(uintptr(unsafe.Pointer(&e.host[0]))) + address(offset)
}

// take gives memory that the plan keeps.
func (e *exec) take(bytes int64, what string) (address, error) {
	a, err := e.be.pool.take(bytes, what)
	if err == nil {
		e.blocks = append(e.blocks, a)
	}
	return a, err
}

// table copies a list of values that travel to the card.
func (e *exec) table(parts []travels) (address, error) {
	if len(parts) == 0 {
		return 0, nil
	}
	size := int(unsafe.Sizeof(travels{}))
	data := unsafe.Slice((*byte)(unsafe.Pointer(&parts[0])), len(parts)*size)
	a, err := e.take(int64(len(data)), "a list of inputs or outputs")
	if err != nil {
		return 0, err
	}
	return a, e.be.drv.write(a, data)
}

// withStamps puts the clock before the first step and behind each.
func (e *exec) withStamps(b *binder) []launch {
	all := b.launches
	b.launches = nil
	var out []launch
	stamp := func(i int) {
		b.launches = b.launches[:0]
		b.launch("k_stamp", [3]int{1, 1, 1}, 1, e.hostAt(stampsAt+8*i))
		out = append(out, b.launches[0])
	}
	stamp(0)
	out = append(out, all[:e.begins[0]]...)
	for i := range e.plan.Steps {
		stamp(i + 1)
		out = append(out, all[e.begins[i]:e.begins[i+1]]...)
	}
	n := len(e.plan.Steps)
	stamp(n + 1)
	out = append(out, all[e.begins[n]:]...)
	stamp(n + 2)
	return out
}

// Steps behind the plan's own. Host steps belong to the host's lane.
const (
	stepIn = iota
	stepOut
	stepLaunch
	stepSync
	extraSteps
)

func (e *exec) Describe(p *profile.Plan) {
	name := "cuda: " + e.be.drv.describe().Name
	p.Device, p.Lanes, p.HostLanes = name, []string{"host", "stream"}, 1
	for i := range p.Steps {
		p.Steps[i].Kernel, p.Steps[i].Class = "cuda", e.plan.Steps[i].Class(len(e.plan.Steps[i].Nodes)-1)
	}
	n := len(p.Steps)
	for i, name := range [extraSteps]string{"inputs", "outputs", "launch", "sync"} {
		p.Steps = append(p.Steps, profile.Step{ID: n + i, Name: name, Op: "transfer", Layer: -1, Host: i >= stepLaunch})
	}
}

// Enqueue replays the launches.
func (e *exec) Enqueue(ctx context.Context, b tensor.Bind, run *profile.Run) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for i, v := range []int{b.T, b.S, b.R} {
		binary.LittleEndian.PutUint32(e.host[4*i:], uint32(v))
	}
	e.run, e.sent = run, e.prepare(b)
	l := e.list
	if run != nil {
		l = e.stamped
		n := len(e.plan.Steps)
		run.Costs[n+stepIn].Bytes, run.Costs[n+stepOut].Bytes = e.sent, carried(e.out, b)
		e.started = profile.Now()
	}
	err := e.be.do(func() error {
		if o := e.be.last; o != nil && !o.marked {
			if err := e.be.drv.mark(o.end); err != nil {
				return err
			}
			o.marked = true
		}
		e.be.last = nil
		if err := e.be.drv.replay(l); err != nil {
			return err
		}
		e.be.last, e.marked = e, false
		return nil
	})
	if err != nil {
		e.io.forget()
	}
	if run != nil {
		host, k := &run.Lanes[0], len(e.plan.Steps)+stepLaunch
		host.Wake, host.Arrive[k], host.Begin[k], host.End[k] = e.started, e.started, e.started, profile.Now()
	}
	return err
}

// of is the bytes of a value in a run of some sizes.
func (p *travels) of(b tensor.Bind) int64 {
	d := tensor.Dim{Sym: tensor.Sym(p.sym), Mul: int(p.mul), Add: int(p.add)}
	return int64(d.Size(b)) * int64(p.bytes)
}

// carried is the bytes of values in a run of some sizes.
func carried(parts []travels, b tensor.Bind) (bytes int64) {
	for i := range parts {
		bytes += parts[i].of(b)
	}
	return bytes
}

// prepare decides what of the inputs travels to the card and returns its bytes, the
// sizes of the run included.
func (e *exec) prepare(b tensor.Bind) (bytes int64) {
	for i := range e.in {
		p := &e.in[i]
		if p.changes == 0 {
			bytes += p.of(b)
			continue
		}
		at := int64(p.to - e.io.at)
		bytes += e.io.changes[at].prepare(e.io.host[at:at+p.of(b)], int(p.bytes))
	}
	return bytes + 12
}

// Wait returns when the outputs are in host memory.
func (e *exec) Wait() error {
	if e.run == nil {
		return e.await()
	}
	begin := profile.Now()
	err := e.await()
	end := profile.Now()
	host, k := &e.run.Lanes[0], len(e.plan.Steps)+stepSync
	host.Arrive[k], host.Begin[k], host.End[k], host.Done = begin, begin, end, end
	if err == nil {
		e.fold(end)
	}
	e.run = nil
	return err
}

// await waits for the end of the run, not for runs behind it.
func (e *exec) await() (err error) {
	defer func() {
		if err != nil {
			e.io.forget()
		}
	}()
	e.be.mu.Lock()
	marked := e.marked
	if e.be.last == e {
		e.be.last = nil
	}
	e.be.mu.Unlock()
	if marked {
		return e.be.await(func() error { return e.be.drv.await(e.end) })
	}
	return e.be.await(e.be.drv.sync)
}

// fold puts the card's stamps into the lane of the stream. The last one is
// taken for the moment at which the host saw the end.
func (e *exec) fold(end int64) {
	n := len(e.plan.Steps)
	stamp := func(i int) int64 { return int64(binary.LittleEndian.Uint64(e.host[stampsAt+8*i:])) }
	shift := end - stamp(n+2)
	at := func(i int) int64 { return max(stamp(i)+shift, e.started) }
	lane := &e.run.Lanes[1]
	lane.Wake, lane.Done = e.started, end
	set := func(step, from int) {
		lane.Arrive[step], lane.Begin[step], lane.End[step] = at(from), at(from), at(from+1)
	}
	set(n+stepIn, 0)
	for i := range n {
		set(i, i+1)
	}
	set(n+stepOut, n+1)
}

// Close gives the plan's memory back.
func (e *exec) Close() error {
	var errs []error
	errs = append(errs, e.be.do(func() error {
		var errs []error
		for _, l := range []list{e.list, e.stamped} {
			if l != 0 {
				errs = append(errs, e.be.drv.drop(l))
			}
		}
		if e.host != nil {
			errs = append(errs, e.be.drv.hostFree(e.host))
		}
		if e.end != 0 {
			errs = append(errs, e.be.drv.dropEvent(e.end))
		}
		if e.be.last == e {
			e.be.last = nil
		}
		return errors.Join(errs...)
	}))
	e.list, e.stamped, e.host, e.end = 0, 0, nil, 0
	for _, a := range e.blocks {
		e.be.pool.give(a)
	}
	e.blocks = nil
	return errors.Join(errs...)
}
