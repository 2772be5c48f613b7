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
	version uint32         // of the watch at wall

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
	version := c.watch.version() // before the time: a switch after it moves the next version
	now := Now()
	wall := now - c.wall
	if readThread() != c.thread {
		c.blind += wall
		return
	}
	c.seen += wall
	if !c.watch.exact() || version != c.version {
		c.off += max(0, wall-(c.watch.time(version, now)-c.cpu))
	}
}

// Running says whether the lane is between In and Out.
func (c *LaneClock) Running() bool { return c.in }

// Switched reports whether the page of the lane's thread moved since the last call
// of Lost, or since In. It is cheaper than Lost and does not see that the lane changed
// its thread.
func (c *LaneClock) Switched() bool { return c.page != nil && c.page.Load() != c.version }

// Lost reports whether the lane's thread lost its processor since the last call, or
// since In, and for how long. It is false if the system does not show that. Only a
// thread that lost its processor is asked for its clock. If the lane changed its
// thread, the time is [unknownOff] and the lane follows its new thread.
func (c *LaneClock) Lost() (off int64, lost bool) {
	if c.page == nil || c.page.Load() == c.version && readThread() == c.thread {
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
	c.seen += wall
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
