package opencl

import (
	"errors"
	"fmt"
	"slices"
)

// ErrDevice reports a device, or its runtime, that cannot be used or has failed.
var ErrDevice = errors.New("OpenCL")

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
	kernel(p program, name string) (kernel, error)
	set(k kernel, index int, value []byte) error // of a buffer: its handle; nil: no buffer
	drop(k kernel) error

	// What is enqueued runs in order.
	write(b buffer, offset int64, src []byte, n notice) (event, error)
	read(dst []byte, b buffer, offset int64, n notice) (event, error)
	fill(b buffer, offset, bytes int64) error // with zeros, to its end
	launch(k kernel, global, local [2]int, n notice) (event, error)
	flush() error
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
	Units                  int   // compute units
	Memory                 int64 // bytes
	Largest                int64 // bytes of one buffer
	Local                  int64 // bytes of local memory of a group
	Items                  int   // work items of a group
	Version                string
	CPU                    bool
	Extensions             []string
}

// has reports whether a device has an extension.
func (d description) has(extension string) bool { return slices.Contains(d.Extensions, extension) }

// features are macros of kernels that a device's extensions switch on.
var features = []struct{ extension, macro string }{
	{"cl_khr_fp64", "DOUBLES"},
}

// options are those of every program for the device: kernels are OpenCL C 1.2.
// Nothing is relaxed, so that answers are those of other backends up to rounding.
func (d description) options() string {
	options := "-cl-std=CL1.2"
	for _, f := range features {
		if d.has(f.extension) {
			options += " -D" + f.macro
		}
	}
	return options
}

func (d description) String() string {
	return fmt.Sprintf("%s, %d units, %d GiB, driver %s", d.Name, d.Units, d.Memory>>30, d.Driver)
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

// failure is an error of a call of the runtime.
func failure(call string, code int32) error {
	name, ok := codes[code]
	if !ok {
		name = "unknown error"
	}
	return fmt.Errorf("%w: %s: %s (%d)", ErrDevice, call, name, code)
}

var codes = map[int32]string{
	-1: "device not found", -2: "device not available", -3: "compiler not available", -4: "out of memory", -5: "out of resources", -6: "out of host memory",
	-7: "profiling information not available", -11: "build failed", -14: "a command before it failed", -30: "invalid value", -33: "invalid device", -34: "invalid context",
	-36: "invalid queue", -38: "invalid buffer", -44: "invalid program", -45: "invalid program executable", -46: "invalid kernel name", -48: "invalid kernel", -49: "invalid argument index",
	-50: "invalid argument value", -51: "invalid argument size", -52: "arguments missing", -54: "invalid group size", -55: "invalid item size", -58: "invalid event", -59: "invalid operation",
	-61: "invalid buffer size", -63: "invalid global size", -1001: "no platform found",
}
