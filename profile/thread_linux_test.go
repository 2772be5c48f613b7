package profile

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What the lane's clock takes for processor time is what the system counts,
// however busy the machine is and though the lane slept.
func TestLaneClockIsTheThreads(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var first, c LaneClock
	first.In() // what it takes to watch a thread is not the lane's
	before := threadTime()
	c.In()
	from := threadTime()
	if !c.in {
		t.Fatal("the thread has no clock")
	}
	for start := Now(); Now()-start < 20e6; {
	}
	time.Sleep(5 * time.Millisecond) // as if it had been preempted
	to := threadTime()
	least := Now() - c.wall
	c.Out()
	most := Now() - c.wall
	after := threadTime()
	if c.blind != 0 || c.off < 5e6 {
		t.Errorf("%d ns not known and %d without a processor, expected none and 5 ms at least", c.blind, c.off)
	}
	// The lane's readings are between the test's, up to the rates of two clocks.
	if slack := (after - before) / 100; most-c.off < to-from-slack || least-c.off > after-before+slack {
		t.Errorf("%d to %d ns on a processor, the system counts %d to %d", least-c.off, most-c.off, to-from, after-before)
	}
}

// The system is asked for the clock of a thread that is marked when it loses its
// processor only after it did, however often its lane enters, yields and leaves.
func TestThreadTimeIsAskedAfterSwitches(t *testing.T) {
	id, cpu := fakeThread(t)
	asked := 0
	readThreadTime = func() int64 { asked++; return *cpu }
	page, _ := fakeWatch(t, *id, "1 2 3")
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

// startedWatching returns when the system is ready to watch threads.
func startedWatching() {
	startWatching()
	for !watching.ready.Load() {
		time.Sleep(time.Millisecond)
	}
}

// fakeWatch makes the fake thread one whose switches are marked on page, until the
// test ends. Its schedstat is a file.
func fakeWatch(t *testing.T, id int32, schedstat string) (page *atomic.Uint32, w *threadWatch) {
	startedWatching()
	f, err := os.Create(filepath.Join(t.TempDir(), "schedstat"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.WriteString(schedstat); err != nil {
		t.Fatal(err)
	}
	page = new(atomic.Uint32)
	w = &threadWatch{key: uint64(id), id: id, page: page, stats: int(f.Fd())}
	quick := quickWatch(w.key)
	quick.Store(w)
	watches.mu.Lock()
	defer watches.mu.Unlock()
	if watches.all == nil {
		watches.all = map[int32]*threadWatch{}
	}
	watches.all[id] = w
	t.Cleanup(func() {
		quick.Store(nil)
		watches.mu.Lock()
		defer watches.mu.Unlock()
		delete(watches.all, id)
	})
	return page, w
}

// A lane that kept its processor asks the system for nothing when it enters, yields
// and leaves, except once after each look at the threads that wait.
func TestLaneClockMakesNoSystemCalls(t *testing.T) {
	if !hasThreadKey {
		t.Skip("threads have no keys here")
	}
	id, cpu := fakeThread(t)
	fakeWatch(t, *id, "1 2 3")
	asked := 0
	readThreadID, readThreadTime = func() int32 { asked++; return *id }, func() int64 { asked++; return *cpu }
	slots := &LaneSlots{Time: &LaneTime{}}
	run := func() {
		var c LaneClock
		for range 3 {
			c.In()
			c.Out()
		}
		c.Leave(slots)
	}
	run() // its id and its clock become known
	if asked != 2 {
		t.Errorf("%d system calls by the first run, expected 2", asked)
	}
	asked = 0
	for range 100 {
		run()
	}
	if asked != 0 {
		t.Errorf("%d system calls by 100 runs", asked)
	}
	lanesWaited()
	for range 100 {
		run()
	}
	if asked != 1 {
		t.Errorf("%d system calls by 100 runs after a look at the threads, expected 1", asked)
	}
}

// A new thread may have the key of a thread that has ended. It gets its own watch.
func TestThreadWithAnOldKey(t *testing.T) {
	id, _ := fakeThread(t)
	_, old := fakeWatch(t, *id, "1 2 3")
	readThread = func() uint64 { return old.key }
	if w := watchThread(old.key); w != old {
		t.Fatal("the watch of a thread was not found")
	}
	if !hasThreadKey {
		t.Skip("threads have no keys here")
	}
	lanesWaited()
	*id++ // the system has no thread of this id either
	w := watchThread(old.key)
	t.Cleanup(func() {
		watches.mu.Lock()
		defer watches.mu.Unlock()
		delete(watches.all, *id)
	})
	if w == old || w.id != *id || w.exact() {
		t.Errorf("thread %d has the watch of thread %d", *id, w.id)
	}
	var c LaneClock
	if c.In(); c.watch != w {
		t.Error("a lane on the new thread has another watch")
	}
}

// A clock that lives on marks its watch without asking for the id. When its trust has
// ended it asks, however recently it marked.
func TestTrustInAThreadEnds(t *testing.T) {
	if !hasThreadKey {
		t.Skip("threads have no keys here")
	}
	id, _ := fakeThread(t)
	_, old := fakeWatch(t, *id, "1 2 3")
	readThread = func() uint64 { return old.key }
	var c LaneClock
	if c.In(); c.watch != old {
		t.Fatal("the watch of a thread was not found")
	}
	lanesWaited()
	*id++
	t.Cleanup(func() {
		watches.mu.Lock()
		defer watches.mu.Unlock()
		delete(watches.all, *id)
	})
	c.again = 1
	if c.In(); c.watch != old || !old.seen.Load() {
		t.Fatal("a trusted thread was not marked")
	}
	c.again, c.trust = 1, 1
	if c.In(); c.watch == old || c.watch.id != *id {
		t.Errorf("thread %d has the watch of thread %d", *id, c.watch.id)
	}
}

// The system is asked for the id after each look at the threads also where it has no
// schedstat: otherwise a new thread would have the page of a thread that has ended.
func TestOldKeyWithoutSchedstat(t *testing.T) {
	if !hasThreadKey {
		t.Skip("threads have no keys here")
	}
	id, _ := fakeThread(t)
	_, old := fakeWatch(t, *id, "")
	readThread = func() uint64 { return old.key }
	old.stats = -1
	if w := watchThread(old.key); w != old {
		t.Fatal("the watch of a thread was not found")
	}
	lanesWaited()
	*id++
	t.Cleanup(func() {
		watches.mu.Lock()
		defer watches.mu.Unlock()
		delete(watches.all, *id)
	})
	if w := watchThread(old.key); w == old {
		t.Errorf("thread %d has the watch of thread %d", *id, w.id)
	}
}

// A goroutine may be moved to another thread after it has read the key of its thread.
// The thread that it left does not get a watch of the other one.
func TestLaneMovesWhileItsThreadIsLookedUp(t *testing.T) {
	startedWatching()
	fakeThread(t)
	const left, other = 1<<30 + 7, 1<<30 + 8
	at := int32(left)
	readThread = func() uint64 { return uint64(at) }
	readThreadID = func() int32 { at = other; return at }
	t.Cleanup(func() {
		quickWatch(left).Store(nil)
		watches.mu.Lock()
		defer watches.mu.Unlock()
		delete(watches.all, other)
	})
	var c LaneClock
	c.In()
	if w := quickWatch(left).Load(); c.watch != nil || w != nil && w.key == left {
		t.Errorf("lanes on thread %d have the watch of thread %d", left, other)
	}
	c.wall -= 1000
	c.Out()
	if c.off != 0 || c.blind < 1000 {
		t.Errorf("%d ns of a lane that was moved are without a processor and %d not known, expected 0 and all of them", c.off, c.blind)
	}
}

// The time that a thread waited is read again only after it lost its processor.
func TestWaitIsReadAfterSwitches(t *testing.T) {
	id, _ := fakeThread(t)
	page, w := fakeWatch(t, *id, "1 100 3")
	look := func() {
		w.seen.Store(true)
		lanesWaited()
	}
	look()
	if !w.counted || w.waited != 100 {
		t.Fatalf("waited %d, expected 100", w.waited)
	}
	if _, err := unix.Pwrite(w.stats, []byte("1 500 3"), 0); err != nil {
		t.Fatal(err)
	}
	if look(); w.waited != 100 {
		t.Error("the file of a thread that kept its processor was read")
	}
	page.Add(2)
	if look(); w.waited != 500 {
		t.Errorf("waited %d after a switch, expected 500", w.waited)
	}
}

// Following a lane allocates nothing.
func TestLaneClockAllocatesNothing(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	slots := &LaneSlots{Time: &LaneTime{}}
	w := waiting{next: new(atomic.Int64), counter: &Counter{kept: newKeeper[Sample](4)}}
	startedWatching()
	watchThread(currentThread())
	at := int64(1)
	if n := testing.AllocsPerRun(100, func() {
		var c LaneClock
		c.In()
		c.Lost()
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

// Each recorder has all of the time that lanes waited between its own looks, however
// many recorders look.
func TestTwoRecordersSeeTheSameWaits(t *testing.T) {
	id, _ := fakeThread(t)
	page, w := fakeWatch(t, *id, "1 0 3")
	var recs [2]*Recorder
	for i := range recs {
		recs[i] = NewRecorder(Options{})
	}
	waited, now := 0, Now()
	for round := range 6 {
		for i, rec := range recs { // they look 10 ms apart, each every 20 ms
			now += waitingInterval
			waited += 5e6 // half of the time
			if _, err := unix.Pwrite(w.stats, []byte(fmt.Sprintf("1 %d 3", waited)), 0); err != nil {
				t.Fatal(err)
			}
			page.Add(2)
			w.seen.Store(true)
			rec.wait.look(now)
			if c := rec.wait.counter; round >= 2 && c.value != 0.5 {
				t.Errorf("round %d: recorder %d counts %v waiting lanes, expected 0.5", round, i, c.value)
			}
		}
	}
}

// Threads that have ended are forgotten when there is no room for others, and their
// files are closed.
func TestEndedThreadsAreForgotten(t *testing.T) {
	startedWatching()
	ended := make(chan *threadWatch)
	var begin func()
	begin = func() {
		runtime.LockOSThread() // and not unlocked: the thread ends with the goroutine
		if readThreadID() == int32(os.Getpid()) {
			begun := make(chan struct{})
			go func() { defer close(begun); begin() }() // the first thread never ends
			<-begun
			return
		}
		ended <- watchThread(readThread())
	}
	go begin()
	w := <-ended
	if w == nil || w.stats < 0 {
		t.Skip("the system has no schedstat")
	}
	for range 10000 {
		if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", w.id)); err != nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	watches.mu.Lock()
	defer watches.mu.Unlock()
	before := len(watches.all)
	forgetEnded()
	if watches.all[w.id] == w || w.stats >= 0 || len(watches.all) >= before || quickWatch(w.key).Load() == w {
		t.Errorf("the watch of a thread that ended is kept: %+v", w)
	}
	runtime.KeepAlive(w)
}
