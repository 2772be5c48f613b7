package engine

import (
	"slices"

	"hotpath/internal/calib"
)

// settle gives a run's rows to their callers.
func (m *embedder) settle(w *worker, err error) {
	if err == nil {
		m.ran += w.bind.T
	}
	// A part is taken off the list when its call has got it: abort finds the rest.
	for n := len(w.parts); n > 0; n = len(w.parts) {
		m.deliver(w, w.parts[n-1], err)
		w.parts = w.parts[:n-1]
	}
}

// deliver gives the rows of one part to its caller.
func (m *embedder) deliver(w *worker, p part, err error) {
	c := p.call
	c.flying--
	if err != nil {
		m.fail(c, err)
	} else if rows := w.out[p.row*w.width : (p.row+p.n)*w.width]; !finite(rows) {
		m.fail(c, errNumbers)
	} else if !c.gone {
		for k, i := range c.order[p.first : p.first+p.n] {
			copy(c.dst[int(i)*w.width:], rows[k*w.width:(k+1)*w.width])
		}
	}
	switch {
	case c.flying > 0:
	case c.gone:
		m.recycle(c)
	case c.err != nil || c.taken == len(c.seqs):
		m.finish(c)
	}
}

// abort ends every call that waits or that a run has a part of. No run is under
// way.
func (m *embedder) abort(err error) {
	var calls []*embedCall
	for c := m.head; c != nil; c = c.next {
		calls = append(calls, c)
	}
	for _, w := range append([]*worker{&m.fineWorker}, m.coarse...) {
		for _, p := range w.parts {
			p.call.flying = 0
			if !slices.Contains(calls, p.call) {
				calls = append(calls, p.call)
			}
		}
		w.parts = w.parts[:0]
	}
	m.quota, m.split = 0, calib.Split{}
	for _, c := range calls {
		m.fail(c, err)
		switch {
		case c.gone:
			m.recycle(c)
		case !c.done:
			m.finish(c)
		}
	}
}

// fail keeps the first error of a call and takes it off the queue.
func (m *embedder) fail(c *embedCall, err error) {
	m.remove(c)
	if c.err == nil {
		c.err = err
	}
}

func (m *embedder) finish(c *embedCall) {
	c.done = true
	if !c.leading {
		c.signal <- struct{}{}
	}
}

func (m *embedder) push(c *embedCall) {
	c.next, c.queued = nil, true
	if m.head == nil {
		m.head = c
	} else {
		m.tail.next = c
	}
	m.tail = c
}

func (m *embedder) remove(c *embedCall) {
	if !c.queued {
		return
	}
	c.queued = false
	var prev *embedCall
	for q := m.head; q != c; q = q.next {
		prev = q
	}
	if prev == nil {
		m.head = c.next
	} else {
		prev.next = c.next
	}
	if m.tail == c {
		m.tail = prev
	}
	c.next = nil
}

func (m *embedder) recycle(c *embedCall) {
	*c = embedCall{next: m.free, order: c.order, signal: c.signal}
	m.free = c
}
