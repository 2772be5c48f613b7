// Package null is an asynchronous device without hardware. It computes with the
// reference implementations in memory of its own, and starts and completes after
// random delays. So tests fail if a caller reads an output before Wait, or changes an
// input after Enqueue.
//
// Tests use it to check the interface that devices need. It has two IO slots per
// session, buckets of its own, weights that must be freed, ops that it lacks
// (Lacks) and faults (Fail). It implements plan.Backend and is registered like a
// real device.
package null

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"hotpath/internal/backend/ref"
	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// Backend is a null device. Fields are set before it is used.
type Backend struct {
	// Lacks reports which nodes the device has no kernel for; nil: none. They run
	// on the host, unless Refuses is set: then programs with such nodes are
	// refused.
	Lacks   func(n *graph.Node) bool
	Refuses bool
	// Fail is asked before each call of the device and may make it fail: pack,
	// arena, bind, enqueue, run. nil: nothing fails.
	Fail func(call string) error
	// Runs are the sizes of runs that it names.
	Runs plan.RunSizes

	inner *ref.Backend
	delay time.Duration // upper bound of each wait

	mu      sync.Mutex
	rng     *rand.Rand
	turn    *sync.Cond // a run has ended
	queued  int        // runs that were enqueued so far
	ended   int        // of them, in that order: the device has one stream
	live    int        // weights that are packed and not freed
	flights [2]int     // runs in flight now, and at most
}

// New makes a null device whose delays are drawn up to delay.
func New(delay time.Duration) *Backend {
	b := &Backend{inner: ref.New(), delay: delay, rng: rand.New(rand.NewPCG(1, 2))}
	b.turn = sync.NewCond(&b.mu)
	return b
}

func (b *Backend) Caps() plan.Caps {
	return plan.Caps{Name: "null", Workers: 1, Async: true, Host: !b.Refuses, Buckets: []int{1, 16}, Runs: b.Runs}
}
func (b *Backend) Supports(n *graph.Node) bool { return b.Lacks == nil || !b.Lacks(n) }
func (*Backend) Patterns() []plan.Pattern      { return nil }
func (*Backend) Rules(bool) []plan.Rule        { return nil }

func (b *Backend) fail(call string) error {
	if b.Fail == nil {
		return nil
	}
	return b.Fail(call)
}

// packed is a weight on the device.
type packed struct {
	plan.Packed
	be *Backend
}

func (b *Backend) Pack(w plan.Weight, f *plan.Format) (plan.Packed, error) {
	if err := b.fail("pack"); err != nil {
		return nil, err
	}
	p, err := b.inner.Pack(w, f)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.live++
	return &packed{p, b}, nil
}

// Free gives the weight's memory back.
func (p *packed) Free() error {
	p.be.mu.Lock()
	defer p.be.mu.Unlock()
	if p.Packed == nil {
		return errors.New("null: a weight is freed twice")
	}
	p.Packed = nil
	p.be.live--
	return nil
}

// Live is the number of weights that are packed and not freed.
func (b *Backend) Live() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.live
}

// Flights is the largest number of runs that were in flight at the same time.
func (b *Backend) Flights() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.flights[1]
}

// deviceArena is memory that the host may only copy to and from.
type deviceArena struct{ ref.HostArena }

func (deviceArena) Host() []byte { return nil }

func (b *Backend) Arena(c plan.Class, bytes int64) (plan.Arena, error) {
	if err := b.fail("arena"); err != nil {
		return nil, err
	}
	a := ref.NewHostArena(bytes)
	if c == plan.IO {
		return a, nil
	}
	return deviceArena{a}, nil
}

// Bind gives the device its own copy of the IO arena and starts a goroutine.
func (b *Backend) Bind(p *plan.Plan, m *plan.Memory, o plan.BindOptions) (plan.Exec, error) {
	if err := b.fail("bind"); err != nil {
		return nil, err
	}
	device := plan.Memory{Weights: make([]plan.Packed, len(m.Weights))}
	for i, w := range m.Weights {
		if w != nil {
			device.Weights[i] = w.(*packed).Packed
		}
	}
	for c, a := range m.Arenas {
		switch a := a.(type) {
		case deviceArena:
			device.Arenas[c] = a.HostArena
		case ref.HostArena:
			device.Arenas[c] = ref.NewHostArena(int64(len(a)))
		}
	}
	inner, err := b.inner.Bind(p, &device, o)
	if err != nil {
		return nil, err
	}
	e := &exec{
		be: b, plan: p, inner: inner,
		host: m.Arenas[plan.IO].Host(), device: device.Arenas[plan.IO].Host(),
		work: make(chan job, 1), done: make(chan error, 1),
	}
	in, out := p.Travel()
	for _, v := range in {
		e.inputs = append(e.inputs, p.Place(v))
	}
	for _, v := range out {
		e.outputs = append(e.outputs, p.Place(v))
	}
	go e.stream()
	return e, nil
}

func (b *Backend) Close() error { return nil }

func (b *Backend) pause() {
	if b.delay <= 0 {
		return
	}
	b.mu.Lock()
	d := time.Duration(b.rng.Int64N(int64(b.delay)))
	b.mu.Unlock()
	time.Sleep(d)
}

type job struct {
	ctx    context.Context
	bind   tensor.Bind
	run    *profile.Run // nil: not recorded
	ticket int
}

// ticket is the place of a new run behind those that were enqueued before.
func (b *Backend) ticket() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flights[0]++
	b.flights[1] = max(b.flights[1], b.flights[0])
	b.queued++
	return b.queued - 1
}

// inTurn calls f when all runs before it have ended.
func (b *Backend) inTurn(ticket int, f func() error) error {
	b.mu.Lock()
	for b.ended != ticket {
		b.turn.Wait()
	}
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.ended++
		b.turn.Broadcast()
	}()
	return f()
}

// landed counts a run that was waited for.
func (b *Backend) landed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flights[0]--
}

// exec is a plan with its own IO memory on the device.
type exec struct {
	be              *Backend
	plan            *plan.Plan
	inner           plan.Exec
	host, device    []byte // IO arenas
	inputs, outputs []plan.Place
	work            chan job
	done            chan error
	run             *profile.Run
	view            profile.Run // of run, for the reference executor, which stamps its first lane
}

// Steps that the device adds behind the plan's own. Host steps belong to the
// host lane, copies to the stream.
const (
	stepCopyIn = iota
	stepCopyOut
	stepLaunch
	stepSync
	extraSteps
)

func (e *exec) Describe(p *profile.Plan) {
	e.inner.Describe(p)
	p.Device, p.Lanes, p.HostLanes = "null:0", []string{"host", "null:0 stream"}, 1
	n := len(p.Steps)
	for i, name := range [extraSteps]string{"copy in", "copy out", "launch", "sync"} {
		p.Steps = append(p.Steps, profile.Step{ID: n + i, Name: name, Op: "transfer", Layer: -1, Host: i >= stepLaunch})
	}
}

func (e *exec) Enqueue(ctx context.Context, b tensor.Bind, run *profile.Run) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if err := e.be.fail("enqueue"); err != nil {
		return err
	}
	e.run = run
	j := job{ctx: ctx, bind: b, run: run, ticket: e.be.ticket()}
	if run == nil {
		e.work <- j
		return nil
	}
	e.view = *run // now: later the session tells the run its sizes
	e.view.Lanes = run.Lanes[1:]
	host := &run.Lanes[0]
	host.Wake = profile.Now()
	k := len(e.plan.Steps) + stepLaunch
	host.Steps[k].Arrive = host.Wake
	host.Steps[k].Begin = host.Wake
	e.work <- j
	host.Steps[k].End = profile.Now()
	return nil
}

// Wait blocks until the stream has finished the run.
func (e *exec) Wait() error {
	defer e.be.landed()
	if e.run == nil {
		return <-e.done
	}
	host := &e.run.Lanes[0]
	k := len(e.plan.Steps) + stepSync
	// From the launch on the host had no part in the run.
	host.Steps[k].Arrive = host.Steps[len(e.plan.Steps)+stepLaunch].End
	err := <-e.done
	host.Steps[k].Begin = profile.Now()
	host.Steps[k].End = host.Steps[k].Begin
	host.Done = host.Steps[k].Begin
	e.run = nil
	return err
}

// Close ends the stream.
func (e *exec) Close() error {
	close(e.work)
	return nil
}

// stream runs jobs until the exec is closed.
func (e *exec) stream() {
	for j := range e.work {
		e.done <- e.be.inTurn(j.ticket, func() error { return e.job(j) })
	}
}

func (e *exec) job(j job) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("null device: %v", r)
		}
	}()
	if err := e.be.fail("run"); err != nil {
		return err
	}
	e.be.pause()
	if j.run == nil {
		e.copy(e.device, e.host, e.inputs)
		if err := e.inner.Enqueue(j.ctx, j.bind, nil); err != nil {
			return err
		}
		e.be.pause()
		e.copy(e.host, e.device, e.outputs)
		return nil
	}
	lane := &j.run.Lanes[1]
	wake := profile.Now()
	first := len(e.plan.Steps)
	stamp := func(step int, f func()) {
		lane.Steps[step].Arrive = profile.Now()
		lane.Steps[step].Begin = lane.Steps[step].Arrive
		f()
		lane.Steps[step].End = profile.Now()
	}
	stamp(first+stepCopyIn, func() { e.copy(e.device, e.host, e.inputs) })
	if err := e.inner.Enqueue(j.ctx, j.bind, &e.view); err != nil {
		return err
	}
	lane.Wake = wake
	stamp(first+stepCopyOut, func() { e.be.pause(); e.copy(e.host, e.device, e.outputs) })
	lane.Done = profile.Now()
	return nil
}

func (e *exec) copy(dst, src []byte, places []plan.Place) {
	for _, p := range places {
		copy(dst[p.Offset:p.Offset+p.Bytes], src[p.Offset:p.Offset+p.Bytes])
	}
}
