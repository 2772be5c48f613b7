package profile

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// clockTicks is how many units of /proc/stat a second has: the same on all systems.
const clockTicks = 100

// readProcessor is what the system has counted so far.
func readProcessor() (s ProcessorStats, ok bool) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return s, false
	}
	s = ProcessorStats{User: u.Utime.Nano(), System: u.Stime.Nano(), Switches: int64(u.Nvcsw), Preempted: int64(u.Nivcsw), MinorFaults: int64(u.Minflt), MajorFaults: int64(u.Majflt)}
	threads, _ := os.ReadDir("/proc/self/task") // without it nothing waited
	for _, t := range threads {
		if b, err := os.ReadFile("/proc/self/task/" + t.Name() + "/schedstat"); err == nil {
			s.Waited += number64(b, 1)
		}
	}
	if b, err := os.ReadFile("/proc/stat"); err == nil {
		line, _, _ := bytes.Cut(b, []byte("\n"))
		s.Stolen = number64(bytes.TrimPrefix(line, []byte("cpu ")), 7) * (1e9 / clockTicks)
	}
	return s, true
}

// number64 is the field of a line of numbers, from 0.
func number64(line []byte, field int) int64 {
	at, n, in := 0, int64(0), false
	for _, c := range line {
		switch {
		case c >= '0' && c <= '9':
			in, n = true, 10*n+int64(c-'0')
		case in:
			if at == field {
				return n
			}
			at, n, in = at+1, 0, false
		}
	}
	if in && at == field {
		return n
	}
	return 0
}

// lanesWaited is how long the threads that lanes were seen on have waited for a
// processor, together, since the process began. Recorders take differences, each of
// its own readings. A thread counts from the second call in a row that it was seen
// before. A thread that kept its processor waited for none, so its file, which takes
// microseconds, is not read. It allocates nothing.
func lanesWaited() (ns int64, ok bool) {
	watches.mu.Lock()
	defer watches.mu.Unlock()
	for _, w := range watches.all {
		var line [64]byte
		seen := w.seen.Load() // not an exchange, which would wait for each thread's cold memory
		if seen {
			w.seen.Store(false)
		}
		if !seen || w.stats < 0 {
			w.counted = false
			continue
		}
		version := w.version()
		if w.exact() && w.counted && w.read == version {
			ok = true
			continue
		}
		n, _, err := syscall.RawSyscall6(syscall.SYS_PREAD64, uintptr(w.stats), uintptr(unsafe.Pointer(&line[0])), uintptr(len(line)), 0, 0, 0)
		if err != 0 { // the thread has ended
			continue
		}
		waited := number64(line[:n], 1)
		if w.counted {
			watches.waited, ok = watches.waited+waited-w.waited, true
		}
		w.counted, w.waited, w.read = true, waited, version
	}
	return watches.waited, ok
}

// openSchedstat is -1 where the system has no such file.
func openSchedstat(thread int32) int {
	fd, err := unix.Open("/proc/self/task/"+strconv.Itoa(int(thread))+"/schedstat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return fd
}

// sinceStart is the age of the process. The system stores the start in clockTicks
// of 10 ms; half a tick is added for rounding.
func sinceStart() int64 {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0
	}
	// The name may have spaces and is in parentheses; the fields behind it begin
	// with the third, and the start is field 22.
	behind := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	var now unix.Timespec
	if len(behind) < 20 || unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return 0
	}
	const tick = 1e9 / clockTicks
	return max(0, now.Nano()-number64(behind[19], 0)*tick-tick/2)
}
