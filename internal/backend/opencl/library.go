//go:build linux && !nogpu

package opencl

import (
	"fmt"
	"sync"
	"unsafe"
)

// library is a device of the machine.
type library struct {
	*icd
	place
	context uintptr
	queues  [2][numQueues]uintptr // the second set takes times
	mu      sync.Mutex
	busy    int // the set that was used last
}

// openDriver opens a device, counted from 0 over all platforms.
func openDriver(number int) (driver, error) {
	l, err := loadICD()
	if err != nil {
		return nil, err
	}
	places, err := l.devices()
	if err != nil {
		return nil, err
	}
	if number < 0 || number >= len(places) {
		return nil, fmt.Errorf("%w: device %d, expected one of %d counted from 0", ErrDevice, number, len(places))
	}
	d := &library{icd: l, place: places[number]}
	device := d.device
	if d.context, err = l.object(createContext, 0, 1, uintptr(unsafe.Pointer(&device)), 0, 0); err != nil {
		return nil, err
	}
	for set, properties := range []uintptr{0, 2} { // 2: with times
		for q := range numQueues {
			if d.queues[set][q], err = l.object(createCommandQueue, d.context, device, properties); err != nil {
				return nil, firstOf(err, d.close())
			}
		}
	}
	return d, nil
}

func (d *library) describe() description { return d.about }

func (d *library) create(bytes int64) (buffer, error) {
	const readWrite = 1
	h, err := d.object(createBuffer, d.context, readWrite, uintptr(bytes), 0)
	return buffer(h), err
}

func (d *library) release(b buffer) error { return d.call(releaseMemObject, uintptr(b)) }

func (d *library) pinned(bytes int64) ([]byte, buffer, error) {
	const readWrite, allocHost = 1, 16
	h, err := d.object(createBuffer, d.context, readWrite|allocHost, uintptr(bytes), 0)
	if err != nil {
		return nil, 0, err
	}
	const mapRead, mapWrite = 1, 2
	q, err := d.on(order{})
	if err != nil {
		return nil, 0, firstOf(err, d.release(buffer(h)))
	}
	p, err := d.object(enqueueMapBuffer, q, h, 1, mapRead|mapWrite, 0, uintptr(bytes), 0, 0, 0)
	if err != nil {
		return nil, 0, firstOf(err, d.release(buffer(h)))
	}
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&p)), bytes), buffer(h), nil
}

func (d *library) unpin(host []byte, b buffer) error {
	q, err := d.on(order{})
	if err == nil {
		err = d.call(enqueueUnmapMemObject, q, uintptr(b), uintptr(unsafe.Pointer(&host[0])), 0, 0, 0)
	}
	return firstOf(err, d.finish(), d.release(b))
}

// on is the queue for an order. Whoever changes the set of queues waits for the other
// one: commands of a queue run in the order in which they were enqueued.
func (d *library) on(o order) (uintptr, error) {
	want := 0
	if o.notice == timed {
		want = 1
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy != want {
		if err := d.each(finishQueue, d.busy); err != nil {
			return 0, err
		}
		d.busy = want
	}
	return d.queues[want][o.on], nil
}

// each calls a function for every queue of a set.
func (d *library) each(f entry, set int) (err error) {
	for _, q := range d.queues[set] {
		err = firstOf(err, d.call(f, q))
	}
	return err
}

// submission is what a call that enqueues a command reads and writes: kept, since a run
// makes hundreds of such calls.
type submission struct {
	after, own uintptr // events
	sizes      [4]uint64
	args       [16]uintptr
}

var submissions = sync.Pool{New: func() any { return new(submission) }}

// enqueue makes a call that enqueues a command: the queue before its arguments, and
// behind them the list of events to wait for and where the command's own goes.
//
//go:uintptrescapes
func (d *library) enqueue(f entry, o order, args ...uintptr) (event, error) {
	s := submissions.Get().(*submission)
	defer submissions.Put(s)
	return d.submit(s, f, o, copy(s.args[1:], args))
}

// submit is enqueue with n arguments that s holds, behind the place of the queue.
func (d *library) submit(s *submission, f entry, o order, n int) (event, error) {
	q, err := d.on(o)
	if err != nil {
		return 0, err
	}
	s.after, s.own = uintptr(o.after), 0
	s.args[0] = q
	all := s.args[:1+n]
	if o.after == 0 {
		all = append(all, 0, 0)
	} else {
		all = append(all, 1, uintptr(unsafe.Pointer(&s.after)))
	}
	if o.notice == quiet {
		all = append(all, 0)
	} else {
		all = append(all, uintptr(unsafe.Pointer(&s.own)))
	}
	err = d.call(f, all...)
	return event(s.own), err
}

func (d *library) write(b buffer, offset int64, src []byte, o order) (event, error) {
	return d.enqueue(enqueueWriteBuffer, o, uintptr(b), nonBlocking, uintptr(offset), uintptr(len(src)), uintptr(unsafe.Pointer(&src[0])))
}

func (d *library) read(dst []byte, b buffer, offset int64, o order) (event, error) {
	return d.enqueue(enqueueReadBuffer, o, uintptr(b), nonBlocking, uintptr(offset), uintptr(len(dst)), uintptr(unsafe.Pointer(&dst[0])))
}

// nonBlocking is what makes a copy return before it is made.
const nonBlocking = 0

func (d *library) fill(b buffer, offset, bytes int64) error {
	zero := new(uint32)
	_, err := d.enqueue(enqueueFillBuffer, order{}, uintptr(b), uintptr(unsafe.Pointer(zero)), 4, uintptr(offset), uintptr(bytes))
	return firstOf(err, d.finish())
}

func (d *library) launch(k kernel, global, local [2]int, o order) (event, error) {
	s := submissions.Get().(*submission)
	defer submissions.Put(s)
	s.sizes = [4]uint64{uint64(global[0]), uint64(global[1]), uint64(local[0]), uint64(local[1])}
	return d.submit(s, enqueueNDRangeKernel, o, copy(s.args[1:], []uintptr{uintptr(k), 2, 0, uintptr(unsafe.Pointer(&s.sizes[0])), uintptr(unsafe.Pointer(&s.sizes[2]))}))
}

// last is the set of queues that was used last: the other one is empty.
func (d *library) last() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.busy
}

func (d *library) flush() error { return d.each(flushQueue, d.last()) }

func (d *library) finish() error { return d.each(finishQueue, d.last()) }

func (d *library) wait(e event) error {
	h := uintptr(e)
	return d.call(waitForEvents, 1, uintptr(unsafe.Pointer(&h)))
}

func (d *library) times(e event) (begin, end int64, err error) {
	const start, finish = 0x1282, 0x1283
	for id, to := range map[uintptr]*int64{start: &begin, finish: &end} {
		err = firstOf(err, d.call(getEventProfilingInfo, uintptr(e), id, 8, uintptr(unsafe.Pointer(to)), 0))
	}
	return begin, end, err
}

func (d *library) forget(e event) error { return d.call(releaseEvent, uintptr(e)) }

// close gives back everything, and returns the first error: a device that failed fails
// at every queue.
func (d *library) close() (err error) {
	for _, set := range d.queues {
		for _, q := range set {
			if q != 0 {
				err = firstOf(err, d.call(finishQueue, q), d.call(releaseCommandQueue, q))
			}
		}
	}
	return firstOf(err, d.call(releaseContext, d.context))
}
