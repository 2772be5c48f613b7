package profile

import "sync/atomic"

// LaneTime is how much of a lane's time its thread had no processor, over all runs
// of a plan. Lanes add to it when they leave, which may be after the run is over.
type LaneTime struct {
	off   atomic.Int64 // time in which the thread had no processor
	blind atomic.Int64 // time that began on one thread and ended on another: not known

	_ [128 - 2*8]byte // two lanes never share a pair of cache lines
}

// LaneClock follows one lane through one run. It reads the identity and the CPU
// clock of the lane's thread when the lane enters, yields, parks and leaves. Work
// of the thread while its lane is parked does not count as the lane's. The zero
// value follows nothing.
//
// Reading a thread's clock is a system call, which takes some microseconds at the
// end of a run. If the system marks threads that lost their processor, only their
// clocks are read: a thread without a mark had its processor all the time.
type LaneClock struct {
	in      bool
	thread  uint64
	cpu     int64
	wall    int64
	watch   *threadWatch
	page    *atomic.Uint32 // of watch: each step looks at it
	entered uint32         // version of the watch at In
	version uint32         // at the last look

	seen, off, blind int64
}

// Replaced by tests.
var (
	readThread     = currentThread
	readThreadID   = currentThreadID
	readThreadTime = threadTime
)

// In says that the lane runs from now on, and returns that moment.
func (c *LaneClock) In() (now int64) {
	thread := readThread()
	if thread == 0 {
		return Now() // the system does not say
	}
	if c.watch == nil || c.watch.key != thread {
		c.watch, c.page = watchThread(thread), nil
		if c.watch != nil {
			c.page = c.watch.page
		}
	}
	c.in, c.thread = true, thread
	c.version = c.watch.version()
	c.entered = c.version
	c.wall = Now()
	c.cpu = c.watch.time(c.version, c.wall)
	return c.wall
}

// Out says that the lane is about to yield, to park or to leave.
func (c *LaneClock) Out() {
	if !c.in {
		return
	}
	c.in = false
	now := Now()
	wall := now - c.wall
	if readThread() != c.thread {
		c.blind += wall
		return
	}
	c.seen += wall
	if version := c.watch.version(); !c.watch.exact() || version != c.entered {
		c.off += max(0, wall-(c.watch.time(version, now)-c.cpu))
	}
}

// Running says whether the lane is between In and Out.
func (c *LaneClock) Running() bool { return c.in }

// Switched reports whether the lane's thread lost its processor since the last
// call, or since In. It is false if the system does not show that.
func (c *LaneClock) Switched() bool {
	if c.page == nil {
		return false
	}
	v := c.page.Load()
	if v == c.version {
		return false
	}
	c.version = v
	return true
}

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
