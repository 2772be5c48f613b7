package profile

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// Options bounds what a [Recorder] keeps. Zero values mean the defaults, and one
// above 1,048,576 counts as that.
type Options struct {
	Plans       int // plans: 256; runs of a further one are not recorded, and the profile warns of it
	Events      int // raw records (lane × step) kept a plan for the trace, half of the first and half of the last runs: 65536; negative keeps none
	Runs        int // raw runs kept a plan, at most: 64
	Scopes      int // distinct scope paths: 4096
	ScopeEvents int // raw scopes kept for the trace: 16384; negative keeps none
	Requests    int // raw requests kept for the trace: 1024; negative keeps none
	Counters    int // counters: 256; a further one records nothing, and the profile warns of it
	Samples     int // raw samples kept of each counter: 1024; negative keeps none
	// Heap counts allocations on the Go heap per scope, run and step. It stops
	// the world for some microseconds at each of their ends, and it serializes
	// steps of concurrent runs. Times of such a recording are not meaningful.
	Heap bool
	// Canary burns small random amounts of time in random steps and keeps them
	// apart, so that the profile can say how well it finds them ([Canaries]).
	Canary bool
	// AtPeak is called when a look at the memory finds more in use than every look
	// before: when a session closes, and at the snapshot. Calls follow each other.
	AtPeak func(*Residency)
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		field *int
		value int
	}{
		{&o.Plans, 256}, {&o.Events, 65536}, {&o.Runs, 64}, {&o.Scopes, 4096},
		{&o.ScopeEvents, 16384}, {&o.Requests, 1024}, {&o.Counters, 256}, {&o.Samples, 1024},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
		*d.field = min(max(*d.field, 0), mostKept)
	}
	return o
}

// mostKept bounds all options: memory for what is kept is reserved at the beginning.
const mostKept = 1 << 20

// Recorder collects runs, scopes, requests and counters within a fixed amount
// of memory. All methods may be called at the same time. [NewRecorder] makes one. Nil records
// nothing.
type Recorder struct {
	opts  Options
	start int64

	mu        sync.Mutex
	plans     []*planFold
	byID      map[string]*planFold
	facts     Facts
	ceilings  map[string]Ceilings
	memory    map[string]int64
	devices   map[string]*DeviceMemory
	overhead  *Overhead
	requests  requestFold
	rounds    []*roundFold
	counters  []*Counter
	refused   int   // calls for a counter beyond the limit
	further   int   // calls for a plan beyond the limit
	odd       int   // values that no file could have, and were left out
	firstOdd  error // about the first of them
	firstErr  error
	badRuns   int64
	abandoned int64

	released *released
	folding  sync.Mutex // held while runs are folded
	folded   int64      // time of that
	spare    []*Run     // memory for the queue of released runs
	taken    []*Run     // from that queue, and not folded yet: Idle has left them
	elapsed  elapsed

	scopes scopeTree

	gc     collections
	wait   waiting
	probes probes
	owners owners
	began  ProcessorStats
	before int64      // from the start of the process
	meter  *heapMeter // nil unless Options.Heap
}

// NewRecorder returns a recorder that keeps at most what opts allows.
func NewRecorder(opts Options) *Recorder {
	calibrate()
	startWatching()
	r := &Recorder{
		opts: opts.withDefaults(), start: Now(),
		byID: map[string]*planFold{}, ceilings: map[string]Ceilings{}, memory: map[string]int64{}, devices: map[string]*DeviceMemory{},
		facts: Facts{Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU()},
	}
	r.requests.kept = newKeeper[Request](r.opts.Requests)
	r.requests.parts = newPartFold(r.opts.Requests)
	if r.opts.Heap {
		r.meter = new(heapMeter)
	}
	r.released, r.spare = newReleased(), make([]*Run, 0, 2*pendingRuns)
	r.elapsed.init()
	r.scopes.init(r)
	r.gc.init()
	r.wait.next = new(atomic.Int64)
	r.wait.counter = &Counter{name: waitingCounter, unit: "threads", kept: newKeeper[Sample](r.opts.Samples)}
	r.began, _ = readProcessor()
	r.before = max(0, sinceStart()-(Now()-r.start))
	return r
}

// Plan registers a plan. Several sessions of one plan register the same id and
// share its aggregates. A plan that has the id of another but is of another model gets that id
// and name with its model behind it; one that differs in steps or lanes gets a number too. Beyond Options.Plans a plan gets
// the handle that records nothing, and the profile warns of it.
func (r *Recorder) Plan(p Plan) (PlanHandle, error) {
	if err := p.check(); err != nil || r.none() {
		return PlanHandle{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if first := r.byID[p.ID]; first != nil && first.plan.Model != p.Model {
		p.ID, p.Name = p.ID+"#"+p.Model, p.Name+", "+p.Model
	}
	id, name := p.ID, p.Name
	for n := 2; r.byID[p.ID] != nil; n++ {
		if f := r.byID[p.ID]; f.plan.Model == p.Model && f.plan.SameShape(&p) {
			return f.handle(), nil
		}
		p.ID, p.Name = fmt.Sprintf("%s#%d", id, n), fmt.Sprintf("%s, %d", name, n)
	}
	if len(r.plans) >= r.opts.Plans {
		r.further++
		return PlanHandle{}, nil
	}
	f := newPlanFold(r, p.clone())
	r.plans = append(r.plans, f)
	r.byID[p.ID] = f
	return f.handle(), nil
}

// none reports whether there is no recorder.
func (r *Recorder) none() bool { return r == nil || r.released == nil }

// PlanHandle is a registered plan. The zero handle records nothing: Acquire
// gives nil and Release of nil does nothing.
type PlanHandle struct {
	fold  *planFold
	queue *released // of fold's recorder: the end of a run has it at hand
	most  int       // runs that wait to be folded
	heap  bool      // the recorder counts allocations
}

func (f *planFold) handle() PlanHandle {
	return PlanHandle{f, f.queue, foldsAfter(len(f.plan.Steps), len(f.plan.Lanes)), f.rec.meter != nil}
}

// Records reports whether there is a plan behind the handle.
func (h PlanHandle) Records() bool { return h.fold != nil }

// Fold folds the runs that were released so far, unless somebody else does. Callers are
// those who have just begun a run on a device and would wait for it: the time is no part
// of the recorder's own. The error is as that of Release.
func (h PlanHandle) Fold() error {
	if h.fold == nil || h.fold.rec.meter != nil { // allocations would count as those of the run
		return nil
	}
	r := h.fold.rec
	if !r.folding.TryLock() {
		return nil
	}
	defer r.folding.Unlock()
	folded := r.folded
	err := r.foldReleased(h.fold)
	r.folded = folded
	return err
}

// ProbeDue reports whether the recorder wants a sample of a ceiling, now that a run
// has ended ([Recorder.TakeProbe]).
func (h PlanHandle) ProbeDue() bool { return h.fold != nil && h.queue.probe.Load() }

// Discard gives back a run that did not complete (cancelled, failed). It is
// counted in the profile and its stamps are dropped.
func (h PlanHandle) Discard(run *Run) {
	if h.fold == nil || run == nil {
		return
	}
	run.Timing = nil
	h.fold.recycle(run)
	r := h.fold.rec
	r.mu.Lock()
	r.abandoned++
	r.mu.Unlock()
}

// Err is the first error that a Release met, with the number of runs that were
// left out, or nil.
func (r *Recorder) Err() error {
	if r.none() {
		return nil
	}
	r.settle(nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.firstErr == nil {
		return nil
	}
	return fmt.Errorf("%d runs left out of the profile, the first because of: %w", r.badRuns, r.firstErr)
}

func (r *Recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.badRuns++
	if r.firstErr == nil {
		r.firstErr = err
	}
}

// leaveOut notes a value that no file could have: the profile warns of it. The caller has mu.
func (r *Recorder) leaveOut(what string, err error) {
	if r.odd++; r.firstOdd == nil {
		r.firstOdd = fmt.Errorf("%s: %w", what, err)
	}
}

// SetFacts describes the machine and the model. Fields left empty keep what
// the recorder found out itself. Facts with a number that no machine has are left out, and
// the profile warns of them.
func (r *Recorder) SetFacts(f Facts) {
	if r.none() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := checkNumbers(&f); err != nil {
		r.leaveOut("facts", err)
		return
	}
	r.facts = r.facts.merge(f)
}

// SetCeilings sets the measured ceilings of a backend. Plans of a backend without
// ceilings use those of the empty name.
func (r *Recorder) SetCeilings(backend string, c Ceilings) error {
	return r.putCeilings(backend, c, true)
}

// DefaultCeilings sets the ceilings of a backend that has none. SetCeilings, before or
// after it, takes precedence.
func (r *Recorder) DefaultCeilings(backend string, c Ceilings) error {
	return r.putCeilings(backend, c, false)
}

func (r *Recorder) putCeilings(backend string, c Ceilings, replace bool) error {
	if err := c.check(); err != nil {
		return fmt.Errorf("profile: ceilings of backend %q: %w", backend, err)
	}
	if r.none() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, set := r.ceilings[backend]; replace || !set {
		r.ceilings[backend] = c.clone()
	}
	return nil
}

// SetMemory sets the bytes of a class of memory that no single plan owns, such as
// weights that all plans share. A number below 0, or of more than an exabyte, is left out,
// and the profile warns of it.
func (r *Recorder) SetMemory(class string, bytes int64) {
	if r.none() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if bytes < 0 || bytes > most {
		r.leaveOut(fmt.Sprintf("memory %q", class), fmt.Errorf("%d bytes, expected 0 to %d", bytes, int64(most)))
		return
	}
	r.memory[class] = bytes
}

// SetOverhead sets the cost of recording, as measured by the caller. One that contradicts
// itself is left out, and the profile warns of it.
func (r *Recorder) SetOverhead(o Overhead) {
	if r.none() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := cmp.Or(checkNumbers(&o), o.Check()); err != nil {
		r.leaveOut("overhead", err)
		return
	}
	r.overhead = &o
}

var errRequest = errors.New("profile: bad request record")

// Request records one served request. FirstToken and OutputTokens are 0 for
// requests that generate nothing.
func (r *Recorder) Request(q Request) error {
	if err := q.check(); err != nil || r.none() {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests.addRequest(q)
	return nil
}
