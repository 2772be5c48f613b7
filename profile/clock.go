package profile

import (
	"math/bits"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

var base = time.Now()

// system is the monotonic clock of the system.
func system() int64 { return int64(time.Since(base)) + 1 }

// Own prefetches a counter that is about to be written, and that others write too.
func Own(p *atomic.Int64) { own((*int64)(unsafe.Pointer(p))) }

// scale maps the processor's time stamp counter to nanoseconds: the reading at one
// moment, and a rate in units of 2^-32 ns.
type scale struct {
	at   uint64
	ns   int64
	rate uint64
}

// tsc is the scale of this machine's counter. It is written once, before trusted is.
type tsc struct {
	scale
	trusted atomic.Bool
	lanes   atomic.Bool // lookLane may be called
}

var (
	counter   tsc // by itself, not behind a pointer: a stamp finds all of it in one cache line, mostly a cold one
	calibrate = sync.OnceFunc(counter.measure)
)

// calibration is how long the rate is measured: a reading is good to some tens
// of nanoseconds, so the rate is good to a few parts in a hundred thousand.
const calibration = 2 * time.Millisecond

// measure compares the counter with the system's clock, unless it is not to be
// trusted.
func (t *tsc) measure() {
	if !hasCounter || !evenCounter() {
		return
	}
	c0, n0 := pair()
	for system()-n0 < int64(calibration) {
	}
	c1, n1 := pair()
	if c1 <= c0 || n1 <= n0 {
		return
	}
	t.rate, _ = bits.Div64(uint64(n1-n0)>>32, uint64(n1-n0)<<32, c1-c0)
	t.at, t.ns = c1, n1
	t.trusted.Store(true)
	t.lanes.Store(hasThreadKey)
}

// pair reads both clocks at nearly one moment: the closest of some tries.
func pair() (count uint64, ns int64) {
	best := ^uint64(0)
	for range 16 {
		a := readCounter()
		n := system()
		b := readCounter()
		if b-a < best {
			best, count, ns = b-a, a+(b-a)/2, n
		}
	}
	return count, ns
}

// evenCounter reports whether Linux itself uses the counter as its clock. It does so
// only if the counter has a constant rate and is equal on all processors.
func evenCounter() bool {
	b, err := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	return err == nil && strings.TrimSpace(string(b)) == "tsc"
}
