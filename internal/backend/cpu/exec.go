package cpu

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"unsafe"

	"hotpath/internal/aligned"
	"hotpath/internal/graph"
	"hotpath/internal/limit"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// kernel is a step bound to memory.
type kernel interface {
	// name is the kernel's name in profiles.
	name() string
	// width is the number of shares of the step: at most n, unless a share would
	// delay a cancellation for too long, or small shares cost no more. It depends
	// only on sizes and on integers among the step's operands (exec.looks), so a run
	// with the same ones is cut the same way.
	width(b tensor.Bind, n int) int
	// run computes share i of n. It must not allocate, and the result must not
	// depend on the worker.
	runShare(w *worker, b tensor.Bind, i, n int)
}

// sharesEach is the number of shares of a large step per worker. A worker that
// finishes early takes shares of the others: processors of a shared machine are not
// equally fast, and a barrier waits for the last share.
const sharesEach = 4

// worker is the private state of one worker while it walks the steps.
type worker struct {
	stamps  stamps // of recorded runs
	lane    int
	scratch *scratch
	// epoch changes with each run and each barrier. Data derived from an operand
	// is valid while the epoch is the same.
	epoch uint64
	// next is what the worker reads after the product at hand, if that is known; it
	// may be nil.
	next *byte
	_    [workerSize - 4*8 - unsafe.Sizeof(stamps{})]byte
}

// workerSize is a multiple of a pair of cache lines.
const workerSize = 256

// newWorkers lets each worker begin at a cache line.
func newWorkers(n int) []worker { return aligned.Slice[worker](n) }

// run is the number of the run among those of the exec.
func (w *worker) run() uint64 { return w.epoch >> 32 }

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
	// canaries reports that kernels burn time for the recorder.
	canaries bool
	// Of LabelSteps.
	labelled bool
	program  string

	workers []worker
	serial  bool // workers but the first are helpers, who join runs (join.go)
	joining
	rooms   []room         // scratch that workers have beside their own
	groups  []int          // the first step of each group, and the number of steps
	dead    [][]plan.Place // test mode: poisoned when they die
	queues  []queue        // [worker]
	beds    []bed          // [worker]
	streams []streaming    // [step], nil where weights are not read as a stream
	guides  []guided       // [step], nil where shares are claimed one by one
	looks   []bool         // [step], the number of shares may depend on integers that the step reads; that of products does not
	flights []*flight
	limits  *limit.Classes       // nil: all workers take part in every run
	between func(lane, step int) // a test's hook after a worker's part of a step, outside of its stamps

	run    *profile.Run // of the run in flight
	runs   uint64       // so far
	active int          // workers of the last one
}

// ready prepares for runs, after the kernels are bound.
func (e *exec) ready() {
	n := len(e.workers)
	e.queues, e.beds, e.seats = make([]queue, n), make([]bed, n), make([]atomic.Bool, n)
	for i := range e.beds {
		e.beds[i].wake = make(chan struct{}, 1)
	}
	for i := range e.plan.Steps {
		if i == 0 || e.plan.Steps[i].Barrier || e.dead != nil {
			e.groups = append(e.groups, i)
		}
	}
	e.groups = append(e.groups, len(e.plan.Steps))
	e.streams, e.guides = make([]streaming, len(e.bound)), make([]guided, len(e.bound))
	e.looks = make([]bool, len(e.bound))
	for i, k := range e.bound {
		e.streams[i], _ = k.(streaming)
		e.guides[i], _ = k.(guided)
		e.looks[i] = e.guides[i] == nil && slices.ContainsFunc(e.plan.Steps[i].In, func(v *graph.Value) bool { return v.DType == tensor.I32 })
	}
	for range min(n, flightsReady) {
		e.flights = append(e.flights, newFlight(e))
	}
}

// flightsReady is the number of preallocated flights: for the run, and for late
// workers. There are at most as many flights as workers.
const flightsReady = 4

func (e *exec) Describe(p *profile.Plan) {
	p.Lanes = p.Lanes[:0]
	for i := range e.lanes() {
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
	if e.serial {
		return e.alone(ctx, f, b, run)
	}
	// Steps are cut for the configured workers, however many are active. But nobody takes
	// shares of a worker that is alone, and for that one a large share is faster than some
	// small ones, each of which first waits for its weights.
	configured, active := len(e.workers), len(e.workers)
	var lim *limit.Limiter
	if e.limits != nil && configured > 1 {
		lim = e.limits.Of(b.T)
		if active = lim.Workers(); active == 1 {
			configured = 1
		}
	}
	most := f.prepare(ctx, b, run, configured)
	if f.n = min(most, active); most == 1 && configured > 1 {
		lim = nil // nothing was shared out: there is nothing to learn
	}
	if lim != nil {
		e.be.team.calm.Store(lim.Calm())
	}
	e.active, f.side = f.n, f.n
	if run != nil {
		for i := range run.Lanes {
			run.Lanes[i].Absent = i > 0 // until it has a share
		}
	}
	e.run = run
	err := f.fly(ctx)
	e.run = nil
	if f.job.inside.Load() == 0 { // else a late worker may look at them
		f.forget()
	}
	if err == nil && lim != nil {
		lim.Took(float64(max(1, b.T)), float64(profile.Now()-f.job.began)/1e9, limit.Host)
	}
	return err
}

// lanes is how many workers each run has.
func (e *exec) lanes() int {
	if e.serial {
		return 1
	}
	return len(e.workers)
}

// Active is how many workers the last run had.
func (e *exec) Active() int  { return e.active }
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

// cutStep returns the number of shares of a step for a number of workers, and how many
// of these start with shares of their own.
func cutStep(k kernel, b tensor.Bind, workers int) (shares, n int) {
	most := workers * sharesEach
	if workers == 1 {
		most = 1
	}
	shares = k.width(b, most)
	n = min(workers, shares)
	if shares <= most {
		shares -= shares % n
	}
	return shares, n
}

// walk runs one worker through the steps of a run. A late worker starts at the
// current group of the others.
func (e *exec) walk(f *flight, lane int) {
	defer func() {
		if r := recover(); r != nil {
			buf := make([]byte, 4096)
			f.fail(fmt.Errorf("cpu: worker %d failed: %v\n%s", lane, r, buf[:runtime.Stack(buf, false)]))
		}
	}()
	st := &e.workers[lane].stamps
	if st.slots = nil; f.run != nil {
		st.enter(&f.lanes[lane])
		defer st.leave()
	}
	if e.groupsOf(f, lane, st) {
		st.done()
	}
}

// groupsOf walks the groups of steps, and reports whether it saw the end of the run.
func (e *exec) groupsOf(f *flight, lane int, st *stamps) (done bool) {
	w := &e.workers[lane]
	last := int32(len(e.groups) - 1)
	for g := f.released.Load(); g < last; {
		w.epoch = f.runs<<32 | uint64(g)
		ran := 0
		for i := e.groups[g]; i < e.groups[g+1]; i++ {
			n, ok := f.take(w, i, g, st)
			if !ok {
				return false
			}
			ran += n
			if e.between != nil {
				e.between(lane, i)
				st.detour()
			}
		}
		f.finish(g, ran, st)
		if g+1 == last && lane > 0 {
			return false // only the caller waits for the end
		}
		if !f.await(lane, g+1, st) {
			return false
		}
		g = f.released.Load()
	}
	return lane == 0
}

// stamps are the stamps of one lane in a recorded run. A lane stamps only while
// it has a share: a late lane must not stamp, because the run may be over.
//
// Reading the clock takes 14 ns, and a barrier waits for the last lane. Therefore a lane
// reads it at the end of a step, and while it waits for others, which costs nothing. The
// next step begins with that reading: a lane that does not wait goes on within some tens
// of nanoseconds, and one that waits reads the clock each time before it looks at the
// barrier. Only a lane that did something else meanwhile reads it again (detour).
//
// A step evicts everything from the first cache, so a stamp looks at two cache lines of
// the worker, and at no memory that these do not point to. The processor reads the clock
// when it has all that it loaded before, and loads nothing more until then. So a lane
// first prefetches what other lanes write and it needs next.
type stamps struct {
	slots *profile.LaneSlots   // nil: nothing is recorded
	steps []profile.StepStamps // of slots
	now   int64                // the last reading of the clock, if the next step begins with it; else 0
	since int64                // when the lane began to wait for others; 0: it does not wait
	kept  bool                 // at now: as LaneClock.Look says
	part  bool                 // the lane has a part in the run
	_     [14]byte
	clock profile.LaneClock // lives across runs
	woke  int64
}

func (s *stamps) enter(slots *profile.LaneSlots) {
	s.woke = s.clock.Enter() // first: the clock waits for memory, and slots is cold
	s.slots, s.steps, s.part, s.since, s.now = slots, slots.Steps, false, 0, 0
	profile.ExpectFirst(s.steps)
}

// look is what the clock says now, or said last if the lane has gone straight on since.
func (s *stamps) look() (now int64, kept bool) {
	if s.now != 0 {
		return s.now, s.kept
	}
	return s.clock.Look()
}

// detour says that the lane did something else than its steps.
func (s *stamps) detour() { s.now = 0 }

// begin is called before the first share of a step, with what look said before it was
// claimed. Only the step's own work and its claims are between this stamp and that
// of end. A wait ends here, even if the lane had no share of the steps that were released
// meanwhile.
func (s *stamps) begin(step int, now int64, kept bool) {
	s.join()
	var off int64
	if !kept {
		off, _ = s.clock.Lost()
		now = profile.Now()
	}
	arrive := now
	if s.since != 0 {
		arrive, s.since = s.since, 0
	}
	if !kept {
		s.slots.MarkGap(s.woke, arrive, off)
	}
	st := &s.steps[step]
	st.Arrive, st.Begin = arrive, now
	profile.ExpectAhead(s.steps, step)
}

// join says that the lane has a part in the run.
func (s *stamps) join() {
	if !s.part {
		s.part = true
		s.slots.Enter(s.woke, &s.clock)
	}
}

// waits begins a wait for other workers, and comes before each look whether it is over.
// yields comes before the worker gives its thread to others, and released before it works
// again.
func (s *stamps) waits() {
	if s.slots == nil {
		return
	}
	if s.now, s.kept = s.clock.Look(); s.since == 0 {
		s.since = s.now
	}
}

func (s *stamps) yields() {
	if s.slots != nil {
		s.clock.Out()
	}
}

func (s *stamps) released() {
	if s.slots != nil && !s.clock.Running() {
		s.now, s.kept = s.clock.In(), true
	}
}

// end is called after the last share of a step and before the others know.
func (s *stamps) end(step int) {
	now, kept := s.clock.Look()
	s.steps[step].End, s.slots.Done = now, now
	s.now, s.kept = now, true
	if !kept {
		off, _ := s.clock.Lost()
		s.slots.Mark(step, off)
		s.detour()
	}
}

// done ends the caller's run, which has a part in it whatever it ran.
func (s *stamps) done() {
	if s.slots == nil {
		return
	}
	s.join()
	now, _ := s.look()
	if s.slots.Done = now; s.since != 0 {
		s.slots.Wait = now - s.since
	}
}

// leave records how long the lane's thread had a processor, also after the end of
// the run.
func (s *stamps) leave() {
	if s.part {
		s.clock.Leave(s.slots)
	}
}
