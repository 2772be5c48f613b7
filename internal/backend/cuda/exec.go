package cuda

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"unsafe"

	"hotpath/internal/backend/device"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// exec is a plan whose launches are recorded.
type exec struct {
	be     *Backend
	lanes  device.Lanes
	io     *ioArena
	host   []byte  // sizes of the run, whether it is profiled, then its stamps and ends
	clocks address // stamps on the card: inputs, each step, outputs
	blocks []address
	begins []int // [step] its first launch; one more at the end
	ends   int   // blocks that carry results: each says when it ended
	list   list
	// stamped are the same launches, of which some write the card's clock.
	stamped list
	sent    int64 // bytes that the last run carried to the card
	// end is behind the run where marked says so: another run was enqueued since.
	end    event
	marked bool
}

// Of the sizes in host memory, profiledAt is the one that says whether kernels write
// stamps; stampsAt is where these come to. Behind the stamps are the ends of the blocks
// that carry the results.
const (
	profiledAt = 12
	sizesBytes = 16
	stampsAt   = 64
)

// stamps is the number of stamps that kernels write: inputs, each step, outputs.
func stamps(p *plan.Plan) int { return len(p.Steps) + 2 }

func (e *exec) hostAt(offset int) address { return hostAt(e.host, int64(offset)) }

// take gives memory that the plan keeps.
func (e *exec) take(bytes int64, what string) (address, error) {
	a, err := e.be.pool.Take(bytes, what)
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

// withStamps has the first launch of each step, and the outputs, write the card's clock.
// The inputs, which learn whether the run is profiled, write theirs by themselves.
func (e *exec) withStamps(launches []launch) []launch {
	out := slices.Clone(launches)
	for i, at := range e.begins {
		out[at] = launches[at].stamped(e.clocks + address(8*(i+1)))
	}
	return out
}

func (e *exec) Describe(p *profile.Plan) {
	e.lanes.Describe(p, "cuda", e.be.drv.describe().Name, "stream")
}

// Enqueue replays the launches.
func (e *exec) Enqueue(ctx context.Context, b tensor.Bind, run *profile.Run) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for i, v := range []int{b.T, b.S, b.R} {
		binary.LittleEndian.PutUint32(e.host[4*i:], uint32(v))
	}
	e.sent = e.prepare(b)
	e.lanes.Begin(b, run)
	l, profiled := e.list, uint32(0)
	if run != nil {
		l, profiled = e.stamped, 1
		run.Costs[len(e.lanes.Plan.Steps)+device.StepIn].Bytes = e.sent
	}
	binary.LittleEndian.PutUint32(e.host[profiledAt:], profiled)
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
	e.lanes.Launched()
	return err
}

// prepare decides what of the inputs travels to the card and returns its bytes, the
// sizes of the run included.
func (e *exec) prepare(b tensor.Bind) (bytes int64) {
	for i := range e.lanes.In {
		t := &e.lanes.In[i]
		if !byChanges(t) {
			bytes += t.Size(b)
			continue
		}
		bytes += e.io.changes[t.Offset].prepare(e.io.Host()[t.Offset:t.Offset+t.Size(b)], t.Bytes)
	}
	return bytes + sizesBytes
}

// Wait returns when the outputs are in host memory.
func (e *exec) Wait() error { return e.lanes.Wait(e.await, e.keep) }

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

// keep copies the card's stamps before the next run overwrites them: the last one is the
// end of the last block that carried results. Times are computed when nobody waits.
func (e *exec) keep(int64) error {
	run, _ := e.lanes.Run()
	n := stamps(e.lanes.Plan)
	clocks := unsafe.Slice((*int64)(unsafe.Pointer(&e.host[stampsAt])), n+e.ends)
	run.Timing, run.Stamps = e, append(run.Stamps[:0], clocks[:n]...)
	run.Stamps = append(run.Stamps, slices.Max(clocks[n:])) // some values have fewer blocks, whose ends are 0
	return nil
}

// wholeStamps completes stamps of which a kernel wrote only the lower half. The last one is
// whole; the others follow from it backwards, because each step takes less than 4 seconds.
// Clocks of neighbours may be a little out of order. A step without kernels has no stamp
// and ends where it begins; begins are the first launches of the steps and their end.
func wholeStamps(stamps []int64, begins []int) {
	const late = 1 << 16
	for i := len(stamps) - 2; i >= 0; i-- {
		next := stamps[i+1] + late
		stamps[i] = next - int64(uint32(next)-uint32(stamps[i]))
		if i > 0 && i < len(begins) && begins[i-1] == begins[i] {
			stamps[i] = stamps[i+1]
		}
	}
}

// Times puts the card's stamps into the lane of the stream. Until the first one the
// stream waits: for the launch, and for runs before this one. The plan may be closed.
func (e *exec) Times(run *profile.Run) {
	const stream = 1
	wholeStamps(run.Stamps, e.begins)
	started, end := e.lanes.HostTimes(run)
	n := len(e.lanes.Plan.Steps)
	shift := e.be.clock.Align(run.Stamps[n+2], end)
	at := func(i int) int64 { return max(run.Stamps[i]+shift, started) }
	device.Span(run, stream, started, at(n+2))
	begin := at(1)
	device.Set(run, stream, n+device.StepIn, started, at(0), begin)
	for i := range n {
		next := at(i + 2)
		device.Set(run, stream, i, begin, begin, next)
		begin = next
	}
	device.Set(run, stream, n+device.StepOut, begin, begin, at(n+2))
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
		e.be.pool.Give(a)
	}
	e.blocks = nil
	return errors.Join(errs...)
}
