package cpu

import (
	"context"
	"fmt"
	"runtime"

	"hotpath/internal/limit"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// kernel is a step bound to memory.
type kernel interface {
	// name says what runs, for the profile.
	name() string
	// width is into how many shares the step is worth cutting: at most n, unless
	// a share would take so long that who cancels would wait for it, or small
	// ones cost no more. It depends on the sizes only, so all workers agree on
	// it.
	width(b tensor.Bind, n int) int
	// run does share i of n. It must not allocate, and what it computes must
	// not depend on who does it.
	run(w *worker, b tensor.Bind, i, n int)
}

// sharesEach is how many shares of a large step each worker begins with. One
// that is done early takes over from the others: processors of a shared
// machine are not equally fast, and a barrier waits for the last.
const sharesEach = 4

// worker is what one worker has for itself while it walks the steps.
type worker struct {
	lane    int
	scratch *scratch
	// epoch changes with each run and each barrier: what was derived from an
	// operand stays valid while it is the same.
	epoch uint64
	_     [64]byte
}

// exec walks the steps of a plan with the team. Steps between two barriers are a
// group. Each step is cut into shares, which workers claim (flight.go).
type exec struct {
	be      *Backend
	plan    *plan.Plan
	mem     *plan.Memory
	kernels []kernel // of the next run
	bound   []kernel // as they were bound: what kernels is unless Delay or LabelSteps say otherwise
	delays  *delays  // that kernels are made for
	counted bool     // kernels count what they allocate
	// canaries says that kernels burn time for the recorder.
	canaries bool
	// Of LabelSteps.
	labelled bool
	program  string

	workers []worker
	groups  []int          // the first step of each group, and the number of steps
	dead    [][]plan.Place // test mode: poisoned when they die
	queues  []queue        // [worker]
	beds    []bed          // [worker]
	flights []*flight
	limits  *limit.Classes // nil: all workers take part in every run

	run  *profile.Run // of the run in flight
	runs uint64       // so far
}

// ready prepares what runs need, once the kernels are bound.
func (e *exec) ready() {
	n := len(e.workers)
	e.queues, e.beds = make([]queue, n), make([]bed, n)
	for i := range e.beds {
		e.beds[i].wake = make(chan struct{}, 1)
	}
	for i := range e.plan.Steps {
		if i == 0 || e.plan.Steps[i].Barrier || e.dead != nil {
			e.groups = append(e.groups, i)
		}
	}
	e.groups = append(e.groups, len(e.plan.Steps))
	for range min(n, flightsReady) {
		e.flights = append(e.flights, newFlight(e))
	}
}

// flightsReady is how many flights are made before a run needs them: for the
// run, and for workers that are late. There are at most as many as workers.
const flightsReady = 4

func (e *exec) Describe(p *profile.Plan) {
	p.Lanes, p.Walks = p.Lanes[:0], true
	for i := range e.workers {
		p.Lanes = append(p.Lanes, fmt.Sprintf("worker %d", i))
	}
	for i := range p.Steps {
		p.Steps[i].Kernel = e.bound[i].name()
		p.Steps[i].Class = string(classOf(&e.plan.Steps[i]))
	}
}

// Enqueue runs the plan to its end: the CPU completes inside.
func (e *exec) Enqueue(ctx context.Context, b tensor.Bind, run *profile.Run) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if d, counted, canaries := e.be.delays.Load(), run.CountsHeap(), run.HasCanaries(); d != e.delays || counted != e.counted || canaries != e.canaries {
		e.delays, e.counted, e.canaries = d, counted, canaries
		e.kernels = e.dressed(d)
	}
	f := e.flight()
	most := f.prepare(ctx, b, run)
	var lim *limit.Limiter
	if f.n = most; most > 1 && e.limits != nil {
		lim = e.limits.Of(b.T)
		f.n = min(most, lim.Workers())
	}
	if run != nil {
		for i := range run.Lanes {
			run.Lanes[i].Absent = i > 0 // until it has a share
		}
	}
	e.run = run
	err := f.fly(ctx)
	e.run = nil
	if f.job.inside.Load() == 0 { // else a late worker may look at them
		f.ctx, f.run = nil, nil
	}
	if err == nil && lim != nil {
		lim.Took(float64(max(1, b.T)), float64(profile.Now()-f.job.began)/1e9, limit.Host)
	}
	return err
}

func (e *exec) Wait() error  { return nil }
func (e *exec) Close() error { return nil }

// flight is one that no late worker is inside of.
func (e *exec) flight() *flight {
	for _, f := range e.flights {
		if f.job.inside.Load() == 0 {
			return f
		}
	}
	f := newFlight(e)
	e.flights = append(e.flights, f)
	return f
}

// cut is into how many shares a step is cut, and how many workers begin with
// one or more of them: with equally many, unless there are more than enough. It
// depends on the workers that there are, never on those that take part.
func (e *exec) cut(k kernel, b tensor.Bind) (shares, n int) {
	most := len(e.workers) * sharesEach
	if len(e.workers) == 1 {
		most = 1
	}
	shares = k.width(b, most)
	n = min(len(e.workers), shares)
	if shares <= most {
		shares -= shares % n
	}
	return shares, n
}

// walk is one worker's way through the steps of a run. A worker that comes late
// begins with the group that the others are at.
func (e *exec) walk(f *flight, lane int) {
	defer func() {
		if r := recover(); r != nil {
			buf := make([]byte, 4096)
			f.fail(fmt.Errorf("cpu: worker %d failed: %v\n%s", lane, r, buf[:runtime.Stack(buf, false)]))
		}
	}()
	w := &e.workers[lane]
	var st stamps
	if f.run != nil {
		st.enter(&f.run.Lanes[lane], lane)
	}
	last := int32(len(e.groups) - 1)
	for g := f.released.Load(); g < last; {
		w.epoch = f.runs<<32 | uint64(g)
		ran := 0
		for i := e.groups[g]; i < e.groups[g+1]; i++ {
			n, ok := f.take(w, i, &st)
			if !ok {
				return
			}
			ran += n
		}
		f.finish(g, ran)
		if g+1 == last && lane > 0 {
			return // only the caller waits for the end
		}
		waited, ok := f.await(lane, g+1)
		if !ok {
			return
		}
		st.waited = st.waited || waited
		g = f.released.Load()
	}
	st.leave()
}

// stamps is what a lane of a run that is recorded notes. A lane stamps only while
// it has a share: others may be late, and the run be over.
type stamps struct {
	slots  *profile.LaneSlots // nil: nothing is recorded
	lane   int
	woke   int64
	left   int64 // when the last stamped step, or the way into the run, ended
	waited bool  // since then
}

func (s *stamps) enter(slots *profile.LaneSlots, lane int) {
	s.slots, s.lane, s.woke = slots, lane, profile.Now()
	s.left = s.woke
}

// begin is called with the first share of a step. A worker is on its way to a
// barrier from the end of what it did last, so that needs no stamp of its own,
// and who did not wait begins then.
func (s *stamps) begin(step int) {
	if s.slots == nil {
		return
	}
	if s.slots.Wake == 0 {
		s.slots.Enter(s.woke)
	}
	if s.waited {
		s.left, s.waited = profile.Now(), false
	}
	s.slots.Begin[step] = s.left
	s.slots.Expect(step)
}

// end is called after the last share of a step and before the others know.
func (s *stamps) end(step int) {
	if s.slots == nil {
		return
	}
	s.left = profile.Now()
	s.slots.End[step], s.slots.Done = s.left, s.left
}

// leave ends the caller's run, which has a part in it whatever it ran.
func (s *stamps) leave() {
	if s.slots == nil || s.lane > 0 {
		return
	}
	if s.slots.Wake == 0 {
		s.slots.Enter(s.woke)
	}
	s.slots.Done = profile.Now()
}
