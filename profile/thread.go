package profile

import "sync/atomic"

// LaneTime is how much of a lane's time its thread had no processor, over all runs
// of a plan. Lanes add to it when they leave, which may be after the run is over.
type LaneTime struct {
	off   atomic.Int64 // time in which the thread had no processor
	blind atomic.Int64 // time that began on one thread and ended on another: not known

	_ [128 - 2*8]byte // two lanes never share a pair of cache lines
}

// LaneClock follows one lane, run after run. It reads the identity and the CPU
// clock of the lane's thread when the lane enters, yields, parks and leaves. Work
// of the thread while its lane is parked does not count as the lane's. The zero
// value follows nothing.
//
// Reading a thread's clock is a system call, which takes some microseconds at the
// end of a run. If the system marks threads that lost their processor, only their
// clocks are read: a thread without a mark had its processor all the time. A run
// evicts everything else from the caches, so a lane that stays on its thread looks
// at its own memory and at the mark only.
type LaneClock struct {
	// One cache line: all that Look looks at, besides the page itself.

	page    *atomic.Uint32 // moves when the thread loses its processor; nil where that is not known
	version uint32         // of page at wall
	in      bool
	thread  uint64
	scale   scale // of the counter; 0 where lookLane may not be called
	wall    int64 // a moment
	cpu     int64 // the thread's clock at that moment

	off, blind int64 // of this run

	watch *threadWatch
	again int64 // when the watch is to know again that a lane is on its thread
	trust int64 // when the watch is to be looked up again
}

// Replaced by tests.
var (
	readThread     = currentThread
	readThreadID   = currentThreadID
	readThreadTime = threadTime
)

// lookAgain is how long a lane that stays on its thread does without the thread's
// watch. It is less than the time between two calls of lanesWaited, which wants to
// know the threads that lanes are on. After trustThread the lane makes sure that the
// thread is not a new one with the key of one that has ended, which takes a system call.
const (
	lookAgain   = waitingInterval / 2
	trustThread = 10 * waitingInterval
)

// Look returns the time, and whether the lane kept its thread and that its processor
// since the last call of Lost, or since In. Where the system does not show that, kept
// is true.
func (c *LaneClock) Look() (now int64, kept bool) {
	if c.scale.rate != 0 {
		return lookLane(c)
	}
	return Now(), c.page == nil || c.page.Load() == c.version && readThread() == c.thread
}

// Enter says that the lane enters a run, and returns that moment.
func (c *LaneClock) Enter() (now int64) {
	c.off, c.blind = 0, 0
	return c.In()
}

// In says that the lane runs from now on, and returns that moment.
func (c *LaneClock) In() (now int64) {
	now, kept := c.Look()
	if kept && now >= c.again && now < c.trust {
		c.watch.mark()
		c.again = now + lookAgain
	}
	if kept && now < c.again {
		c.in, c.wall, c.cpu = true, now, c.cpu+now-c.wall // both clocks went on
		return now
	}
	thread := readThread()
	if thread == 0 {
		return Now() // the system does not say
	}
	if kept && c.watch != nil && thread == c.thread { // no longer trusted
		c.watch.doubt()
	}
	c.watch, c.page, c.again, c.trust = watchThread(thread), nil, 0, 0
	c.version = c.watch.version()
	c.wall = Now()
	c.cpu = c.watch.time(c.version, c.wall)
	c.in, c.thread = true, thread
	if c.watch.exact() {
		c.page, c.again, c.trust = c.watch.page, c.wall+lookAgain, c.wall+trustThread
	}
	if c.scale = (scale{}); c.page != nil && counter.lanes.Load() {
		c.scale = counter.scale
	}
	return c.wall
}

// Out says that the lane is about to yield, to park or to leave.
func (c *LaneClock) Out() {
	if !c.in {
		return
	}
	c.in = false
	if c.page != nil {
		if _, kept := c.Look(); kept { // steps call Look too, so its code is in the caches
			return
		}
	}
	version := c.watch.version() // before the time: a switch after it moves the next version
	now := Now()
	wall := now - c.wall
	if readThread() != c.thread {
		c.blind += wall
		return
	}
	if !c.watch.exact() || version != c.version {
		c.off += max(0, wall-(c.watch.time(version, now)-c.cpu))
	}
}

// Running says whether the lane is between In and Out.
func (c *LaneClock) Running() bool { return c.in }

// Lost reports whether the lane's thread lost its processor since the last call, or
// since In, and for how long. It is false if the system does not show that. Only a
// thread that lost its processor is asked for its clock. If the lane changed its
// thread, the time is [unknownOff] and the lane follows its new thread.
func (c *LaneClock) Lost() (off int64, lost bool) {
	if _, kept := c.Look(); kept {
		return 0, false
	}
	return c.lost(), true
}

func (c *LaneClock) lost() (off int64) {
	if readThread() != c.thread {
		c.blind += Now() - c.wall
		c.In()
		return unknownOff
	}
	// In this order: after a switch in between, the version is old and nobody uses
	// what is known of it.
	c.version = c.page.Load()
	now := Now()
	cpu := c.watch.time(c.version, now)
	wall := now - c.wall
	off = max(0, wall-(cpu-c.cpu))
	c.off += off
	c.wall, c.cpu = now, cpu
	return off
}

// unknownOff is the time without a processor of a step that began on one thread and
// ended on another.
const unknownOff = -1

// Leave ends the lane's part in the run and adds the time without a processor to its
// plan. A lane that kept its processor touches nothing of the plan.
func (c *LaneClock) Leave(l *LaneSlots) {
	c.Out()
	if c.off+c.blind == 0 || l.Time == nil {
		return
	}
	l.Time.off.Add(c.off)
	l.Time.blind.Add(c.blind)
}
