package cpu

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"
)

// spinTime bounds how long a worker waits in a loop before it yields and then
// parks. It spins in Go code, so the scheduler and the collector get through.
const spinTime = 50 * time.Microsecond

// team is the process's set of workers. The caller of run is worker 0; the
// others wait, spinning shortly and then parked, so an idle team costs
// nothing.
type team struct {
	turn    chan struct{} // capacity 1: one run at a time, and who waits for it can give up
	members []*member     // workers 1..; grows, never shrinks while the process lives
	job     func(worker int)
	pending atomic.Int32
	joined  chan struct{} // capacity 1: the last member wakes a parked caller
	waiting atomic.Bool   // the caller is parked
	refs    int           // backends that use the team, guarded by turn
	counted func()        // a test's hook between a member's last count and its wake-up
}

// theTeam is one a process: two teams would spin against each other.
var theTeam = newTeam()

func newTeam() *team {
	return &team{turn: make(chan struct{}, 1), joined: make(chan struct{}, 1)}
}

// member is one worker besides the caller.
type member struct {
	index  int
	ticket atomic.Uint32 // changes when there is work, or to say goodbye
	parked atomic.Bool
	wake   chan struct{} // capacity 1
	quit   bool          // read after ticket changed
	gone   chan struct{}
	_      [64]byte
}

// acquire registers a backend that wants up to n workers.
func (t *team) acquire(n int) {
	t.turn <- struct{}{}
	defer t.leave()
	t.refs++
	for len(t.members) < n-1 {
		m := &member{index: len(t.members) + 1, wake: make(chan struct{}, 1), gone: make(chan struct{})}
		t.members = append(t.members, m)
		go m.loop(t)
	}
}

// release forgets a backend; the last one sends the members home.
func (t *team) release() {
	t.turn <- struct{}{}
	defer t.leave()
	if t.refs--; t.refs > 0 {
		return
	}
	for _, m := range t.members {
		m.quit = true
		m.call()
		<-m.gone
	}
	t.members = nil
}

// run calls f(0)..f(n-1) side by side and returns when all have. Where ctx ends
// while others have the team, it calls nothing and returns the cause.
func (t *team) run(ctx context.Context, n int, f func(worker int)) error {
	if n <= 1 {
		f(0)
		return nil
	}
	select {
	case t.turn <- struct{}{}:
	default:
		select {
		case t.turn <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	defer t.leave()
	n = min(n, len(t.members)+1)
	t.job = f
	t.pending.Store(int32(n - 1))
	for _, m := range t.members[:n-1] {
		m.call()
	}
	f(0)
	if t.pending.Load() != 0 {
		t.join(n)
	}
	t.job = nil
	return nil
}

// leave ends the caller's turn.
func (t *team) leave() { <-t.turn }

// join waits for the other workers of a run. A wake-up may come from the last
// member of the run before, which was held up after it had counted itself out,
// so what counts is the number of workers still pending.
func (t *team) join(n int) {
	w := newWaiter(n)
	for t.pending.Load() != 0 {
		if w.again() {
			continue
		}
		t.waiting.Store(true)
		if t.pending.Load() != 0 || !t.waiting.CompareAndSwap(true, false) {
			<-t.joined
		}
	}
}

// call hands a member its ticket and wakes it if it is parked.
func (m *member) call() {
	m.ticket.Add(1)
	if m.parked.CompareAndSwap(true, false) {
		m.wake <- struct{}{}
	}
}

func (m *member) loop(t *team) {
	defer close(m.gone)
	var seen uint32
	for {
		w := newWaiter(m.index + 1)
		for m.ticket.Load() == seen {
			if w.again() {
				continue
			}
			m.parked.Store(true)
			if m.ticket.Load() == seen || !m.parked.CompareAndSwap(true, false) {
				<-m.wake
			}
		}
		seen++
		if m.quit {
			return
		}
		t.job(m.index)
		last := t.pending.Add(-1) == 0
		if t.counted != nil {
			t.counted()
		}
		if last && t.waiting.CompareAndSwap(true, false) {
			t.joined <- struct{}{}
		}
	}
}

// waiter paces a loop that waits for another worker: spin, then yield a few
// times, then give up so that the caller parks.
type waiter struct {
	spins  int
	start  time.Time
	yields int
}

// newWaiter is for a wait among n workers: beyond the processors nobody spins,
// because the one waited for may need this very processor.
func newWaiter(n int) waiter {
	if n > runtime.GOMAXPROCS(0) {
		return waiter{spins: -1}
	}
	return waiter{}
}

// again paces one round and reports whether to look again before parking.
func (w *waiter) again() bool {
	switch {
	case w.spins < 0:
	case w.spins == 0:
		w.start = time.Now()
		w.spins++
		return true
	case w.spins%64 != 0 || time.Since(w.start) < spinTime:
		pause()
		w.spins++
		return true
	}
	w.yields++
	runtime.Gosched()
	return w.yields < 8
}
