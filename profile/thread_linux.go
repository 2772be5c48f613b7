package profile

import (
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// currentThread tells the thread that runs this goroutine from all others that live.
// It is the thread's key where the processor has one, else its id.
func currentThread() uint64 {
	if hasThreadKey {
		return threadKey()
	}
	return uint64(currentThreadID())
}

// currentThreadID is the system's id of the thread. Raw system calls: the runtime
// need not know, because they do not block.
func currentThreadID() int32 {
	id, _, _ := syscall.RawSyscall(syscall.SYS_GETTID, 0, 0, 0)
	return int32(id)
}

// threadTime is how long the thread that runs this goroutine has had a processor.
func threadTime() int64 {
	var ts syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, unix.CLOCK_THREAD_CPUTIME_ID, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}

// threadWatch is what the system shows of a thread that lanes run on.
type threadWatch struct {
	// A lane that enters and leaves looks at the first cache line only.

	key  uint64         // of currentThread
	page *atomic.Uint32 // moves whenever the thread gets a processor; nil where that is not allowed
	id   int32
	seen atomic.Bool // a lane entered on it since the last call of lanesWaited

	// The thread's clock when it was last asked for. Goroutines on the thread take
	// turns, but one that is preempted may look at it from another thread.
	mu      sync.Mutex
	known   bool
	at      uint32 // version
	wall    int64
	elapsed int64

	// Of lanesWaited. Few threads of a process have lanes at a time, and a file of
	// each takes microseconds to read.
	stats   int    // its schedstat, open as long as the process lives; -1: none
	counted bool   // waited is that of the last call
	read    uint32 // version when waited was read
	waited  int64

	_ [128 - 10*8]byte
}

// time is the thread's clock at a moment, now. The system is asked only if the thread
// lost its processor since it was asked last.
func (w *threadWatch) time(version uint32, now int64) int64 {
	if !w.exact() || !w.mu.TryLock() {
		return readThreadTime()
	}
	defer w.mu.Unlock()
	if !w.known || w.at != version {
		w.known, w.at, w.wall, w.elapsed = true, version, now, readThreadTime()
	}
	return w.elapsed + now - w.wall
}

// version changes when the thread loses its processor.
func (w *threadWatch) version() uint32 {
	if w == nil || w.page == nil {
		return 0
	}
	return w.page.Load()
}

// mark says that a lane is still on the thread.
func (w *threadWatch) mark() { w.seen.Store(true) }

// doubt makes the next see ask the system.
func (w *threadWatch) doubt() { w.seen.Store(false) }

// see says that a lane is on the thread. It is false if the thread is another one:
// a new thread may have the key of a thread that has ended. The system is asked
// after each call of lanesWaited and of doubt.
func (w *threadWatch) see() bool {
	if w.seen.Load() {
		return true
	}
	if hasThreadKey && readThreadID() != w.id {
		return false
	}
	w.seen.Store(true)
	return true
}

func (w *threadWatch) exact() bool { return w != nil && w.page != nil }

// watches are the threads that lanes were seen on: all of them by their ids, and by
// a hash of their keys for a quick look. A process has few threads and they seldom
// end.
var watches struct {
	quick  [64]atomic.Pointer[threadWatch]
	mu     sync.Mutex
	all    map[int32]*threadWatch
	pages  int   // that were mapped
	waited int64 // see lanesWaited
}

// mostWatches bounds the files that are open. mostPages bounds the pages that are
// mapped: that of a thread that has ended stays, because a lane may look at it.
const (
	mostWatches = 256
	mostPages   = 4 * mostWatches
)

// watching reports that the kernel is ready. The first perf event of a process
// may make the kernel patch its own code. That takes some 10 ms, so no run waits
// for it.
var watching struct {
	once  sync.Once
	ready atomic.Bool
}

// startWatching prepares the kernel in the background.
func startWatching() {
	watching.once.Do(func() {
		go func() {
			switchPage(0) // of some thread: it stays open
			watching.ready.Store(true)
		}()
	})
}

// quickWatch is where the watch of a thread is looked for first. Keys are
// addresses, so the last bits of most are the same.
func quickWatch(key uint64) *atomic.Pointer[threadWatch] {
	return &watches.quick[key*0x9e3779b97f4a7c15>>(64-6)]
}

// watchThread opens the system's view of the current thread, once; nil if it is not
// ready yet, or if key is of another thread.
func watchThread(key uint64) *threadWatch {
	if !watching.ready.Load() {
		return nil
	}
	quick := quickWatch(key)
	if w := quick.Load(); w != nil && w.key == key && w.see() {
		return w
	}
	id := readThreadID()
	if readThread() != key {
		return nil // the goroutine is on another thread since: the id is not the key's
	}
	watches.mu.Lock()
	defer watches.mu.Unlock()
	w := watches.all[id]
	if w == nil || w.key != key {
		if w != nil {
			w.forget() // another thread had the id
		}
		w = &threadWatch{key: key, id: id, stats: -1}
		if watches.all == nil {
			watches.all = map[int32]*threadWatch{}
		}
		if len(watches.all) >= mostWatches {
			forgetEnded()
		}
		if len(watches.all) < mostWatches {
			if w.stats = openSchedstat(id); watches.pages < mostPages {
				if w.page = switchPage(int(id)); w.page != nil {
					watches.pages++
				}
			}
			watches.all[id] = w
		}
	}
	w.seen.Store(true)
	quick.Store(w)
	return w
}

// forgetEnded drops the watches of threads that have ended. The caller holds
// watches.mu.
func forgetEnded() {
	for _, w := range watches.all {
		var line [1]byte
		if _, err := unix.Pread(w.stats, line[:], 0); err != nil {
			w.forget()
		}
	}
}

// forget closes what is open of a thread that has ended. The caller holds watches.mu.
func (w *threadWatch) forget() {
	if w.stats >= 0 {
		_ = unix.Close(w.stats)
		w.stats = -1
	}
	delete(watches.all, w.id)
	quickWatch(w.key).CompareAndSwap(w, nil)
}

// switchPage maps the page of a thread's task clock. The kernel increments a
// version in it each time the thread gets a processor. nil if the system does not
// allow it; preempted steps are then found by their times.
func switchPage(thread int) *atomic.Uint32 {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_TASK_CLOCK,
		Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv}
	fd, err := unix.PerfEventOpen(&attr, thread, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil
	}
	defer unix.Close(fd) // the mapping keeps the event
	page, err := unix.Mmap(fd, 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil
	}
	return (*atomic.Uint32)(unsafe.Pointer(&(*unix.PerfEventMmapPage)(unsafe.Pointer(&page[0])).Lock))
}
