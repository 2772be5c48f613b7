package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"unsafe"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// Slot is one set of inputs and outputs of a session, with room for one run in
// flight. The runs of a session's slots are enqueued by one goroutine at a time,
// and waited for in that order.
type Slot struct {
	sess    *Session
	execs   []Exec     // one per bucket
	running int        // bucket in flight, -1 when idle
	joins   []Joinable // one per bucket, or none
	last    int        // bucket of the last run

	// Of recorded runs, beside the above: a run evicts everything from the caches, and
	// its borders wait for each line that they look at.

	run    *profile.Run
	after  *profile.Run // of the pool, most likely the next run
	plan   recorded     // of run
	of     [2]int       // phase and bucket of plan
	ran    [2]int64     // start and end of the last run, where it was recorded
	folded error        // what folding met since the run began

	plans [][]recorded // [phase][bucket] while a recorder is attached
	mem   Memory       // the session's, with IO of its own
}

// recorded is a plan in one phase, as the recorder knows it.
type recorded struct {
	handle profile.PlanHandle
	costs  *costing
	reads  []reading // of costs
	inputs []int32   // memory for those of the next run
}

// Session is the session that the slot belongs to.
func (sl *Slot) Session() *Session { return sl.sess }

func (sl *Slot) io(v *graph.Value) []byte {
	p := sl.sess.prog.Plans[0].Place(buffer(v))
	if p.Class != IO {
		panic("plan: " + v.String() + " is neither an input nor an output")
	}
	return sl.mem.Arenas[IO].Host()[p.Offset : p.Offset+p.Bytes]
}

// I32 is the host memory of an int32 input or output, at its largest size.
func (sl *Slot) I32(v *graph.Value) []int32 { return asI32(sl.io(v)) }

// F32 is the host memory of a float32 input or output, at its largest size.
func (sl *Slot) F32(v *graph.Value) []float32 { return asF32(sl.io(v)) }

// Enqueue starts a run with the inputs that are in the slot.
func (sl *Slot) Enqueue(ctx context.Context, b tensor.Bind) error {
	if sl.running >= 0 {
		return errors.New("plan: a run is already in flight, wait for it first")
	}
	s := sl.sess
	record := sl.plans != nil && !s.paused
	if record && !s.backend.Async {
		sl.plan.handle.Expect(sl.after)
	}
	sl.run, sl.folded, sl.ran = nil, nil, [2]int64{}
	k, err := s.prog.bucket(b, s.least)
	end := s.end
	s.least, s.end = 0, whole
	if err != nil {
		return err
	}
	if end != whole {
		if s.prog.ends[end] == 0 {
			return fmt.Errorf("plan: %s: the program was compiled without plans for partial runs", s.prog.Name)
		}
		k += s.prog.ends[end]
	}
	if record {
		sl.choose(k)
		record = sl.plan.handle.Records()
	}
	if record {
		if !s.backend.Async {
			// Before Acquire, whose lock waits for all that was touched before it; and now,
			// because the run needs these inputs too.
			inputs := take(sl.plan.reads, b, sl.plan.inputs[:0])
			sl.run = sl.plan.handle.Acquire()
			sl.tell(ctx, b, inputs)
		} else {
			sl.run = sl.plan.handle.Acquire()
		}
		sl.after, sl.run.Start = sl.run.After(), profile.Now()
	}
	if err := sl.execs[k].Enqueue(ctx, b, sl.run); err != nil {
		sl.abandon()
		return err
	}
	sl.running, sl.last = k, k
	if sl.run != nil && s.backend.Async {
		sl.besideRun(ctx, b)
	}
	return nil
}

// choose makes plan the one of a bucket in the session's phase.
func (sl *Slot) choose(bucket int) {
	of := [2]int{sl.sess.phase, bucket}
	if of == sl.of && sl.plan.costs != nil {
		return
	}
	if sl.plan.costs != nil {
		sl.plans[sl.of[0]][sl.of[1]] = sl.plan
	}
	sl.plan, sl.of = sl.plans[of[0]][of[1]], of
}

// tell tells the run what costs and aggregates depend on. inputs are those that costs
// depend on, in the memory of plan.inputs.
func (sl *Slot) tell(ctx context.Context, b tensor.Bind, inputs []int32) {
	run := sl.run
	run.Tokens, run.Sequences, run.Rows = b.T, b.S, b.R
	run.Costing, run.Inputs, sl.plan.inputs = sl.plan.costs, inputs, run.Inputs
	if len(sl.sess.shares) > 0 {
		sl.sess.share(run)
	}
	run.InScope(ctx)
}

// besideRun is what recording does while a device is at work: it costs the caller
// nothing there. The slot keeps its inputs until the run is waited for.
func (sl *Slot) besideRun(ctx context.Context, b tensor.Bind) {
	s := sl.sess
	sl.tell(ctx, b, take(sl.plan.reads, b, sl.plan.inputs[:0]))
	sl.folded = sl.plan.handle.Fold()
	if c := s.counter; c != nil {
		s.rec.CountMemory(s.backend.Name, c.Allocations(), s.look)
	}
	sl.plan.handle.Expect(sl.after)
}

// Wait ends the run that Enqueue started; outputs can be read then.
func (sl *Slot) Wait() error {
	k := sl.running
	if k < 0 {
		return errors.New("plan: no run is in flight")
	}
	sl.running = -1
	if err := sl.execs[k].Wait(); err != nil {
		sl.abandon()
		return err
	}
	if sl.run != nil {
		sl.run.End = profile.Now()
		sl.ran = [2]int64{sl.run.Start, sl.run.End} // Release may give the run to somebody else
		sl.sess.recorded = true
		err := cmp.Or(sl.folded, sl.plan.handle.Release(sl.run))
		if sl.plan.handle.ProbeDue() {
			if p, ok := sl.execs[k].(Prober); ok {
				p.Probe(sl.sess.rec)
			}
		}
		return err
	}
	return nil
}

// Ran returns the start and the end of the last run; 0 if it was not recorded or
// failed.
func (sl *Slot) Ran() (start, end int64) { return sl.ran[0], sl.ran[1] }

// Run is Enqueue and Wait.
func (sl *Slot) Run(ctx context.Context, b tensor.Bind) error {
	if err := sl.Enqueue(ctx, b); err != nil {
		return err
	}
	return sl.Wait()
}

func (sl *Slot) abandon() {
	if sl.run != nil {
		sl.plan.handle.Discard(sl.run)
		sl.run = nil
	}
}

// settle waits for a run in flight.
func (sl *Slot) settle() error {
	if sl.running < 0 {
		return nil
	}
	return sl.Wait()
}

// probeRest takes the samples of ceilings that the recording lacks.
func (sl *Slot) probeRest() {
	for _, e := range sl.execs {
		if p, ok := e.(Prober); ok && sl.sess.recorded {
			p.ProbeRest(sl.sess.rec)
		}
	}
}

// close frees the slot's own memory. No run may be in flight.
func (sl *Slot) close() error {
	var errs []error
	sl.probeRest()
	for _, e := range sl.execs {
		errs = append(errs, e.Close())
	}
	sl.execs = nil
	if a := sl.mem.Arenas[IO]; a != nil {
		errs = append(errs, a.Free())
		sl.mem.Arenas[IO] = nil
	}
	return errors.Join(errs...)
}

func asF32(b []byte) []float32 {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b)/4)
}

func asI32(b []byte) []int32 {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*int32)(unsafe.Pointer(&b[0])), len(b)/4)
}

func bytesOf(f []float32) []byte {
	if len(f) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&f[0])), len(f)*4)
}
