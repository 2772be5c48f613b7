package perf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// counter is one event of one thread.
type counter struct {
	event string
	fd    int
}

// paranoid is where Linux says who may count.
const paranoid = "/proc/sys/kernel/perf_event_paranoid"

func (c *Counters) open() {
	threads, err := threads()
	if err != nil {
		threads = []int{0} // the calling one
	}
	for _, e := range Events {
		var first error
		opened := 0
		for _, id := range threads {
			fd, err := openEvent(e, id)
			if errors.Is(err, unix.ESRCH) { // a thread that ended meanwhile
				continue
			}
			if err != nil {
				first = err
				break
			}
			c.fds = append(c.fds, counter{e.Name, fd})
			opened++
		}
		if first != nil || opened == 0 {
			c.drop(e.Name)
			c.missing = append(c.missing, Missing{e.Name, explain(e, first)})
		}
	}
}

// drop closes what is open of an event: a part of the threads would look like
// all of them.
func (c *Counters) drop(event string) {
	kept := c.fds[:0]
	for _, f := range c.fds {
		if f.event == event {
			_ = unix.Close(f.fd)
			continue
		}
		kept = append(kept, f)
	}
	c.fds = kept
}

// threads lists the threads of this process.
func threads() ([]int, error) {
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil, err
	}
	var ids []int
	for _, e := range entries {
		if id, err := strconv.Atoi(e.Name()); err == nil {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

func openEvent(e Event, thread int) (int, error) {
	attr := unix.PerfEventAttr{
		Type: e.kind, Config: e.config,
		Size:        uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Read_format: unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING,
		Bits:        unix.PerfBitDisabled | unix.PerfBitInherit | unix.PerfBitExcludeHv,
	}
	// What ordinary users may see. Switches and faults happen in the kernel:
	// without leave to look there they are refused, and said to be.
	if e.Hardware {
		attr.Bits |= unix.PerfBitExcludeKernel
	}
	return unix.PerfEventOpen(&attr, thread, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
}

// explain says in words why an event was refused.
func explain(e Event, err error) string {
	level := "unknown"
	if b, rerr := os.ReadFile(paranoid); rerr == nil {
		level = strings.TrimSpace(string(b))
	}
	switch {
	case err == nil:
		return "no thread could be watched"
	case errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM):
		most := 2
		if !e.Hardware {
			most = 1
		}
		return fmt.Sprintf("the kernel does not allow it (%s is %s, expected %d or less, or the capability CAP_PERFMON)", paranoid, level, most)
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EOPNOTSUPP):
		return "this processor, or the virtual machine around it, has no such counter"
	case errors.Is(err, unix.ENOSYS):
		return "this kernel has no perf_event_open"
	case errors.Is(err, unix.EMFILE):
		return "too many open files"
	}
	return fmt.Sprintf("perf_event_open: %v", err)
}

// Count counts while f runs. Calls must not overlap.
func (c *Counters) Count(f func() error) (Reading, error) {
	for _, x := range c.fds {
		_ = unix.IoctlSetInt(x.fd, unix.PERF_EVENT_IOC_RESET, 0)
		_ = unix.IoctlSetInt(x.fd, unix.PERF_EVENT_IOC_ENABLE, 0)
	}
	err := f()
	for _, x := range c.fds {
		_ = unix.IoctlSetInt(x.fd, unix.PERF_EVENT_IOC_DISABLE, 0)
	}
	r := Reading{}
	var buf [24]byte
	for _, x := range c.fds {
		if n, rerr := unix.Read(x.fd, buf[:]); rerr != nil || n != len(buf) {
			continue
		}
		value := float64(binary.NativeEndian.Uint64(buf[0:]))
		enabled, running := binary.NativeEndian.Uint64(buf[8:]), binary.NativeEndian.Uint64(buf[16:])
		if running > 0 && running < enabled { // it shared its counter with others
			value *= float64(enabled) / float64(running)
		}
		r[x.event] += value
	}
	return r, err
}

// Close stops counting.
func (c *Counters) Close() error {
	var errs []error
	for _, x := range c.fds {
		errs = append(errs, unix.Close(x.fd))
	}
	c.fds = nil
	return errors.Join(errs...)
}
