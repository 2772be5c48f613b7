package opencl

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"hotpath/internal/backend/device"
	"hotpath/internal/plan"
)

// ErrDevice reports a device, or its runtime, that cannot be used or has failed. It is
// a plan.ErrDevice.
var ErrDevice error = plan.DeviceError("OpenCL")

// ErrAbsent says that the machine has no runtime, or no card that is taken unless
// somebody names it.
var ErrAbsent = errors.New("no card")

const (
	// nvidia is the platform whose cards package cuda runs better.
	nvidia = "NVIDIA CUDA"
	// pocl is the platform of CPUs.
	pocl = "Portable Computing Language"
)

// driver is what this package needs of OpenCL. library implements it; tests put a
// fake in its place, which fails when it is told to. Any goroutine may call it.
type driver interface {
	describe() description

	create(bytes int64) (buffer, error)
	release(b buffer) error
	// pinned gives host memory from which copies need no staging of the runtime's.
	pinned(bytes int64) ([]byte, buffer, error)
	unpin(host []byte, b buffer) error

	build(source, options string) (program, error)
	binary(p program) ([]byte, error)                    // of a program that was built
	load(binary []byte, options string) (program, error) // what binary gave
	kernel(p program, name string) (kernel, error)
	limit(k kernel) (int, error)                 // work items of a group at most
	set(k kernel, index int, value []byte) error // of a buffer: its handle; nil: no buffer
	drop(k kernel) error

	// What is enqueued on one queue runs in order, and behind the event that the
	// order names. Nothing of it waits.
	write(b buffer, offset int64, src []byte, o order) (event, error)
	read(dst []byte, b buffer, offset int64, o order) (event, error)
	fill(b buffer, offset, bytes int64) error // with zeros, to its end
	launch(k kernel, global, local [2]int, o order) (event, error)
	flush() error  // begins all that was enqueued
	finish() error // waits for all that was enqueued
	wait(e event) error
	times(e event) (begin, end int64, err error) // nanoseconds of the device's clock
	forget(e event) error
	close() error
}

// notice is what becomes known of a command. Events cost time, so most commands
// have none.
type notice int

const (
	quiet notice = iota // no event: 0
	ended               // an event that can be waited for
	timed               // the same, with times
)

// queue is where commands are enqueued. Copies with queues of their own run beside
// the kernels of another run.
type queue int

const (
	kernels queue = iota
	toDevice
	fromDevice
	numQueues
)

// order is where a command is enqueued, behind what, and what becomes known of it.
type order struct {
	on     queue
	after  event // 0: none
	notice notice
}

// Handles of the runtime.
type (
	buffer  uintptr
	program uintptr
	kernel  uintptr
	event   uintptr
)

// description is what a device says of itself.
type description struct {
	Name, Driver, Platform string
	Units                  int    // compute units
	Memory                 int64  // bytes
	Largest                int64  // bytes of one buffer
	Local                  int64  // bytes of local memory of a group
	Items                  int    // work items of a group
	Version                string // "OpenCL 3.0 ..."
	Language               string // "OpenCL C 1.2 ..."
	CPU                    bool
	Unified                bool // shares the memory of the host
	Extensions             []string
}

// has reports whether a device has an extension.
func (d description) has(extension string) bool { return slices.Contains(d.Extensions, extension) }

// plainOptions are those of OpenCL C 1.2 without extensions. Nothing is relaxed, so
// that answers are those of other backends up to rounding.
const plainOptions = "-cl-std=CL1.2"

// options are those of every program for the device, with what its extensions offer.
func (d description) options() string {
	options := plainOptions
	if std := d.subgroups(); std != "" {
		options = "-cl-std=" + std + " -DSUBGROUPS"
	} else if d.ptx() {
		options += " -DWARPS"
	}
	if d.has("cl_khr_fp64") {
		options += " -DDOUBLES"
	}
	return options
}

// subgroups is the language that has subgroups on the device; "": none. They came with
// OpenCL C 2.0, which devices of OpenCL 3.0 may leave out.
func (d description) subgroups() string {
	switch {
	case !d.has("cl_khr_subgroups"):
		return ""
	case strings.HasPrefix(d.Language, "OpenCL C 2."):
		return "CL2.0"
	case strings.HasPrefix(d.Version, "OpenCL 3."):
		return "CL3.0"
	}
	return ""
}

// ptx reports whether kernels may use NVIDIA's instructions. Cards that run its OpenCL 3.0
// have those for subgroups and for packed bytes, but not the extensions.
func (d description) ptx() bool {
	return d.Platform == nvidia && strings.HasPrefix(d.Version, "OpenCL 3.")
}

// dots is the option with which kernels multiply packed bytes; "": the device has no
// instruction for it.
func (d description) dots() string {
	switch {
	case d.has("cl_khr_integer_dot_product"):
		return " -DDOT_KHR"
	case d.ptx():
		return " -DDOT_PTX"
	}
	return ""
}

func (d description) String() string {
	return fmt.Sprintf("%s, %d units, %d GiB, driver %s, platform %s", d.Name, d.Units, d.Memory>>30, d.Driver, d.Platform)
}

// What kernels ask of a device.
const (
	leastLocal = 16 << 10
	leastItems = 256
)

// check says why a device cannot run the kernels.
func (d description) check() error {
	switch {
	case d.Local < leastLocal:
		return fmt.Errorf("%w: %s has %d bytes of local memory, expected %d or more", ErrDevice, d.Name, d.Local, leastLocal)
	case d.Items < leastItems:
		return fmt.Errorf("%w: %s has groups of %d work items, expected %d or more", ErrDevice, d.Name, d.Items, leastItems)
	}
	return nil
}

// about describes the device to others.
func (d description) about() device.About {
	return device.About{Name: d.Name, Driver: d.Driver + ", platform " + d.Platform, Units: d.Units, Runs: d.runs(), Words: d.String(), CPU: d.CPU, Skip: d.skip()}
}

// runs are the sizes of runs; 0 of what is no card.
func (d description) runs() (r plan.RunSizes) {
	if d.card() {
		r = device.RunsFor(d.Memory)
	}
	return r
}

// card reports whether a device has memory of its own.
func (d description) card() bool { return !d.CPU && !d.Unified }

// skip reports why a device is not taken unless somebody names it.
func (d description) skip() error {
	switch {
	case !d.card():
		return fmt.Errorf("%w: %w: %s has no memory of its own", ErrDevice, ErrAbsent, d.Name)
	case d.Platform == nvidia:
		return fmt.Errorf("%w: %w: %s is CUDA's", ErrDevice, ErrAbsent, d.Name)
	}
	return d.check()
}

// fits reports why a device is not taken for a model of some bytes unless somebody names
// it.
func (d description) fits(bytes int64) error {
	if err := d.skip(); err != nil {
		return err
	}
	if want := device.RoomFor(bytes); want > d.Memory {
		return fmt.Errorf("%w: a model of %d MiB wants about %d MiB, %s has %d MiB", ErrDevice, bytes>>20, want>>20, d.Name, d.Memory>>20)
	}
	return nil
}

// noDevice says in one line that platforms have no device, and why the first of those
// that failed did.
func noDevice(platforms int, failed []error) error {
	for _, err := range failed {
		if err != nil {
			return fmt.Errorf("%w (%d platforms and no device)", err, platforms)
		}
	}
	return fmt.Errorf("%w: %d platforms and no device", ErrDevice, platforms)
}

// notLoaded is an error of a library that the system's loader does not take, by what the
// loader says: a machine without the file has no runtime, any other reason is told.
// glibc and musl say it in different words.
func notLoaded(name, said string) error {
	if strings.Contains(said, name+": cannot open shared object file: No such file") || strings.Contains(said, name+": No such file") {
		return fmt.Errorf("%w: %w: no OpenCL runtime (%s) on this machine", ErrDevice, ErrAbsent, name)
	}
	return fmt.Errorf("%w: the runtime %s cannot be loaded: %s", ErrDevice, name, strings.TrimPrefix(said, name+": "))
}

// noPlatform is the code of a loader without a runtime behind it.
const noPlatform = -1001

// failure is an error of a call of the runtime.
func failure(call string, code int32) error {
	if code == noPlatform {
		return fmt.Errorf("%w: %w: no platform: no device's runtime is installed, or none can be loaded (%s, code %d)", ErrDevice, ErrAbsent, call, code)
	}
	name, ok := codes[code]
	if !ok {
		name = "unknown error"
	}
	return fmt.Errorf("%w: %s: %s (%d)", ErrDevice, call, name, code)
}

// firstOf is the first error of some calls: a device that failed fails at all that
// follow, and the first error says why.
func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

var codes = map[int32]string{
	-1: "device not found", -2: "device not available", -3: "compiler not available", -4: "out of memory", -5: "out of resources", -6: "out of host memory",
	-7: "profiling information not available", -11: "build failed", -14: "a command before it failed", -30: "invalid value", -33: "invalid device", -34: "invalid context",
	-36: "invalid queue", -38: "invalid buffer", -42: "invalid binary", -44: "invalid program", -45: "invalid program executable", -46: "invalid kernel name", -48: "invalid kernel", -49: "invalid argument index",
	-50: "invalid argument value", -51: "invalid argument size", -52: "arguments missing", -54: "invalid group size", -55: "invalid item size", -58: "invalid event", -59: "invalid operation",
	-61: "invalid buffer size", -63: "invalid global size",
}
