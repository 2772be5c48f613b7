//go:build linux && !nogpu

package opencl

import (
	"bytes"
	"fmt"
	"runtime"
	"unsafe"
)

// build compiles a program. Of a log only the first error is told.
func (d *library) build(source, options string) (program, error) {
	text := append([]byte(source), 0)
	start, size := new(*byte), uint64(len(source))
	*start = &text[0]
	p, err := d.object(createProgramWithSource, d.context, 1, uintptr(unsafe.Pointer(start)), uintptr(unsafe.Pointer(&size)))
	runtime.KeepAlive(text)
	if err != nil {
		return 0, err
	}
	return d.compile(p, source, options)
}

// compile builds a program for the device, or releases it.
func (d *library) compile(p uintptr, source, options string) (program, error) {
	device, flags := d.device, append([]byte(options), 0)
	err := d.call(buildProgram, p, 1, uintptr(unsafe.Pointer(&device)), uintptr(unsafe.Pointer(&flags[0])), 0, 0)
	if err != nil {
		err = fmt.Errorf("%w: %s", err, firstError(d.log(p), source))
		return 0, firstOf(err, d.call(releaseProgram, p))
	}
	return program(p), nil
}

// binary is what the device's compiler made of a program; a program is for one device.
func (d *library) binary(p program) ([]byte, error) {
	const binarySizes, binaries = 0x1165, 0x1166
	var size uint64
	if err := d.call(getProgramInfo, uintptr(p), binarySizes, 8, uintptr(unsafe.Pointer(&size)), 0); err != nil || size == 0 {
		return nil, err
	}
	data := make([]byte, size)
	var pin runtime.Pinner
	defer pin.Unpin()
	to := new(*byte)
	*to = &data[0]
	pin.Pin(*to)
	err := d.call(getProgramInfo, uintptr(p), binaries, unsafe.Sizeof(*to), uintptr(unsafe.Pointer(to)), 0)
	return data, err
}

// load makes a program of what binary gave.
func (d *library) load(data []byte, options string) (program, error) {
	var pin runtime.Pinner
	defer pin.Unpin()
	device, from, size, status := d.device, new(*byte), uint64(len(data)), new(int32)
	*from = &data[0]
	pin.Pin(*from)
	p, err := d.object(createProgramWithBinary, d.context, 1, uintptr(unsafe.Pointer(&device)), uintptr(unsafe.Pointer(&size)), uintptr(unsafe.Pointer(from)), uintptr(unsafe.Pointer(status)))
	if err != nil {
		return 0, err
	}
	return d.compile(p, "", options)
}

func (d *library) log(p uintptr) string {
	const buildLog = 0x1183
	var size uint64
	if d.call(getProgramBuildInfo, p, d.device, buildLog, 0, 0, uintptr(unsafe.Pointer(&size))) != nil || size == 0 {
		return ""
	}
	b := make([]byte, size)
	if d.call(getProgramBuildInfo, p, d.device, buildLog, uintptr(size), uintptr(unsafe.Pointer(&b[0])), 0) != nil {
		return ""
	}
	return string(bytes.TrimRight(b, "\x00"))
}

func (d *library) kernel(p program, name string) (kernel, error) {
	text := append([]byte(name), 0)
	k, err := d.object(createKernel, uintptr(p), uintptr(unsafe.Pointer(&text[0])))
	return kernel(k), err
}

func (d *library) set(k kernel, index int, value []byte) error {
	if value == nil {
		return d.call(setKernelArg, uintptr(k), uintptr(index), unsafe.Sizeof(uintptr(0)), 0)
	}
	return d.call(setKernelArg, uintptr(k), uintptr(index), uintptr(len(value)), uintptr(unsafe.Pointer(&value[0])))
}

func (d *library) limit(k kernel) (int, error) {
	const workGroupSize = 0x11B0
	size := new(uint64)
	err := d.call(getKernelWorkGroupInfo, uintptr(k), d.device, workGroupSize, 8, uintptr(unsafe.Pointer(size)), 0)
	return int(*size), err
}

func (d *library) drop(k kernel) error { return d.call(releaseKernel, uintptr(k)) }
