package profile

import (
	"runtime"
	"syscall"
	"testing"
)

// Each call has the time without a processor that it lost itself, and all of them
// together have what the lane lost.
func TestLostTimeIsOfOneCall(t *testing.T) {
	id, cpu := fakeThread(t)
	page, _ := fakeWatch(t, *id, "1 2 3")
	var c LaneClock
	c.In()
	if off, lost := c.Lost(); lost {
		t.Errorf("%d ns lost by a thread that kept its processor", off)
	}
	for _, want := range []int64{70_000_000, 0, 9_000_000_000} {
		before := Now()
		sum, took := c.off, before-c.wall
		c.wall -= 100_000 + want
		*cpu += 100_000 + took
		page.Add(2)
		off, lost := c.Lost()
		if !lost || off < want || off > want+Now()-before || c.off != sum+off {
			t.Errorf("a call lost %d ns (%t), expected about %d", off, lost, want)
		}
		if off, lost := c.Lost(); lost {
			t.Errorf("the next call lost %d ns, expected none", off)
		}
	}
	if c.blind != 0 {
		t.Errorf("%d ns are not known", c.blind)
	}
}

// A lane that changes its thread within a run follows its new thread: the page of the
// old one says nothing of it.
func TestLaneFollowsItsNewThread(t *testing.T) {
	id, cpu := fakeThread(t)
	old, _ := fakeWatch(t, *id, "1 2 3")
	var c LaneClock
	c.In()
	c.wall -= 1_000_000
	*id++
	page, w := fakeWatch(t, *id, "1 2 3")
	if off, lost := c.Lost(); !lost || off != unknownOff || c.blind < 1_000_000 || c.watch != w || c.off != 0 {
		t.Fatalf("on another thread %d ns were lost (%t), %d are not known", off, lost, c.blind)
	}
	blind := c.blind
	old.Add(2)
	if off, lost := c.Lost(); lost {
		t.Errorf("%d ns lost because of the old thread", off)
	}
	c.wall -= 1_000_000_000
	*cpu += 400_000_000
	page.Add(2)
	if off, lost := c.Lost(); !lost || off < 600_000_000 || off > 700_000_000 || c.off != off || c.blind != blind {
		t.Errorf("%d ns lost (%t) on the new thread, expected about 600 ms; %d not known", off, lost, c.blind)
	}
}

// A switch between the reading of the page and that of the clock is not taken for
// time on a processor: the version is read first.
func TestSwitchBetweenReadingsIsSeen(t *testing.T) {
	id, cpu := fakeThread(t)
	page, _ := fakeWatch(t, *id, "1 2 3")
	var c LaneClock
	c.In()
	const lost = 3_000_000_000
	once := false
	readThreadTime = func() int64 {
		if !once { // the thread loses its processor while it asks
			once = true
			page.Add(2)
		}
		return *cpu
	}
	page.Add(2)
	c.Lost()
	c.wall -= lost // as if it had been preempted there
	if off, again := c.Lost(); !again || off < lost {
		t.Errorf("%d ns lost (%t), expected %d at least", off, again, int64(lost))
	}
}

// The version of a thread's page moves when it loses its processor.
func TestSwitchesAreSeen(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var c LaneClock
	startedWatching()
	c.In()
	if !c.watch.exact() {
		t.Skip("the system does not allow perf_event_open")
	}
	ts := syscall.Timespec{Nsec: 1e6}
	if err := syscall.Nanosleep(&ts, nil); err != nil {
		t.Fatal(err)
	}
	if off, lost := c.Lost(); !lost || off < 9e5 {
		t.Errorf("a thread that slept for 1 ms lost its processor for %d ns, %t", off, lost)
	}
	quiet := 0
	for range 1000 {
		if _, lost := c.Lost(); !lost {
			quiet++
		}
	}
	if quiet < 900 {
		t.Errorf("%d of 1000 looks at once saw a switch", 1000-quiet)
	}
}
