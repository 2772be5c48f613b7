// Package null is an asynchronous device made of nothing: it computes with
// the reference implementations on a goroutine of its own, in memory of its
// own, starts late, completes late and out of step with the host. Whoever
// reads an output before Wait, or changes an input after Enqueue, gets caught.
//
// It implements plan.Backend and is registered like a real device; tests run
// on it to keep the seams honest.
package null

import (
	"context"
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

// Backend is a null device.
type Backend struct {
	inner *ref.Backend
	delay time.Duration // upper bound of each wait

	mu  sync.Mutex // guards rng
	rng *rand.Rand
}

// New starts a null device whose delays are drawn up to delay.
func New(delay time.Duration) *Backend {
	return &Backend{inner: ref.New(), delay: delay, rng: rand.New(rand.NewPCG(1, 2))}
}

func (*Backend) Caps() plan.Caps          { return plan.Caps{Name: "null", Workers: 1, Async: true} }
func (*Backend) Patterns() []plan.Pattern { return nil }
func (*Backend) Rules(bool) []plan.Rule   { return nil }

func (b *Backend) Pack(w plan.Weight, f *plan.Format) (plan.Packed, error) {
	return b.inner.Pack(w, f)
}

// deviceArena is memory that the host may only copy to and from.
type deviceArena struct{ ref.HostArena }

func (deviceArena) Host() []byte { return nil }

func (b *Backend) Arena(c plan.Class, bytes int64) (plan.Arena, error) {
	a := ref.NewHostArena(bytes)
	if c == plan.IO {
		return a, nil
	}
	return deviceArena{a}, nil
}

// Bind gives the device its own copy of the IO arena and starts its stream.
func (b *Backend) Bind(p *plan.Plan, m *plan.Memory, o plan.BindOptions) (plan.Exec, error) {
	device := plan.Memory{Weights: m.Weights}
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
		work: make(chan job), done: make(chan error, 1),
	}
	for _, n := range p.Graph.Nodes {
		if n.Leaf != nil && n.Leaf.Kind == graph.InputLeaf {
			e.inputs = append(e.inputs, p.Place(n.Out[0]))
		}
	}
	for _, v := range p.Graph.Outputs {
		if pl := p.Place(v); pl.Class == plan.IO {
			e.outputs = append(e.outputs, pl)
		}
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
	ctx  context.Context
	bind tensor.Bind
	run  *profile.Run
}

// exec is one stream with its own IO memory.
type exec struct {
	be              *Backend
	plan            *plan.Plan
	inner           plan.Exec
	host, device    []byte // IO arenas
	inputs, outputs []plan.Place
	work            chan job
	done            chan error
	run             *profile.Run
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
	e.run = run
	if run != nil {
		host := &run.Lanes[0]
		host.Wake = profile.Now()
		k := len(e.plan.Steps) + stepLaunch
		host.Arrive[k] = host.Wake
		host.Begin[k] = host.Wake
		e.work <- job{ctx, b, run}
		host.End[k] = profile.Now()
		return nil
	}
	e.work <- job{ctx, b, run}
	return nil
}

// Wait blocks until the stream has finished the run.
func (e *exec) Wait() error {
	if e.run == nil {
		return <-e.done
	}
	host := &e.run.Lanes[0]
	k := len(e.plan.Steps) + stepSync
	host.Arrive[k] = profile.Now()
	err := <-e.done
	host.Begin[k] = profile.Now()
	host.End[k] = host.Begin[k]
	host.Done = host.Begin[k]
	e.run = nil
	return err
}

// Close ends the stream.
func (e *exec) Close() error {
	close(e.work)
	return nil
}

// stream is the device: it runs jobs until the exec is closed.
func (e *exec) stream() {
	for j := range e.work {
		e.done <- e.job(j)
	}
}

func (e *exec) job(j job) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("null device: %v", r)
		}
	}()
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
		lane.Arrive[step] = profile.Now()
		lane.Begin[step] = lane.Arrive[step]
		f()
		lane.End[step] = profile.Now()
	}
	stamp(first+stepCopyIn, func() { e.copy(e.device, e.host, e.inputs) })
	// The reference executor stamps lane 0 of the run it is given.
	view := *j.run
	view.Lanes = j.run.Lanes[1:]
	if err := e.inner.Enqueue(j.ctx, j.bind, &view); err != nil {
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
