package engine

import (
	"context"
	"slices"
	"sync"

	"hotpath/internal/kv"
)

// queue merges calls of one program into runs. Embedding, ranking and scoring
// have queues of their own. They differ in how a batch is composed and how its
// results are delivered.
//
// A caller that finds the queue free becomes the leader while its call is the
// only one; its context then ends its runs. If other calls join, a separate
// goroutine leads until the queue is empty. All callers then wait for a signal,
// or leave when their context ends. So no caller has to finish the run of
// another.
type queue struct {
	eng    *Engine
	kind   kind                                  // of its calls, for Close
	round  func()                                // runs some of what waits; mu is held, except during runs
	hand   func(w *worker, p part) error         // gives the results of one part to its call
	begin  func(w *worker) (ctx context.Context) // composes the next batch of pipe
	alone  func()                                // serve, made once
	slots  []*worker                             // of the session whose runs use all threads
	others []*worker                             // of other sessions

	mu         sync.Mutex
	led        bool    // somebody leads
	leader     *call   // whose caller leads; nil where serve does
	head, tail *call   // calls with sequences that no run has taken
	free       *call   // calls to reuse
	flying     *worker // of slots, whose run pipe has not waited for
	ran        int     // tokens of runs that ended well
	spare      []*kv.Sequence
}

// call is one caller's share.
type call struct {
	next    *call
	ctx     context.Context
	seqs    [][]int32
	queued  bool
	flying  int // parts in runs that have not ended
	err     error
	done    bool
	gone    bool          // the caller left; nobody reads its results or err any more
	leading bool          // the caller leads, or is about to
	signal  chan struct{} // capacity 1: done, or leading

	// Of embedding and ranking.
	segments [][]int32 // of seqs, nil where all are of the first text
	order    []int32   // of seqs, in which runs take them
	sorted   bool      // what is left of it is longest first
	dst      []float32
	load     load
	taken    int // of order, given to runs

	// Of scoring.
	nll        [][]float32
	text, from int          // what comes next: token from of seqs[text]
	seq        *kv.Sequence // what the cache holds of that text, nil at its beginning
}

// part is the part of one call in one run.
type part struct {
	call  *call
	n     int // results, in rows [row, row+n)
	row   int
	first int // place in the call's order, or the text that is scored

	// Of scoring.
	from int          // the first result in nll
	seq  *kv.Sequence // where the text ends with this part: to be released
}

func (q *queue) init(e *Engine, k kind) {
	q.eng, q.kind, q.alone = e, k, q.serve
}

// take returns a call to fill, from the free list or new. The caller holds mu.
func (q *queue) take() *call {
	c := q.free
	if c == nil {
		return &call{signal: make(chan struct{}, 1)}
	}
	q.free = c.next
	return c
}

// do queues a call and waits for its result. The caller holds mu.
func (q *queue) do(c *call) error {
	q.push(c)
	ctx := c.ctx
	if q.led {
		if !q.wait(c) {
			return context.Cause(ctx)
		}
	} else {
		q.led, c.leading = true, true
	}
	if c.leading && !q.lead(c) {
		return context.Cause(ctx)
	}
	err := c.err
	q.recycle(c)
	return err
}

// wait blocks until the call is done or becomes the leader. It returns false if
// the context ended first; the queue then cleans up the call.
func (q *queue) wait(c *call) bool {
	q.mu.Unlock()
	select {
	case <-c.signal:
		q.mu.Lock()
		return true
	case <-c.ctx.Done():
	}
	q.mu.Lock()
	if c.done || c.leading { // signalled at the same time
		<-c.signal
		return true
	}
	q.remove(c)
	c.gone, c.err = true, context.Cause(c.ctx)
	if c.flying == 0 {
		q.recycle(c)
	}
	return false
}

// lead runs c until it is done and then hands over to a waiting call. If others
// join before that, it starts serve and waits like them. It returns false if wait
// does.
func (q *queue) lead(c *call) bool {
	for q.leader = c; !c.done; {
		err := context.Cause(c.ctx)
		if q.eng.closing.Load() {
			err = ErrClosed
		}
		if err != nil {
			q.fail(c, err)
			break
		}
		if q.joined() {
			c.leading, q.leader = false, nil
			q.eng.hold(q.kind)
			go q.alone()
			return q.wait(c)
		}
		q.guarded()
	}
	q.leader = nil
	q.led = q.head != nil
	if q.led {
		q.head.leading = true
		q.head.signal <- struct{}{}
	}
	return true
}

// joined reports whether other calls wait besides the leading caller's.
func (q *queue) joined() bool {
	return q.leader != nil && q.head != nil && (q.head != q.leader || q.head.next != nil)
}

// serve leads, without a call of its own, until the queue is empty. The engine is
// held.
func (q *queue) serve() {
	defer q.eng.leave(q.kind)
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.head != nil {
		if q.eng.closing.Load() {
			c := q.head
			q.fail(c, ErrClosed)
			q.finish(c) // no run is under way here, so none has a part of it
			continue
		}
		q.guarded()
	}
	q.led = false
}

// guarded is a round. After a panic no call is left waiting for results that
// nobody computes.
func (q *queue) guarded() {
	defer func() {
		if p := recover(); p != nil {
			err := panicked(p)
			if q.flying != nil {
				q.unlocked(func() { _ = q.flying.wait() }) // err says what is wrong
				q.flying = nil
			}
			q.abort(err)
		}
	}()
	q.round()
}

// unlocked calls f without mu. It locks mu again afterwards, also if f panics.
func (q *queue) unlocked(f func()) {
	q.mu.Unlock()
	defer q.mu.Lock()
	f()
}

// pipe composes batches and runs them. On a device with two slots it composes and
// enqueues the next batch while the device computes the one before, as long as
// calls wait. It returns when no run is in flight.
func (q *queue) pipe() {
	for i := 0; ; i++ {
		var next *worker
		if i == 0 || len(q.slots) > 1 && q.head != nil && !q.joined() && !q.eng.closing.Load() {
			next = q.slots[i%len(q.slots)]
			ctx := q.begin(next)
			var err error
			if next.Bind.S == 0 {
				next = nil
			} else if q.unlocked(func() { err = next.enqueue(ctx) }); err != nil {
				q.settle(next, err)
				next = nil
			}
		}
		if q.flying != nil {
			q.land()
		}
		if q.flying = next; next == nil {
			return
		}
		if len(q.slots) == 1 {
			q.land()
			return
		}
	}
}

// land waits for the run in flight and hands out its results.
func (q *queue) land() {
	w := q.flying
	var err error
	q.unlocked(func() { err = w.wait() })
	q.flying = nil
	q.settle(w, err)
}

// context is the context for a run of the worker's batch: the caller's context if
// the batch has only one caller, so that cancelling ends the run. A caller has a part per
// text that is scored.
func (q *queue) context(w *worker) context.Context {
	if len(w.parts) == 0 {
		return q.eng.base
	}
	only := w.parts[0].call
	for _, p := range w.parts[1:] {
		if p.call != only {
			q.eng.stats.merged.Add(1)
			return q.eng.base
		}
	}
	return only.ctx
}

// settle delivers the results of a run to their calls.
func (q *queue) settle(w *worker, err error) {
	if err == nil {
		q.ran += w.Bind.T
	}
	// A part is removed from the list after its call has received it, so that
	// abort finds the remaining parts.
	for n := len(w.parts); n > 0; n = len(w.parts) {
		q.deliver(w, w.parts[n-1], err)
		w.parts = w.parts[:n-1]
	}
}

// deliver gives the results of one part to its call.
func (q *queue) deliver(w *worker, p part, err error) {
	c := p.call
	c.flying--
	q.release(&p.seq)
	if err == nil {
		err = q.hand(w, p)
	}
	if err != nil {
		q.fail(c, err)
	}
	switch {
	case c.flying > 0:
	case c.gone:
		q.recycle(c)
	case c.err != nil || !c.queued:
		q.finish(c)
	}
}

// abort ends every call that waits or has a part in a run. No run may be in
// flight.
func (q *queue) abort(err error) {
	var calls []*call
	for c := q.head; c != nil; c = c.next {
		calls = append(calls, c)
	}
	for _, w := range slices.Concat(q.slots, q.others) {
		for _, p := range w.parts {
			q.release(&p.seq)
			p.call.flying = 0
			if !slices.Contains(calls, p.call) {
				calls = append(calls, p.call)
			}
		}
		w.parts = w.parts[:0]
	}
	for _, c := range calls {
		q.fail(c, err)
		switch {
		case c.gone:
			q.recycle(c)
		case !c.done:
			q.finish(c)
		}
	}
}

// fail stores the first error of a call and removes the call from the queue.
func (q *queue) fail(c *call, err error) {
	q.remove(c)
	if c.err == nil {
		c.err = err
	}
}

func (q *queue) finish(c *call) {
	q.release(&c.seq)
	c.done = true
	if !c.leading {
		c.signal <- struct{}{}
	}
}

func (q *queue) push(c *call) {
	c.next, c.queued = nil, true
	if q.head == nil {
		q.head = c
	} else {
		q.tail.next = c
	}
	q.tail = c
}

func (q *queue) remove(c *call) {
	if !c.queued {
		return
	}
	c.queued = false
	var prev *call
	for o := q.head; o != c; o = o.next {
		prev = o
	}
	if prev == nil {
		q.head = c.next
	} else {
		prev.next = c.next
	}
	if q.tail == c {
		q.tail = prev
	}
	c.next = nil
}

// rotate lets the others of the queue go first: a long call does not keep short
// ones waiting.
func (q *queue) rotate(c *call) {
	q.remove(c)
	q.push(c)
}

// release gives the blocks of a sequence back, if there is one.
func (q *queue) release(seq **kv.Sequence) {
	if *seq != nil {
		(*seq).Release()
		q.spare, *seq = append(q.spare, *seq), nil
	}
}

func (q *queue) recycle(c *call) {
	q.release(&c.seq)
	*c = call{next: q.free, order: c.order, signal: c.signal}
	q.free = c
}

// waiting is the number of calls with work that no run has taken yet.
func (q *queue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for c := q.head; c != nil; c = c.next {
		n++
	}
	return n
}
