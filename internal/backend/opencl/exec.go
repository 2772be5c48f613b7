package opencl

import (
	"context"
	"encoding/binary"
	"errors"

	"hotpath/internal/backend/device"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// exec is a plan whose launches are made.
type exec struct {
	be       *Backend
	lanes    device.Lanes
	io       *device.IOArena
	host     []byte      // sizes of the run
	sent     tensor.Bind // sizes that the device has
	pinned   buffer
	sizes    address
	blocks   []address
	launches []launch
	begins   []int // [step] its first launch; one more at the end

	// Of the run in flight.
	events []event // of a profiled run one per command, else that of the last one
	marks  []int   // [step] its first event; inputs are before the first, outputs behind the last
	spans  [][2]int64
}

// take gives memory that the plan keeps.
func (e *exec) take(bytes int64, what string) (address, error) {
	a, err := e.be.pool.Take(bytes, what)
	if err == nil {
		e.blocks = append(e.blocks, a)
	}
	return a, err
}

func (e *exec) Describe(p *profile.Plan) {
	e.lanes.Describe(p, "opencl", e.be.about.Name, "queue")
}

// Enqueue enqueues inputs, launches and outputs; nothing of it waits.
func (e *exec) Enqueue(ctx context.Context, b tensor.Bind, run *profile.Run) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e.events, e.marks = e.events[:0], e.marks[:0]
	e.lanes.Begin(b, run)
	err := e.enqueue(b)
	if err == nil {
		err = e.be.drv.flush()
	}
	if err != nil {
		e.lanes.Drop()
		e.sent = tensor.Bind{}
		return errors.Join(err, e.be.drv.finish(), e.settle())
	}
	e.lanes.Launched()
	return nil
}

func (e *exec) enqueue(b tensor.Bind) error {
	drv, usual := e.be.drv, quiet
	if run, _ := e.lanes.Run(); run != nil {
		usual = timed
	}
	if b != e.sent {
		for i, v := range []int{b.T, b.S, b.R} {
			binary.LittleEndian.PutUint32(e.host[4*i:], uint32(v))
		}
		at, offset := e.be.slabs.at(e.sizes)
		if err := e.note(drv.write(at, offset, e.host, usual)); err != nil {
			return err
		}
		e.sent = b
	}
	at, offset := e.be.slabs.at(e.io.At)
	e.spans = spans(e.lanes.In, b, spanGap, e.spans[:0])
	for _, s := range e.spans {
		if err := e.note(drv.write(at, offset+s[0], e.io.Host()[s[0]:s[1]], usual)); err != nil {
			return err
		}
	}
	e.spans = spans(e.lanes.Out, b, plan.Align, e.spans[:0])
	step := 0
	for i := range e.launches {
		for step < len(e.lanes.Plan.Steps) && e.begins[step] == i {
			e.marks = append(e.marks, len(e.events))
			step++
		}
		l, n := &e.launches[i], usual
		if i == len(e.launches)-1 && len(e.spans) == 0 {
			n = max(n, ended)
		}
		local := [2]int{l.lanes, 1}
		global := [2]int{l.groups[0].of(b) * l.lanes, l.groups[1].of(b)}
		if err := e.note(drv.launch(l.kernel, global, local, n)); err != nil {
			return err
		}
	}
	for ; step <= len(e.lanes.Plan.Steps); step++ {
		e.marks = append(e.marks, len(e.events))
	}
	for i, s := range e.spans {
		n := usual
		if i == len(e.spans)-1 {
			n = max(n, ended)
		}
		if err := e.note(drv.read(e.io.Host()[s[0]:s[1]], at, offset+s[0], n)); err != nil {
			return err
		}
	}
	return nil
}

// spanGap is up to how many bytes between two inputs travel with them: fewer commands
// are worth more. What lies between outputs may be an input, which stays as it is.
const spanGap = 4 << 10

// spans are the parts of the IO arena, [begin, end), that travel in a run: few, since
// neighbours travel together. Values come in the order of their offsets.
func spans(values []device.Travels, b tensor.Bind, gap int64, to [][2]int64) [][2]int64 {
	for _, t := range values {
		bytes := int64(t.Rows.Size(b) * t.Bytes)
		if bytes == 0 {
			continue
		}
		if n := len(to); n > 0 && t.Offset < to[n-1][1]+gap {
			to[n-1][1] = max(to[n-1][1], t.Offset+bytes)
			continue
		}
		to = append(to, [2]int64{t.Offset, t.Offset + bytes})
	}
	return to
}

// note keeps an event, if there is one.
func (e *exec) note(ev event, err error) error {
	if ev != 0 {
		e.events = append(e.events, ev)
	}
	return err
}

// settle waits for what was enqueued, and forgets it.
func (e *exec) settle() error {
	return errors.Join(e.await(), e.forget())
}

// await waits for the last command. A run may have none.
func (e *exec) await() error {
	if len(e.events) == 0 {
		return nil
	}
	return e.be.drv.wait(e.events[len(e.events)-1])
}

// forget drops the events of a run.
func (e *exec) forget() (err error) {
	for _, ev := range e.events {
		err = errors.Join(err, e.be.drv.forget(ev))
	}
	e.events = e.events[:0]
	return err
}

// Wait returns when the outputs are in host memory.
func (e *exec) Wait() error {
	return errors.Join(e.lanes.Wait(e.await, e.fold), e.forget())
}

// fold puts the device's times into the lane of the queue. The last one is taken
// for the moment at which the host saw the end. Between commands the queue waits: for
// the host, or for the device to begin.
func (e *exec) fold(end int64) error {
	const queue = 1
	_, started := e.lanes.Run()
	n := len(e.lanes.Plan.Steps)
	e.lanes.Span(queue, started, end)
	if len(e.events) == 0 {
		return nil
	}
	_, last, err := e.be.drv.times(e.events[len(e.events)-1])
	if err != nil {
		return err
	}
	shift, before := end-last, started
	set := func(step, from, to int) error {
		if from == to {
			return nil
		}
		begin, _, err := e.be.drv.times(e.events[from])
		if err != nil {
			return err
		}
		_, done, err := e.be.drv.times(e.events[to-1])
		begin = max(begin+shift, before)
		done = max(done+shift, begin)
		e.lanes.Set(queue, step, before, begin, done)
		before = done
		return err
	}
	errs := []error{set(n+device.StepIn, 0, e.marks[0])}
	for i := range n {
		errs = append(errs, set(i, e.marks[i], e.marks[i+1]))
	}
	return errors.Join(append(errs, set(n+device.StepOut, e.marks[n], len(e.events)))...)
}

// Close gives the plan's memory back.
func (e *exec) Close() error {
	errs := []error{e.settle()}
	for _, l := range e.launches {
		errs = append(errs, e.be.drv.drop(l.kernel))
	}
	if e.host != nil {
		errs = append(errs, e.be.drv.unpin(e.host, e.pinned))
	}
	for _, a := range e.blocks {
		e.be.pool.Give(a)
	}
	e.launches, e.host, e.blocks = nil, nil, nil
	return errors.Join(errs...)
}
