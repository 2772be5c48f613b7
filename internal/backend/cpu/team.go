package cpu

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"hotpath/profile"
)

// A worker spins for some time before it yields and then parks: at a barrier for
// spinTime, or for spinCalm while no other program takes processors from this one. A
// parked worker leaves its processor to the one that is waited for. Between two runs
// nobody is waited for, and it spins for at least spinEach per worker: about as long as
// it takes to wake them all, one after the other. It spins in Go code, so that the
// scheduler and the garbage collector can interrupt it.
const (
	spinTime = 50 * time.Microsecond
	spinCalm = 400 * time.Microsecond
	spinEach = 25 * time.Microsecond
)

// team is the process's set of workers. The caller of run is worker 0; the
// others wait, spinning shortly and then parked, so an idle team costs
// nothing.
type team struct {
	turn    chan struct{} // capacity 1: one run at a time, and who waits for it can give up
	members []*member     // workers 1..; grows, never shrinks while the process lives
	joint   job           // of joined runs
	refs    int           // backends that use the team, guarded by turn
	calm    atomic.Bool   // no other program took a processor lately
	procs   atomic.Int32  // that Go uses, when the last run began: the runtime tells it under its scheduler's lock
	counted func()        // a test's hook between a member's last count and its wake-up
}

// theTeam is one a process: two teams would spin against each other.
var theTeam = newTeam()

func newTeam() *team {
	t := &team{turn: make(chan struct{}, 1), joint: job{left: make(chan struct{}, 1)}}
	t.countProcs()
	return t
}

// countProcs notes how many processors Go uses.
func (t *team) countProcs() {
	if n := int32(runtime.GOMAXPROCS(0)); n != t.procs.Load() {
		t.procs.Store(n)
	}
}

// job is the work of a run. Workers take items from a common list until it is
// empty, so that a run does not wait for workers that have not woken up.
type job struct {
	work    func(worker int)
	began   int64         // when the caller had its turn, by profile.Now
	workers int           // that are called, with the caller
	idle    profile.Idle  // what a member may do when it has left and waits
	inside  atomic.Int32  // members that were called, and have neither left nor been called off
	waiting atomic.Bool   // the caller is parked until all members have left
	left    chan struct{} // capacity 1: the last member wakes the caller
}

// member is one worker besides the caller.
type member struct {
	index int
	// next is the job for which the member is called. The holder of the turn sets
	// it, and cancels the call by clearing it. A late member reads it after it
	// has left the previous job.
	next   atomic.Pointer[job]
	parked atomic.Bool
	quit   atomic.Bool
	wake   chan struct{} // capacity 1
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
		m.quit.Store(true)
		m.rouse()
		<-m.gone
	}
	t.members = nil
}

// join runs f on up to n workers, f(0) on the caller, and returns when all who
// began have ended. Where ctx ends while others have the team, it calls nothing
// and returns the cause.
func (t *team) join(ctx context.Context, n int, f func(worker int)) error {
	if n <= 1 {
		f(0)
		return nil
	}
	if err := t.begin(ctx); err != nil {
		return err
	}
	defer t.leave()
	t.joint.work = f
	t.call(n, &t.joint)
	t.joint.wait(t.newWaiter(n))
	t.joint.work = nil
	return nil
}

// runJob is join without the wait: the job is done when its worker 0 returns.
// Members may still be inside and find nothing to do.
func (t *team) runJob(ctx context.Context, n int, j *job) error {
	if err := t.begin(ctx); err != nil {
		return err
	}
	defer t.leave()
	t.call(n, j)
	return nil
}

// call gives the job to up to n workers, works as worker 0, and then cancels workers
// that have not begun.
func (t *team) call(n int, j *job) {
	j.began = profile.Now()
	t.countProcs()
	members := t.members[:min(n-1, len(t.members))]
	j.workers = 1 + len(members)
	for _, m := range members {
		j.inside.Add(1)
		m.next.Store(j)
		m.rouse()
	}
	j.work(0)
	for _, m := range members {
		if m.next.CompareAndSwap(j, nil) {
			j.inside.Add(-1)
		}
	}
}

// begin waits for the caller's turn.
func (t *team) begin(ctx context.Context) error {
	select {
	case t.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case t.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// leave ends the caller's turn.
func (t *team) leave() { <-t.turn }

// wait returns when no member is inside. A wake-up may come from a member of the
// previous run that was delayed after it had counted itself out. Therefore wait
// checks the number of members inside.
func (j *job) wait(w waiter) {
	for j.inside.Load() != 0 {
		if w.again() {
			continue
		}
		j.waiting.Store(true)
		if j.inside.Load() != 0 || !j.waiting.CompareAndSwap(true, false) {
			<-j.left
		}
	}
}

// rouse wakes a member that is parked.
func (m *member) rouse() {
	if m.parked.CompareAndSwap(true, false) {
		m.wake <- struct{}{}
	}
}

// wanted reports whether there is a reason not to wait.
func (m *member) wanted() bool { return m.next.Load() != nil || m.quit.Load() }

func (m *member) loop(t *team) {
	defer close(m.gone)
	workers := 0 // of the last run
	var idle profile.Idle
	for {
		w := t.newWaiter(m.index + 1)
		w.most = max(w.most, time.Duration(workers)*spinEach)
		for !m.wanted() {
			if w.again() || m.index == 1 && idle.Fold() {
				continue
			}
			idle = profile.Idle{} // it keeps a recorder's memory
			m.parked.Store(true)
			if !m.wanted() || !m.parked.CompareAndSwap(true, false) {
				<-m.wake
			}
		}
		if m.quit.Load() {
			return
		}
		j := m.next.Swap(nil)
		if j == nil {
			continue // called off
		}
		workers = j.workers
		j.work(m.index)
		idle = j.idle
		j.leave(t.counted)
	}
}

// leave counts one out who was inside. The last one wakes who waits for that. counted is a
// test's hook between the two, or nil.
func (j *job) leave(counted func()) {
	last := j.inside.Add(-1) == 0
	if counted != nil {
		counted()
	}
	if last && j.waiting.CompareAndSwap(true, false) {
		j.left <- struct{}{}
	}
}

// waiter paces a loop that waits for another worker: spin, then yield a few
// times, then give up so that the caller parks.
type waiter struct {
	spins  int
	most   time.Duration // of spinning
	start  time.Time
	yields int
	lane   *stamps // of the run that waits; nil where none does
}

// newWaiter is for a wait among n workers. If there are more workers than processors
// it does not spin, because the awaited worker may need this processor.
func (t *team) newWaiter(n int) waiter {
	switch {
	case n > int(t.procs.Load()):
		return waiter{spins: -1}
	case t.calm.Load():
		return waiter{most: spinCalm}
	}
	return waiter{most: spinTime}
}

// again paces one round and reports whether to look again before parking.
func (w *waiter) again() bool {
	switch {
	case w.spins < 0:
	case w.spins == 0:
		w.start = time.Now()
		w.spins++
		return true
	case w.spins%64 != 0 || time.Since(w.start) < w.most:
		pause()
		w.spins++
		return true
	}
	if w.yields == 0 && w.lane != nil {
		w.lane.yields()
	}
	w.yields++
	runtime.Gosched()
	return w.yields < 8
}
