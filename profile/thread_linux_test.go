package profile

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func usedByThread(t *testing.T) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(1, &u); err != nil { // RUSAGE_THREAD
		t.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// What the lane's clock takes for processor time is what the system counts,
// however busy the machine is and though the lane slept.
func TestLaneClockIsTheThreads(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var first, c LaneClock
	first.In() // what it takes to watch a thread is not the lane's
	before := usedByThread(t)
	c.In()
	if !c.in {
		t.Fatal("the thread has no clock")
	}
	for start := Now(); Now()-start < 20e6; {
	}
	time.Sleep(5 * time.Millisecond) // as if it had been preempted
	c.Out()
	took := usedByThread(t) - before
	if c.blind != 0 || c.off < 5e6 {
		t.Errorf("%d ns not known and %d without a processor, expected none and 5 ms at least", c.blind, c.off)
	}
	if off := c.seen - c.off - took; off < -2e6 || off > 2e6 {
		t.Errorf("%d ns on a processor, the system counts %d", c.seen-c.off, took)
	}
}

// The system is asked for the clock of a thread that is marked when it loses its
// processor only after it did, however often its lane enters, yields and leaves.
func TestThreadTimeIsAskedAfterSwitches(t *testing.T) {
	id, cpu := fakeThread(t)
	asked := 0
	readThreadTime = func() int64 { asked++; return *cpu }
	var page atomic.Uint32
	quick := &watches.quick[uint32(*id)%uint32(len(watches.quick))]
	quick.Store(&threadWatch{id: *id, page: &page, stats: -1})
	defer quick.Store(nil)
	startWatching()
	for !watching.ready.Load() {
		time.Sleep(time.Millisecond)
	}
	slots := &LaneSlots{Time: &LaneTime{}}
	run := func(switched bool) (off int64) {
		var c LaneClock
		for range 10 {
			c.In()
			c.wall -= 1000 // it ran for 1000 ns
			if switched {
				page.Add(2)
			}
			c.Out()
		}
		off = c.off
		c.Leave(slots)
		return off
	}
	for range 100 {
		if off := run(false); off != 0 {
			t.Fatalf("%d ns without a processor of a thread that was not switched", off)
		}
	}
	if asked != 1 {
		t.Errorf("the system was asked %d times about a thread that was not switched, expected once", asked)
	}
	asked = 0
	if off := run(true); off < 10*1000 { // its clock stands still
		t.Errorf("%d ns without a processor, expected 10000 at least", off)
	}
	if asked > 11 {
		t.Errorf("the system was asked %d times about 10 switches", asked)
	}
}

// The version of a thread's page moves when it loses its processor.
func TestSwitchesAreSeen(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var c LaneClock
	startWatching()
	for !watching.ready.Load() {
		time.Sleep(time.Millisecond)
	}
	c.In()
	if !c.watch.exact() {
		t.Skip("the system does not allow perf_event_open")
	}
	ts := syscall.Timespec{Nsec: 1e6}
	if err := syscall.Nanosleep(&ts, nil); err != nil {
		t.Fatal(err)
	}
	if !c.Switched() {
		t.Error("a thread that slept was not switched")
	}
	quiet := 0
	for range 1000 {
		if !c.Switched() {
			quiet++
		}
	}
	if quiet < 900 {
		t.Errorf("%d of 1000 looks at once saw a switch", 1000-quiet)
	}
}

// Following a lane allocates nothing.
func TestLaneClockAllocatesNothing(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	slots := &LaneSlots{Time: &LaneTime{}}
	var w waiting
	w.counter = &Counter{kept: newKeeper[Sample](4)}
	startWatching()
	for !watching.ready.Load() {
		time.Sleep(time.Millisecond)
	}
	watchThread(int32(syscall.Gettid()))
	at := int64(1)
	if n := testing.AllocsPerRun(100, func() {
		var c LaneClock
		c.In()
		c.Switched()
		c.Leave(slots)
		at += waitingInterval + 1
		w.look(at)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if w.counter.samples == 0 {
		t.Error("no sample of threads that wait")
	}
}

func TestProcessorStats(t *testing.T) {
	if n := number64([]byte("12 345 6\n"), 1); n != 345 {
		t.Errorf("field 1 is %d", n)
	}
	if n := number64([]byte(" 1 2 3"), 2); n != 3 {
		t.Errorf("field 2 is %d", n)
	}
	rec := NewRecorder(Options{})
	for start := Now(); Now()-start < 20e6; {
	}
	p := rec.Snapshot()
	if p.Processor == nil || p.Processor.User+p.Processor.System <= 0 {
		t.Fatalf("%+v", p.Processor)
	}
}

func BenchmarkLaneClock(b *testing.B) {
	slots := &LaneSlots{Time: &LaneTime{}}
	for b.Loop() {
		var c LaneClock
		c.In()
		c.Leave(slots)
	}
}
