package cuda

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"hotpath/internal/backend/device"
	"hotpath/internal/plan"
)

// ErrDevice reports a card, or its driver, that cannot be used or has failed. It is a
// plan.ErrDevice.
var ErrDevice error = plan.DeviceError("CUDA")

// driver is what this package needs of CUDA. libcuda implements it; tests put a
// fake in its place, which fails when it is told to. Calls are made between
// enter and leave, on one thread.
type driver interface {
	enter() error // makes the card's context the thread's
	leave()

	describe() description
	memory() (free, total int64, err error)
	alloc(bytes int64) (address, error)
	free(a address) error
	// hostAlloc gives host memory that the card can reach at the same address.
	hostAlloc(bytes int64) ([]byte, error)
	hostFree(b []byte) error
	fill(a address, value byte, bytes int64) error
	read(dst []byte, src address) error
	write(dst address, src []byte) error

	// tensorMap describes rows x cols values of bf16 to the copy engine.
	tensorMap(at address, rows, cols, box int) (tensorMap, error)

	load(image []byte) (module, error)
	function(m module, name string) (function, error)
	// setShared allows a kernel so much dynamic shared memory.
	setShared(f function, bytes int) error
	// preferShared makes shared memory of a multiprocessor's cache while a kernel runs, a
	// percentage of what can be. Kernels that differ in this never run on a multiprocessor at the same time.
	preferShared(f function, percent int) error

	// record makes a list of launches that can be replayed.
	record(launches []launch) (list, error)
	replay(l list) error
	drop(l list) error
	sync() error // waits for all that was replayed

	// newEvent makes an event. mark puts it behind all that was replayed so far, and
	// await waits until the card has come there.
	newEvent() (event, error)
	mark(e event) error
	await(e event) error
	dropEvent(e event) error

	close() error
}

// Handles of the driver.
type (
	module   uintptr
	function uintptr
	list     uintptr
	event    uintptr
)

// description is what a card says of itself.
type description struct {
	Name       string
	Driver     int    // 13000 is 13.0
	Release    string // of the driver, "580.65.06"; "" if the system does not tell
	Capability [2]int // 9.0
	Units      int    // streaming multiprocessors
	Memory     int64  // bytes
}

// launch is one kernel with its arguments.
type launch struct {
	kernel string
	fn     function
	grid   [3]int
	block  int
	args   []byte // a stamp, then the kernel's own
	// shared is dynamic shared memory in bytes, cluster the number of blocks of a
	// cluster along y, 0 or 1: none.
	shared, cluster int
	// early says that the kernel may begin before the one before it has ended: it
	// waits by itself (grid_wait).
	early bool
	// whole says that the arguments behind the stamp are one structure with an alignment
	// of 64 bytes, which the driver puts where the kernel wants it.
	whole bool
}

// Bytes of a stamp (Stamp in common.cuh), and where a structure begins in args.
const (
	stampBytes = 8
	wholeAt    = 64
)

// stamped is the launch that writes the card's clock to a place of the card.
func (l launch) stamped(to address) launch {
	l.args = slices.Clone(l.args)
	binary.LittleEndian.PutUint64(l.args, uint64(to))
	return l
}

// faults say what a code of the driver means for the user, and what helps.
var faults = map[uintptr]string{
	2:   "the card has too little free memory",
	46:  "the card is busy: another process uses it exclusively",
	100: "the driver finds no card",
	200: "the card does not take the kernel image of this program",
	209: "this program has no kernel image for the card",
	214: "the card's memory has an error that ECC could not correct: reset the card",
	218: "the driver cannot compile the kernels: version 550 or newer is needed",
	222: "the driver is too old for the kernels: version 550 or newer is needed",
	700: "a kernel read or wrote outside of its memory; the card must be opened again",
	719: "a kernel failed; the card must be opened again",
	802: "the system's NVLink fabric is not ready",
	803: "the driver's library and its kernel module have different versions: restart the machine",
}

// failure is an error of a call of the driver, one line.
func failure(call string, code uintptr, text string) error {
	said, ok := faults[code]
	if !ok {
		said = cmp.Or(text, "unknown error")
	}
	err := fmt.Errorf("%w: %s (%s, code %d)", ErrDevice, said, call, code)
	if code == noDevice {
		return fmt.Errorf("%w: %w", ErrAbsent, err)
	}
	return err
}

const noDevice = 100

// ErrAbsent says that the machine has no card, or no driver.
var ErrAbsent = errors.New("no NVIDIA card")

// fits reports why a card with some free bytes cannot hold a model of some size:
// weights, their activations and a cache take up to half as much again, and a run's
// buffers at least a gigabyte.
func fits(bytes, free, total int64) error {
	if want := bytes + bytes/2 + 1<<30; want > free {
		return fmt.Errorf("%w: a model of %d MiB wants about %d MiB, %d of %d MiB of the card are free", ErrDevice, bytes>>20, want>>20, free>>20, total>>20)
	}
	return nil
}

func (d description) String() string {
	return fmt.Sprintf("%s, %d units, %d GiB, compute capability %d.%d, %s",
		d.Name, d.Units, d.Memory>>30, d.Capability[0], d.Capability[1], d.driver())
}

// driver is the version of the driver, and of the CUDA that it is for.
func (d description) driver() string {
	cuda := fmt.Sprintf("CUDA %d.%d", d.Driver/1000, d.Driver%1000/10)
	if d.Release == "" {
		return "driver for " + cuda
	}
	return "driver " + d.Release + " for " + cuda
}

// about describes the card to others.
func (d description) about() device.About {
	a := device.About{Name: d.Name, Driver: d.driver(), Units: d.Units, Runs: device.RunsFor(d.Memory), Words: d.String()}
	if d.Capability[0] < leastCapability {
		a.Skip = tooOld(d)
	}
	return a
}
