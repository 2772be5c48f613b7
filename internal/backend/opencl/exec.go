package opencl

import (
	"context"
	"encoding/binary"
	"time"

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
	pinned   address     // of host
	sizes    address
	kept     device.Blocks
	launches []launch
	begins   []int // [step] its first launch; one more at the end
	// apart says that copies have queues of their own: other runs may be in flight.
	// A run that is always alone saves the waits between queues.
	apart bool

	// Of the run in flight.
	events []event // of a profiled run one per command, else those that somebody waits for
	marks  []int   // [step] its first event; inputs are before the first, outputs behind the last
	spans  [][2]int64
}

func (e *exec) Describe(p *profile.Plan) {
	lanes := []string{"queue"}
	if e.apart {
		lanes = append(lanes, "to device", "from device")
	}
	e.lanes.Describe(p, "opencl", e.be.about.Name, lanes...)
}

// newExec is one without launches.
func (b *Backend) newExec() *exec { return &exec{be: b, kept: device.Blocks{Pool: b.pool}} }

// Enqueue enqueues inputs, launches and outputs; nothing of it waits.
func (e *exec) Enqueue(ctx context.Context, b tensor.Bind, run *profile.Run) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	began := time.Now()
	e.events, e.marks = e.events[:0], e.marks[:0]
	e.lanes.Begin(b, run)
	err := e.enqueue(b)
	if err == nil {
		err = e.be.drv.flush()
	}
	if err != nil {
		e.lanes.Drop()
		e.sent = tensor.Bind{}
		return firstOf(err, e.be.drv.finish(), e.settle())
	}
	e.lanes.Launched()
	e.be.counts.runs.Add(1)
	e.be.counts.enqueuing.Add(int64(time.Since(began)))
	return nil
}

func (e *exec) enqueue(b tensor.Bind) error {
	drv, in, run, out := e.be.drv, order{}, order{}, order{}
	if recorded, _ := e.lanes.Run(); recorded != nil {
		in.notice, run.notice, out.notice = timed, timed, timed
	}
	if e.apart {
		in.on, out.on = toDevice, fromDevice
	}
	at, offset := e.be.slabs.at(e.io.At)
	e.spans = spans(e.lanes.In, b, spanGap, e.spans[:0])
	if b != e.sent {
		for i, v := range []int{b.T, b.S, b.R} {
			binary.LittleEndian.PutUint32(e.host[4*i:], uint32(v))
		}
		to, from := e.be.slabs.at(e.sizes)
		if err := e.note(drv.write(to, from, e.host, e.last(in, len(e.spans) == 0))); err != nil {
			return err
		}
		e.sent = b
	}
	for i, s := range e.spans {
		if err := e.note(drv.write(at, offset+s[0], e.io.Host()[s[0]:s[1]], e.last(in, i == len(e.spans)-1))); err != nil {
			return err
		}
	}
	run.after = e.behind()
	e.spans = spans(e.lanes.Out, b, plan.Align, e.spans[:0])
	step := 0
	for i := range e.launches {
		for step < len(e.lanes.Plan.Steps) && e.begins[step] == i {
			e.marks = append(e.marks, len(e.events))
			step++
		}
		l := &e.launches[i]
		if l.idle != nil && i < len(e.launches)-1 && l.idle(b) { // the last has the event
			continue
		}
		if err := e.note(l.start(drv, b, e.last(run, i == len(e.launches)-1))); err != nil {
			return err
		}
		e.be.counts.launches.Add(1)
		run.after = 0 // the queue is in order
	}
	for ; step <= len(e.lanes.Plan.Steps); step++ {
		e.marks = append(e.marks, len(e.events))
	}
	out.after = e.behind()
	for i, s := range e.spans {
		if err := e.note(drv.read(e.io.Host()[s[0]:s[1]], at, offset+s[0], e.last(out, i == len(e.spans)-1))); err != nil {
			return err
		}
		out.after = 0
	}
	return nil
}

// last gives the last command of a kind an event: the end of the run, or what another
// queue waits for.
func (e *exec) last(o order, last bool) order {
	if last {
		o.notice = max(o.notice, ended)
	}
	return o
}

// behind is the event that commands of the next queue wait for; none where there is
// one queue.
func (e *exec) behind() event {
	if !e.apart || len(e.events) == 0 {
		return 0
	}
	return e.events[len(e.events)-1]
}

// spanGap is up to how many bytes between two inputs travel with them: fewer commands
// are worth more. What lies between outputs may be an input, which stays as it is.
const spanGap = 4 << 10

// spans are the parts of the IO arena, [begin, end), that travel in a run: few, since
// neighbours travel together. Values come in the order of their offsets.
func spans(values []device.Travels, b tensor.Bind, gap int64, to [][2]int64) [][2]int64 {
	for i := range values {
		t := &values[i]
		bytes := t.Size(b)
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
	return firstOf(e.await(), e.forget())
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
		err = firstOf(err, e.be.drv.forget(ev))
	}
	e.events = e.events[:0]
	return err
}

// Wait returns when the outputs are in host memory.
func (e *exec) Wait() error {
	return firstOf(e.lanes.Wait(e.await, e.fold), e.forget())
}

// Lanes of a profile, behind the host's.
const (
	laneQueue = iota + 1
	laneIn
	laneOut
)

// fold puts the device's times into the lanes. Between commands a queue waits: for
// the host, for another queue, or for the device to begin.
func (e *exec) fold(end int64) error {
	run, started := e.lanes.Run()
	n := len(e.lanes.Plan.Steps)
	in, out := laneQueue, laneQueue
	if e.apart {
		in, out = laneIn, laneOut
		device.Absent(run, laneIn)
		device.Absent(run, laneOut)
	}
	if len(e.events) == 0 {
		device.Span(run, laneQueue, started, end)
		return nil
	}
	_, last, err := e.be.drv.times(e.events[len(e.events)-1])
	if err != nil {
		return err
	}
	shift := e.be.clock.Align(last, end)
	before := [laneOut + 1]int64{laneQueue: started, laneIn: started, laneOut: started}
	set := func(lane, step, from, to int) error {
		if from == to {
			return nil
		}
		begin, _, err := e.be.drv.times(e.events[from])
		if err != nil {
			return err
		}
		_, done, err := e.be.drv.times(e.events[to-1])
		begin = max(begin+shift, before[lane])
		done = max(done+shift, begin)
		device.Set(run, lane, step, before[lane], begin, done)
		if before[lane] = done; lane != laneQueue {
			device.Span(run, lane, started, done)
		}
		return err
	}
	errs := []error{set(in, n+device.StepIn, 0, e.marks[0])}
	for i := range n {
		errs = append(errs, set(laneQueue, i, e.marks[i], e.marks[i+1]))
	}
	errs = append(errs, set(out, n+device.StepOut, e.marks[n], len(e.events)))
	// The queue has left the run before the host sees the end, and before outputs
	// travel in a queue of their own.
	device.Span(run, laneQueue, started, before[laneQueue])
	return firstOf(errs...)
}

// Close gives the plan's memory back.
func (e *exec) Close() error {
	errs := []error{e.settle()}
	for _, l := range e.launches {
		errs = append(errs, e.be.drv.drop(l.kernel))
	}
	e.be.hosts.Give(e.pinned)
	e.kept.Give()
	e.launches, e.host, e.pinned = nil, nil, 0
	return firstOf(errs...)
}
