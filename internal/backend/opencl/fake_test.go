package opencl

import (
	"fmt"
	"sync"
)

// fake is a runtime without a device: memory is Go's, launches are counted and
// compute nothing. It fails when it is told to.
type fake struct {
	mu      sync.Mutex
	next    uintptr
	buffers map[buffer][]byte
	events  map[event]bool
	spans   map[event][2]int64 // when commands ran, by the device's clock
	ends    [numQueues]int64   // of the last command of each queue
	ran     []command
	waits   int
	kernels map[kernel]string
	limits  map[string]int // work items of a group, of kernels with fewer than the device
	about   description
	creates int
	used    int64
	room    int64 // bytes that can be allocated; 0: no limit
	runs    []string
	writes  int
	closed  bool
	builds  int
	loads   int
	refuses bool // binaries

	failBuild, failLaunch, failWait error // of the next call
}

// command is one that ran.
type command struct {
	on         queue
	begin, end int64
}

// Lengths of commands in nanoseconds. A kernel is long against what the host does.
const (
	fakeCopy   = 10
	fakeKernel = 1e9
)

func newFake() *fake {
	return &fake{buffers: map[buffer][]byte{}, events: map[event]bool{}, spans: map[event][2]int64{}, kernels: map[kernel]string{},
		about: description{Name: "fake", Driver: "1", Units: 4, Memory: 1 << 30, Largest: 1 << 28, Local: 32 << 10, Items: 256}}
}

func (f *fake) handle() uintptr {
	f.next++
	return f.next
}

// simulate runs a command of some length on the device's clock: behind those of its
// queue, and behind the event that it waits for.
func (f *fake) simulate(o order, length int64) (event, error) {
	begin := max(f.ends[o.on], f.spans[o.after][1])
	if o.after != 0 && !f.events[o.after] {
		return 0, fmt.Errorf("a command waits for event %d, which is forgotten", o.after)
	}
	f.ends[o.on] = begin + length
	f.ran = append(f.ran, command{o.on, begin, begin + length})
	if o.notice == quiet {
		return 0, nil
	}
	e := event(f.handle())
	f.events[e], f.spans[e] = true, [2]int64{begin, begin + length}
	return e, nil
}

func (f *fake) describe() description { return f.about }

func (f *fake) create(bytes int64) (buffer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.room > 0 && f.used+bytes > f.room {
		return 0, failure("clCreateBuffer", -4)
	}
	f.creates++
	f.used += bytes
	b := buffer(f.handle())
	f.buffers[b] = make([]byte, bytes)
	return b, nil
}

func (f *fake) release(b buffer) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.buffers[b] == nil {
		return fmt.Errorf("buffer %d is released twice", b)
	}
	f.used -= int64(len(f.buffers[b]))
	delete(f.buffers, b)
	return nil
}

func (f *fake) pinned(bytes int64) ([]byte, buffer, error) {
	b, err := f.create(bytes)
	return f.buffers[b], b, err
}

func (f *fake) unpin(_ []byte, b buffer) error { return f.release(b) }

func (f *fake) build(string, string) (program, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.builds++
	err := f.failBuild
	f.failBuild = nil
	return program(f.handle()), err
}

func (f *fake) binary(program) ([]byte, error) { return []byte("a binary"), nil }

func (f *fake) load(data []byte, _ string) (program, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if string(data) != "a binary" || f.refuses {
		return 0, failure("clCreateProgramWithBinary", -42)
	}
	f.loads++
	return program(f.handle()), nil
}

func (f *fake) kernel(_ program, name string) (kernel, error) {
	k := kernel(f.handle())
	f.kernels[k] = name
	return k, nil
}

func (f *fake) limit(k kernel) (int, error) {
	if most, ok := f.limits[f.kernels[k]]; ok {
		return most, nil
	}
	return f.about.Items, nil
}

func (f *fake) set(kernel, int, []byte) error { return nil }

func (f *fake) drop(k kernel) error {
	delete(f.kernels, k)
	return nil
}

func (f *fake) write(b buffer, offset int64, src []byte, o order) (event, error) {
	copy(f.buffers[b][offset:], src)
	f.writes++
	return f.simulate(o, fakeCopy)
}

func (f *fake) read(dst []byte, b buffer, offset int64, o order) (event, error) {
	copy(dst, f.buffers[b][offset:])
	return f.simulate(o, fakeCopy)
}

func (f *fake) fill(buffer, int64, int64) error { return nil }

func (f *fake) launch(k kernel, global, local [2]int, o order) (event, error) {
	if err := f.failLaunch; err != nil {
		f.failLaunch = nil
		return 0, err
	}
	for i := range global {
		if local[i] < 1 || global[i] < 1 || global[i]%local[i] != 0 {
			return 0, failure("clEnqueueNDRangeKernel", -54)
		}
	}
	f.runs = append(f.runs, f.kernels[k])
	return f.simulate(o, fakeKernel)
}

func (f *fake) flush() error { return nil }

func (f *fake) finish() error {
	f.waits++
	return nil
}

func (f *fake) wait(event) error {
	f.waits++
	err := f.failWait
	f.failWait = nil
	return err
}

func (f *fake) times(e event) (int64, int64, error) { return f.spans[e][0], f.spans[e][1], nil }

func (f *fake) forget(e event) error {
	if !f.events[e] {
		return fmt.Errorf("event %d is forgotten twice", e)
	}
	delete(f.events, e)
	return nil
}

func (f *fake) close() error {
	f.closed = true
	return nil
}
