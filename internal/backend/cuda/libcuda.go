//go:build linux && !nogpu

package cuda

import (
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/ebitengine/purego"
)

// leastDriver is the oldest driver that takes the kernels: 550 is CUDA 12.4.
const leastDriver = 12040

// libcuda is the driver of the machine, libcuda.so.1.
type libcuda struct {
	calls   map[string]uintptr
	device  uintptr
	context uintptr
	stream  uintptr
	about   description
	// launching is the launch under way.
	launching launchCall
}

var symbols = []string{
	"cuInit", "cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetAttribute", "cuDeviceTotalMem_v2",
	"cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease_v2", "cuCtxSetCurrent", "cuGetErrorString", "cuMemGetInfo_v2",
	"cuMemAlloc_v2", "cuMemFree_v2", "cuMemHostAlloc", "cuMemFreeHost", "cuMemsetD8Async", "cuMemcpyDtoHAsync_v2", "cuMemcpyHtoDAsync_v2",
	"cuModuleLoadData", "cuModuleGetFunction", "cuStreamCreate", "cuStreamSynchronize", "cuStreamDestroy_v2", "cuLaunchKernelEx", "cuTensorMapEncodeTiled", "cuFuncSetAttribute",
	"cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphLaunch", "cuGraphExecDestroy", "cuGraphDestroy",
	"cuEventCreate", "cuEventRecord", "cuEventSynchronize", "cuEventDestroy_v2",
}

// openDriver opens a card of the machine.
func openDriver(card int) (driver, error) {
	d, err := loadDriver()
	if err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := d.open(card); err != nil {
		return nil, err
	}
	return d, nil
}

func loadDriver() (*libcuda, error) {
	lib, err := purego.Dlopen("libcuda.so.1", purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("%w: %w: no NVIDIA driver (libcuda.so.1) on this machine", ErrDevice, ErrAbsent)
	}
	d := &libcuda{calls: map[string]uintptr{}}
	for _, name := range symbols {
		if d.calls[name], err = purego.Dlsym(lib, name); err != nil {
			return nil, fmt.Errorf("%w: the NVIDIA driver has no %s: version 550 or newer is needed", ErrDevice, name)
		}
	}
	return d, nil
}

// count wakes the driver and counts its cards.
func (d *libcuda) count() (int, error) {
	var version, count int32
	if err := d.call("cuInit", 0); err != nil {
		return 0, err
	}
	if err := d.call("cuDriverGetVersion", pointer(&version)); err != nil {
		return 0, err
	}
	if d.about.Driver = int(version); version < leastDriver {
		return 0, fmt.Errorf("%w: the driver knows CUDA %d.%d, expected 12.4 (driver 550) or newer", ErrDevice, version/1000, version%1000/10)
	}
	d.about.Release = release()
	err := d.call("cuDeviceGetCount", pointer(&count))
	return int(count), err
}

// find makes a card the one that is asked about.
func (d *libcuda) find(card int) error {
	var device int32
	if err := d.call("cuDeviceGet", pointer(&device), uintptr(card)); err != nil {
		return err
	}
	d.device = uintptr(device)
	return d.ask()
}

func (d *libcuda) open(card int) error {
	count, err := d.count()
	if err != nil {
		return err
	}
	if card < 0 || card >= count {
		return fmt.Errorf("%w: card %d, expected one of %d cards counted from 0", ErrDevice, card, count)
	}
	if err := d.find(card); err != nil {
		return err
	}
	if err := d.call("cuDevicePrimaryCtxRetain", pointer(&d.context), d.device); err != nil {
		return err
	}
	if err := d.call("cuCtxSetCurrent", d.context); err != nil {
		return err
	}
	const nonBlocking = 1
	return d.call("cuStreamCreate", pointer(&d.stream), nonBlocking)
}

// ask fills in what the card says of itself.
func (d *libcuda) ask() error {
	var name [256]byte
	var total uint64
	if err := d.call("cuDeviceGetName", pointer(&name[0]), uintptr(len(name)), d.device); err != nil {
		return err
	}
	if err := d.call("cuDeviceTotalMem_v2", pointer(&total), d.device); err != nil {
		return err
	}
	d.about.Name, d.about.Memory = string(name[:max(slices.Index(name[:], 0), 0)]), int64(total)
	for _, a := range []struct {
		id int
		to *int
	}{{16, &d.about.Units}, {75, &d.about.Capability[0]}, {76, &d.about.Capability[1]}} {
		var v int32
		if err := d.call("cuDeviceGetAttribute", pointer(&v), uintptr(a.id), d.device); err != nil {
			return err
		}
		*a.to = int(v)
	}
	return nil
}

// held keeps what the driver is handed off the stack, which moves when it grows.
var held atomic.Pointer[byte]

func pointer[T any](p *T) uintptr {
	held.Store((*byte)(unsafe.Pointer(p)))
	return uintptr(unsafe.Pointer(p))
}

// call makes one call of the driver.
func (d *libcuda) call(name string, args ...uintptr) error {
	code, _, _ := purego.SyscallN(d.calls[name], args...)
	if code = uintptr(uint32(code)); code == 0 {
		return nil
	}
	var text *byte
	purego.SyscallN(d.calls["cuGetErrorString"], code, pointer(&text))
	said := ""
	if text != nil {
		said = cString(text)
	}
	return failure(name, code, said)
}

func cString(p *byte) string {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

func (d *libcuda) enter() error {
	runtime.LockOSThread()
	return d.call("cuCtxSetCurrent", d.context)
}

func (d *libcuda) leave() { runtime.UnlockOSThread() }

func (d *libcuda) describe() description { return d.about }

func (d *libcuda) memory() (free, total int64, err error) {
	var f, t uint64
	err = d.call("cuMemGetInfo_v2", pointer(&f), pointer(&t))
	return int64(f), int64(t), err
}

func (d *libcuda) alloc(bytes int64) (address, error) {
	var a uint64
	err := d.call("cuMemAlloc_v2", pointer(&a), uintptr(bytes))
	return address(a), err
}

func (d *libcuda) free(a address) error { return d.call("cuMemFree_v2", uintptr(a)) }

func (d *libcuda) hostAlloc(bytes int64) ([]byte, error) {
	const portable, mapped = 1, 2
	var p unsafe.Pointer
	if err := d.call("cuMemHostAlloc", pointer(&p), uintptr(bytes), portable|mapped); err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), bytes), nil
}

func (d *libcuda) hostFree(b []byte) error { return d.call("cuMemFreeHost", pointer(&b[0])) }

func (d *libcuda) fill(a address, value byte, bytes int64) error {
	if err := d.call("cuMemsetD8Async", uintptr(a), uintptr(value), uintptr(bytes), d.stream); err != nil {
		return err
	}
	return d.sync()
}

func (d *libcuda) read(dst []byte, src address) error {
	if len(dst) == 0 {
		return nil
	}
	if err := d.call("cuMemcpyDtoHAsync_v2", pointer(&dst[0]), uintptr(src), uintptr(len(dst)), d.stream); err != nil {
		return err
	}
	return d.sync()
}

func (d *libcuda) write(dst address, src []byte) error {
	if len(src) == 0 {
		return nil
	}
	if err := d.call("cuMemcpyHtoDAsync_v2", uintptr(dst), pointer(&src[0]), uintptr(len(src)), d.stream); err != nil {
		return err
	}
	return d.sync()
}

func (d *libcuda) load(image []byte) (module, error) {
	var m uintptr
	err := d.call("cuModuleLoadData", pointer(&m), pointer(&image[0]))
	runtime.KeepAlive(image)
	return module(m), err
}

func (d *libcuda) function(m module, name string) (function, error) {
	var f uintptr
	text := append([]byte(name), 0)
	err := d.call("cuModuleGetFunction", pointer(&f), uintptr(m), pointer(&text[0]))
	runtime.KeepAlive(text)
	return function(f), err
}

func (d *libcuda) setShared(f function, bytes int) error {
	const maxDynamicShared = 8
	return d.call("cuFuncSetAttribute", uintptr(f), maxDynamicShared, uintptr(bytes))
}

// preferShared asks for a share of the most shared memory that there is; the rest is cache.
func (d *libcuda) preferShared(f function, percent int) error {
	const preferredCarveout = 9
	return d.call("cuFuncSetAttribute", uintptr(f), preferredCarveout, uintptr(percent))
}

// record captures launches on the stream as a graph.
func (d *libcuda) record(launches []launch) (list, error) {
	const threadLocal = 1
	if err := d.call("cuStreamBeginCapture_v2", d.stream, threadLocal); err != nil {
		return 0, err
	}
	var failed error
	for i := range launches {
		if failed = d.launch(&launches[i]); failed != nil {
			break
		}
	}
	var graph, exec uintptr
	if err := d.call("cuStreamEndCapture", d.stream, pointer(&graph)); err != nil && failed == nil {
		failed = err
	}
	if failed != nil {
		return 0, failed
	}
	err := d.call("cuGraphInstantiateWithFlags", pointer(&exec), graph, 0)
	if dropped := d.call("cuGraphDestroy", graph); err == nil {
		err = dropped
	}
	return list(exec), err
}

// launchConfig is CUlaunchConfig.
type launchConfig struct {
	grid, block [3]uint32
	shared      uint32
	stream      uintptr
	attributes  *launchAttribute
	count       uint32
}

// launchAttribute is CUlaunchAttribute.
type launchAttribute struct {
	id    uint32
	_     uint32
	value [16]uint32
}

// Kinds of attributes.
const (
	clusterDimension = 4
	earlyStart       = 6 // programmatic stream serialization
)

// launchCall is everything that the driver reads in a launch, off the stack.
type launchCall struct {
	config     launchConfig
	attributes [2]launchAttribute
	size       uint64
	extra      [5]uintptr
}

// launch passes all arguments as one buffer, or a stamp and one structure.
func (d *libcuda) launch(l *launch) error {
	c := &d.launching
	*c = launchCall{size: uint64(len(l.args))}
	for i := range 3 {
		c.config.grid[i], c.config.block[i] = uint32(l.grid[i]), 1
	}
	c.config.block[0], c.config.shared, c.config.stream = uint32(l.block), uint32(l.shared), d.stream
	add := func(id uint32, value ...uint32) {
		a := &c.attributes[c.config.count]
		a.id = id
		copy(a.value[:], value)
		c.config.count++
	}
	if l.cluster > 1 {
		add(clusterDimension, 1, uint32(l.cluster), 1)
	}
	if l.early {
		add(earlyStart, 1)
	}
	c.config.attributes = &c.attributes[0]
	var parts, list uintptr
	if l.whole {
		c.extra = [5]uintptr{pointer(&l.args[0]), pointer(&l.args[wholeAt])}
		parts = pointer(&c.extra[0])
	} else {
		c.extra = [5]uintptr{1, pointer(&l.args[0]), 2, pointer(&c.size), 0}
		list = pointer(&c.extra[0])
	}
	err := d.call("cuLaunchKernelEx", pointer(&c.config), uintptr(l.fn), parts, list)
	runtime.KeepAlive(l)
	if err != nil {
		return fmt.Errorf("launch of %s: %w", l.kernel, err)
	}
	return nil
}

// tensorMap has the driver encode a matrix of bf16 whose rows are read in lines of
// 128 swizzled bytes; what lies beyond it reads as 0.
func (d *libcuda) tensorMap(at address, rows, cols, box int) (tensorMap, error) {
	const bf16, none, swizzle128, promote256, zeros = 9, 0, 3, 3, 0
	m := new([3]tensorMap) // one of them begins at a multiple of 64 bytes
	to := (pointer(&m[0][0]) + 63) / 64 * 64
	args := &struct {
		dims    [2]uint64
		strides [1]uint64
		box, by [2]uint32
	}{[2]uint64{uint64(cols), uint64(rows)}, [1]uint64{2 * uint64(stride8(cols))}, [2]uint32{64, uint32(box)}, [2]uint32{1, 1}}
	err := d.call("cuTensorMapEncodeTiled", to, bf16, 2, uintptr(at), pointer(&args.dims[0]), pointer(&args.strides[0]), pointer(&args.box[0]), pointer(&args.by[0]), none, swizzle128, promote256, zeros)
	first := (to - pointer(&m[0][0])) / 8
	var out tensorMap
	for i := range out {
		at := int(first) + i
		out[i] = m[at/len(out)][at%len(out)]
	}
	return out, err
}

func (d *libcuda) replay(l list) error { return d.call("cuGraphLaunch", uintptr(l), d.stream) }
func (d *libcuda) drop(l list) error   { return d.call("cuGraphExecDestroy", uintptr(l)) }
func (d *libcuda) sync() error         { return d.call("cuStreamSynchronize", d.stream) }

func (d *libcuda) newEvent() (event, error) {
	const noTimes = 2
	var e uintptr
	err := d.call("cuEventCreate", pointer(&e), noTimes)
	return event(e), err
}
func (d *libcuda) mark(e event) error      { return d.call("cuEventRecord", uintptr(e), d.stream) }
func (d *libcuda) await(e event) error     { return d.call("cuEventSynchronize", uintptr(e)) }
func (d *libcuda) dropEvent(e event) error { return d.call("cuEventDestroy_v2", uintptr(e)) }

func (d *libcuda) close() error {
	if err := d.call("cuStreamDestroy_v2", d.stream); err != nil {
		return err
	}
	return d.call("cuDevicePrimaryCtxRelease_v2", d.device)
}
