package opencl

import (
	"context"
	"encoding/binary"
	"errors"

	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// exec is a plan whose launches are made.
type exec struct {
	be              *Backend
	plan            *plan.Plan
	io              *ioArena
	host            []byte // sizes of the run
	pinned          buffer
	sizes           address
	blocks          []address
	inputs, outputs []travels
	launches        []launch
	begins          []int // [step] its first launch; one more at the end

	// Of the run in flight.
	run     *profile.Run
	started int64
	events  []event // of a profiled run one per command, else the last one
	marks   []int   // [step] its first event; inputs are before the first, outputs behind the last
}

// take gives memory that the plan keeps.
func (e *exec) take(bytes int64, what string) (address, error) {
	a, err := e.be.pool.take(bytes, what)
	if err == nil {
		e.blocks = append(e.blocks, a)
	}
	return a, err
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
	p.Device, p.Lanes, p.HostLanes = "opencl: "+e.be.about.Name, []string{"host", "queue"}, 1
	for i := range p.Steps {
		p.Steps[i].Kernel, p.Steps[i].Class = "opencl", e.plan.Steps[i].Class(len(e.plan.Steps[i].Nodes)-1)
	}
	n := len(p.Steps)
	for i, name := range [extraSteps]string{"inputs", "outputs", "launch", "sync"} {
		p.Steps = append(p.Steps, profile.Step{ID: n + i, Name: name, Op: "transfer", Layer: -1, Host: i >= stepLaunch})
	}
}

// Enqueue enqueues inputs, launches and outputs; nothing of it waits.
func (e *exec) Enqueue(ctx context.Context, b tensor.Bind, run *profile.Run) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for i, v := range []int{b.T, b.S, b.R} {
		binary.LittleEndian.PutUint32(e.host[4*i:], uint32(v))
	}
	e.run, e.events, e.marks = run, e.events[:0], e.marks[:0]
	if run != nil {
		e.started = profile.Now()
	}
	err := e.enqueue(b)
	if err == nil {
		err = e.be.drv.flush()
	}
	if err != nil {
		return errors.Join(err, e.settle())
	}
	if run != nil {
		host, k := &run.Lanes[0], len(e.plan.Steps)+stepLaunch
		host.Wake, host.Arrive[k], host.Begin[k], host.End[k] = e.started, e.started, e.started, profile.Now()
	}
	return nil
}

func (e *exec) enqueue(b tensor.Bind) error {
	at, offset := e.be.pool.buffer(e.sizes)
	if err := e.note(e.be.drv.write(at, offset, e.host, e.run != nil)); err != nil {
		return err
	}
	at, offset = e.be.pool.buffer(e.io.at)
	for _, t := range e.inputs {
		if n := int64(t.rows.Size(b) * t.bytes); n > 0 {
			if err := e.note(e.be.drv.write(at, offset+t.offset, e.io.host[t.offset:t.offset+n], e.run != nil)); err != nil {
				return err
			}
		}
	}
	step := 0
	for i := range e.launches {
		for step < len(e.plan.Steps) && e.begins[step] == i {
			e.marks = append(e.marks, len(e.events))
			step++
		}
		l := &e.launches[i]
		local := [2]int{l.lanes, 1}
		global := [2]int{l.groups[0].of(b) * l.lanes, l.groups[1].of(b)}
		if err := e.note(e.be.drv.launch(l.kernel, global, local, e.run != nil)); err != nil {
			return err
		}
	}
	for ; step <= len(e.plan.Steps); step++ {
		e.marks = append(e.marks, len(e.events))
	}
	for _, t := range e.outputs {
		if n := int64(t.rows.Size(b) * t.bytes); n > 0 {
			if err := e.note(e.be.drv.read(e.io.host[t.offset:t.offset+n], at, offset+t.offset, e.run != nil)); err != nil {
				return err
			}
		}
	}
	return nil
}

// note keeps an event: all of a profiled run, else the last.
func (e *exec) note(ev event, err error) error {
	if err != nil {
		return err
	}
	if e.run == nil && len(e.events) == 1 {
		last := e.events[0]
		e.events[0] = ev
		return e.be.drv.forget(last)
	}
	e.events = append(e.events, ev)
	return nil
}

// settle waits for what was enqueued, and forgets it.
func (e *exec) settle() error {
	if len(e.events) == 0 {
		return nil
	}
	err := e.be.drv.wait(e.events[len(e.events)-1])
	for _, ev := range e.events {
		err = errors.Join(err, e.be.drv.forget(ev))
	}
	e.events = e.events[:0]
	return err
}

// Wait returns when the outputs are in host memory.
func (e *exec) Wait() error {
	if e.run == nil {
		return e.settle()
	}
	run, begin := e.run, profile.Now()
	err := e.be.drv.wait(e.events[len(e.events)-1])
	end := profile.Now()
	host, k := &run.Lanes[0], len(e.plan.Steps)+stepSync
	host.Arrive[k], host.Begin[k], host.End[k], host.Done = begin, begin, end, end
	if err == nil {
		err = e.fold(end)
	}
	e.run = nil
	return errors.Join(err, e.settle())
}

// fold puts the device's times into the lane of the queue. The last one is taken
// for the moment at which the host saw the end.
func (e *exec) fold(end int64) error {
	lane, n := &e.run.Lanes[1], len(e.plan.Steps)
	lane.Wake, lane.Done = e.started, end
	_, last, err := e.be.drv.times(e.events[len(e.events)-1])
	if err != nil {
		return err
	}
	shift := end - last
	set := func(step, from, to int) error {
		if from == to {
			return nil
		}
		begin, _, err := e.be.drv.times(e.events[from])
		if err != nil {
			return err
		}
		_, done, err := e.be.drv.times(e.events[to-1])
		begin = max(begin+shift, e.started)
		lane.Arrive[step], lane.Begin[step], lane.End[step] = begin, begin, max(done+shift, begin)
		return err
	}
	errs := []error{set(n+stepIn, 0, e.marks[0])}
	for i := range n {
		errs = append(errs, set(i, e.marks[i], e.marks[i+1]))
	}
	return errors.Join(append(errs, set(n+stepOut, e.marks[n], len(e.events)))...)
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
		e.be.pool.give(a)
	}
	e.launches, e.host, e.blocks = nil, nil, nil
	return errors.Join(errs...)
}
