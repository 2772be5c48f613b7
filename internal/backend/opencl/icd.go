//go:build linux && !nogpu

package opencl

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"

	"hotpath/internal/backend/device"
)

// entry numbers the functions of the library.
type entry int

const (
	getPlatformIDs entry = iota
	getPlatformInfo
	getDeviceIDs
	getDeviceInfo
	createContext
	releaseContext
	createCommandQueue
	releaseCommandQueue
	createBuffer
	releaseMemObject
	enqueueMapBuffer
	enqueueUnmapMemObject
	createProgramWithSource
	createProgramWithBinary
	buildProgram
	getProgramBuildInfo
	getProgramInfo
	releaseProgram
	createKernel
	setKernelArg
	getKernelWorkGroupInfo
	releaseKernel
	enqueueWriteBuffer
	enqueueReadBuffer
	enqueueFillBuffer
	enqueueNDRangeKernel
	flushQueue
	finishQueue
	waitForEvents
	getEventProfilingInfo
	releaseEvent
	numEntries
)

var symbols = [numEntries]string{
	"clGetPlatformIDs", "clGetPlatformInfo", "clGetDeviceIDs", "clGetDeviceInfo", "clCreateContext", "clReleaseContext", "clCreateCommandQueue", "clReleaseCommandQueue",
	"clCreateBuffer", "clReleaseMemObject", "clEnqueueMapBuffer", "clEnqueueUnmapMemObject", "clCreateProgramWithSource", "clCreateProgramWithBinary", "clBuildProgram", "clGetProgramBuildInfo", "clGetProgramInfo", "clReleaseProgram",
	"clCreateKernel", "clSetKernelArg", "clGetKernelWorkGroupInfo", "clReleaseKernel", "clEnqueueWriteBuffer", "clEnqueueReadBuffer", "clEnqueueFillBuffer", "clEnqueueNDRangeKernel",
	"clFlush", "clFinish", "clWaitForEvents", "clGetEventProfilingInfo", "clReleaseEvent",
}

// icd is the loader of the machine's runtimes, libOpenCL.so.1, or the runtime that
// HOTPATH_OPENCL names.
type icd struct{ at [numEntries]uintptr }

func loadICD() (*icd, error) {
	name := "libOpenCL.so.1"
	if other := os.Getenv("HOTPATH_OPENCL"); other != "" {
		name = other
	}
	lib, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, notLoaded(name, err.Error())
	}
	l := &icd{}
	for i, symbol := range symbols {
		if l.at[i], err = purego.Dlsym(lib, symbol); err != nil {
			return nil, fmt.Errorf("%w: %s has no %s, expected OpenCL 1.2", ErrDevice, name, symbol)
		}
	}
	return l, nil
}

// call makes a call whose result is a code. Pointers among the arguments are
// converted where it is called, and so they escape and stay alive.
//
//go:uintptrescapes
func (l *icd) call(f entry, args ...uintptr) error {
	code, _, _ := purego.SyscallN(l.at[f], args...)
	if int32(code) == 0 {
		return nil
	}
	return failure(symbols[f], int32(code))
}

// object makes a call whose result is a handle; the last argument, which it adds,
// is where the code goes.
//
//go:uintptrescapes
func (l *icd) object(f entry, args ...uintptr) (uintptr, error) {
	var pin runtime.Pinner
	code := new(int32)
	pin.Pin(code)
	defer pin.Unpin()
	h, _, _ := purego.SyscallN(l.at[f], append(args, uintptr(unsafe.Pointer(code)))...)
	if *code != 0 {
		return 0, failure(symbols[f], *code)
	}
	if h == 0 {
		return 0, fmt.Errorf("%w: %s gave nothing", ErrDevice, symbols[f])
	}
	return h, nil
}

// place is a device and where it was found.
type place struct {
	platform, device uintptr
	about            description
}

// devices lists the devices of all platforms, CPUs last. A platform that cannot be
// asked is left out, unless there is no other.
func (l *icd) devices() ([]place, error) {
	var n uint32
	if err := l.call(getPlatformIDs, 0, 0, uintptr(unsafe.Pointer(&n))); err != nil {
		return nil, err
	}
	platforms := make([]uintptr, max(n, 1))
	if err := l.call(getPlatformIDs, uintptr(n), uintptr(unsafe.Pointer(&platforms[0])), 0); err != nil {
		return nil, err
	}
	var out []place
	var failed []error
	for _, p := range platforms[:n] {
		found, err := l.devicesOf(p)
		out, failed = append(out, found...), append(failed, err)
	}
	if len(out) == 0 {
		return nil, noDevice(int(n), failed)
	}
	slices.SortStableFunc(out, func(a, b place) int {
		switch {
		case a.about.CPU == b.about.CPU:
			return 0
		case a.about.CPU:
			return 1
		}
		return -1
	})
	return out, nil
}

func (l *icd) devicesOf(platform uintptr) ([]place, error) {
	const all = 0xffffffff
	var n uint32
	if err := l.call(getDeviceIDs, platform, all, 0, 0, uintptr(unsafe.Pointer(&n))); err != nil || n == 0 {
		return nil, err
	}
	ids := make([]uintptr, n)
	if err := l.call(getDeviceIDs, platform, all, uintptr(n), uintptr(unsafe.Pointer(&ids[0])), 0); err != nil {
		return nil, err
	}
	name, err := l.text(getPlatformInfo, platform, 0x0902)
	if err != nil {
		return nil, err
	}
	var out []place
	for _, id := range ids {
		about, err := l.ask(id)
		if err != nil {
			return out, err
		}
		about.Platform = name
		out = append(out, place{platform, id, about})
	}
	return out, nil
}

// ask reads what a device says of itself.
func (l *icd) ask(device uintptr) (d description, err error) {
	var extensions string
	for _, t := range []struct {
		id uintptr
		to *string
	}{{0x102B, &d.Name}, {0x102D, &d.Driver}, {0x102F, &d.Version}, {0x103D, &d.Language}, {0x1030, &extensions}} {
		if *t.to, err = l.text(getDeviceInfo, device, t.id); err != nil {
			return d, err
		}
	}
	d.Extensions = strings.Fields(extensions)
	for _, v := range []struct {
		id    uintptr
		bytes uintptr
		to    func(uint64)
	}{
		{0x1002, 4, func(v uint64) { d.Units = int(v) }},
		{0x1004, 8, func(v uint64) { d.Items = int(v) }},
		{0x101F, 8, func(v uint64) { d.Memory = int64(v) }},
		{0x1010, 8, func(v uint64) { d.Largest = int64(v) }},
		{0x1023, 8, func(v uint64) { d.Local = int64(v) }},
		{0x1000, 8, func(v uint64) { d.CPU = v&2 != 0 }},
		{0x1035, 4, func(v uint64) { d.Unified = v != 0 }},
	} {
		var value uint64
		if err := l.call(getDeviceInfo, device, v.id, v.bytes, uintptr(unsafe.Pointer(&value)), 0); err != nil {
			return d, err
		}
		v.to(value)
	}
	return d, nil
}

func (l *icd) text(f entry, of, what uintptr) (string, error) {
	var size uint64
	if err := l.call(f, of, what, 0, 0, uintptr(unsafe.Pointer(&size))); err != nil || size == 0 {
		return "", err
	}
	b := make([]byte, size)
	if err := l.call(f, of, what, uintptr(size), uintptr(unsafe.Pointer(&b[0])), 0); err != nil {
		return "", err
	}
	return strings.TrimSpace(string(bytes.TrimRight(b, "\x00"))), nil
}

// Devices lists the devices of the machine without opening them.
func Devices() ([]device.About, error) {
	l, err := loadICD()
	if err != nil {
		return nil, err
	}
	places, err := l.devices()
	var out []device.About
	for _, p := range places {
		out = append(out, p.about.about())
	}
	return out, err
}

// Fits reports why the first device is not taken for a model of some bytes unless
// somebody names it: ErrAbsent if there is no card.
func Fits(bytes int64) error {
	l, err := loadICD()
	if err != nil {
		return err
	}
	places, err := l.devices()
	if err != nil {
		return err
	}
	return places[0].about.fits(bytes)
}
