package engine

import (
	"context"
	"slices"
	"sort"
	"sync"

	"hotpath/internal/calib"
	"hotpath/internal/limit"
	"hotpath/profile"
)

// embedder merges calls into runs. Whoever finds it free leads, as long as its
// own call is the only one: its context ends its runs then. Where others join,
// a goroutine of nobody's leads until the queue is empty, and all of them wait
// for a signal, or leave when their context ends: no caller is bound to the run
// of another.
type embedder struct {
	eng        *Engine
	prog       program
	name       string // of the program
	fine       *runner
	fineWorker worker
	coarse     []*worker
	rounds     *profile.Round   // nil without a recorder
	work       func(worker int) // coarseWorker, made once
	alone      func()           // serve, made once
	sched      scheduler
	limits     *limit.Classes // of the workers of coarse rounds

	mu         sync.Mutex
	led        bool        // somebody leads
	leader     *embedCall  // whose caller leads; nil where serve does
	head, tail *embedCall  // calls with sequences that no run has taken
	free       *embedCall  // calls to reuse
	quota      int         // sequences left in a coarse round
	split      calib.Split // of a coarse round into runs
	broken     error       // a worker of this coarse round panicked
	ran        int         // tokens of runs that ended well, in this coarse round
}

// embedCall is one caller's share.
type embedCall struct {
	next    *embedCall
	ctx     context.Context
	seqs    [][]int32
	order   []int32 // of seqs, in which runs take them
	sorted  bool    // what is left of it is longest first
	dst     []float32
	load    load
	queued  bool
	taken   int // of order, given to runs
	flying  int // parts in runs that have not ended
	err     error
	done    bool
	gone    bool          // the caller left; nobody reads dst or err any more
	leading bool          // the caller leads, or is about to
	signal  chan struct{} // capacity 1: done, or leading
}

// worker is a runner and whose sequences are in its batch.
type worker struct {
	*runner
	parts []part
}

// part is places [first, first+n) of a call's order in rows [row, row+n) of a run.
type part struct {
	call          *embedCall
	first, n, row int
}

// do queues a call and sees it through.
func (m *embedder) do(ctx context.Context, seqs [][]int32, dst []float32, l load) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.free
	if c == nil {
		c = &embedCall{signal: make(chan struct{}, 1)}
	} else {
		m.free = c.next
	}
	*c = embedCall{ctx: ctx, seqs: seqs, order: c.order[:0], dst: dst, load: l, signal: c.signal}
	for i := range seqs {
		c.order = append(c.order, int32(i))
	}
	m.push(c)
	if m.led {
		if !m.wait(c) {
			return context.Cause(ctx)
		}
	} else {
		m.led, c.leading = true, true
	}
	if c.leading && !m.lead(c) {
		return context.Cause(ctx)
	}
	err := c.err
	m.recycle(c)
	return err
}

// wait blocks until the call is done or leads. It reports false where the
// context ended first: the call is the embedder's to clean up then.
func (m *embedder) wait(c *embedCall) bool {
	m.mu.Unlock()
	select {
	case <-c.signal:
		m.mu.Lock()
		return true
	case <-c.ctx.Done():
	}
	m.mu.Lock()
	if c.done || c.leading { // signalled at the same time
		<-c.signal
		return true
	}
	m.remove(c)
	c.gone, c.err = true, context.Cause(c.ctx)
	if c.flying == 0 {
		m.recycle(c)
	}
	return false
}

// lead runs c until it is done, and hands over to whoever waits then. Where
// others join before that, it starts serve and waits like them. It reports
// false where wait does.
func (m *embedder) lead(c *embedCall) bool {
	for m.leader = c; !c.done; {
		err := context.Cause(c.ctx)
		if m.eng.closing.Load() {
			err = ErrClosed
		}
		if err != nil {
			m.fail(c, err)
			break
		}
		if m.joined() {
			c.leading, m.leader = false, nil
			m.eng.hold(embedding)
			go m.alone()
			return m.wait(c)
		}
		m.round()
	}
	m.leader = nil
	m.led = m.head != nil
	if m.led {
		m.head.leading = true
		m.head.signal <- struct{}{}
	}
	return true
}

// joined reports whether calls wait beside that of the caller who leads.
func (m *embedder) joined() bool {
	return m.leader != nil && m.head != nil && (m.head != m.leader || m.head.next != nil)
}

// serve leads for nobody until the queue is empty. The engine is held.
func (m *embedder) serve() {
	defer m.eng.leave(embedding)
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.head != nil {
		if m.eng.closing.Load() {
			c := m.head
			m.fail(c, ErrClosed)
			m.finish(c) // no run is under way here, so none has a part of it
			continue
		}
		m.round()
	}
	m.led = false
}

// round runs some of what waits. After a panic no call is left waiting for an
// answer that nobody computes.
func (m *embedder) round() {
	defer func() {
		if p := recover(); p != nil {
			m.abort(panicked(p))
		}
	}()
	m.sched.mode = Mode(m.eng.mode.Load())
	if l := m.waiting(); m.sched.pick(l) == Coarse {
		m.coarseRound(l)
	} else {
		m.fineRun()
	}
}

// waiting sums up the queue.
func (m *embedder) waiting() load {
	var l load
	for c := m.head; c != nil; c = c.next {
		l.seqs += c.load.seqs - c.taken
		for _, i := range c.order[c.taken:] {
			l.tokens += len(c.seqs[i])
			l.longest = max(l.longest, len(c.seqs[i]))
		}
	}
	return l
}

// compose fills a worker's batch from the head of the queue, whole sequences
// up to limit tokens, and returns the context to run under: the caller's where
// it is alone, so that cancelling ends the run. The batch stays empty where the
// first text waiting is longer than the worker's runs can be.
func (m *embedder) compose(w *worker, limit int) context.Context {
	w.reset()
	w.parts = w.parts[:0]
	for c := m.head; c != nil; {
		next, p := c.next, part{call: c, first: c.taken, row: w.bind.S}
		for c.taken < len(c.seqs) && w.bind.S < w.max.S {
			at := c.taken
			if w.bind.T > 0 && c.sorted && m.split.Last() {
				at = c.prefer(limit - w.bind.T)
			}
			ids := c.seqs[c.order[at]]
			// A run takes one text of any length that it has memory for.
			if w.bind.T+len(ids) > w.max.T || w.bind.T > 0 && w.bind.T+len(ids) > limit && !m.split.Whole(w.bind.T, len(ids), limit) {
				break
			}
			w.add(ids, 0, len(ids))
			c.take(at)
		}
		if p.n = c.taken - p.first; p.n == 0 {
			break
		}
		w.parts = append(w.parts, p)
		c.flying++
		if c.taken < len(c.seqs) {
			// The next run begins with somebody else: a long call does not
			// keep short ones waiting.
			m.remove(c)
			m.push(c)
			break
		}
		m.remove(c)
		c = next
	}
	m.eng.stats.embedTokens.Add(int64(w.bind.T))
	switch len(w.parts) {
	case 0:
		return m.eng.base
	case 1:
		return w.parts[0].call.ctx
	}
	m.eng.stats.merged.Add(1)
	return m.eng.base
}

// longestFirst puts the texts that no run has taken in that order: what is left
// for the last runs is short, and they can be made even.
func (c *embedCall) longestFirst() {
	c.sorted = true
	slices.SortStableFunc(c.order[c.taken:], func(a, b int32) int { return len(c.seqs[b]) - len(c.seqs[a]) })
}

// empty reports whether the next text has no tokens: no share of a load counts it.
func (c *embedCall) empty() bool { return len(c.seqs[c.order[c.taken]]) == 0 }

// prefer is the place of the longest text that fits into the room; where none
// does, of the shortest. The call is sorted.
func (c *embedCall) prefer(room int) int {
	rest := c.order[c.taken:]
	return c.taken + sort.Search(len(rest)-1, func(i int) bool { return len(c.seqs[rest[i]]) <= room })
}

// take gives the text at a place of the order to a run. The others keep theirs.
func (c *embedCall) take(at int) {
	text := c.order[at]
	copy(c.order[c.taken+1:at+1], c.order[c.taken:at])
	c.order[c.taken] = text
	c.taken++
}
