// Package opencl runs plans on devices with an OpenCL runtime: graphics cards of
// any maker, integrated ones, and CPUs through PoCL. The runtime is loaded without
// cgo; nothing but it need be installed.
//
// Kernels are OpenCL C 1.2 in kernels/ and are compiled by the device's runtime. A
// plan's steps become a list of launches whose arguments are set once, when the
// plan is bound; a run enqueues the inputs, the list and the outputs, and waits for
// the last of them. Weights, state and activations never leave the device.
//
// It implements plan.Backend; package hotpath/opencl registers it. Errors wrap
// ErrDevice.
package opencl

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// Options choose a device.
type Options struct {
	Device int    // counted over all platforms
	Cache  string // folder in which the winners among tiles are kept; "": none
}

// Backend is one device.
type Backend struct {
	opts  Options
	drv   driver
	pool  *pool
	tuner *tuner

	mu       sync.Mutex // guards what follows
	programs map[string]program
	about    description
}

// New opens a device.
func New(o Options) (*Backend, error) {
	drv, err := openDriver(o.Device)
	if err != nil {
		return nil, err
	}
	return newBackend(o, drv)
}

func newBackend(o Options, drv driver) (*Backend, error) {
	b := &Backend{opts: o, drv: drv, pool: newPool(drv), programs: map[string]program{}, about: drv.describe()}
	b.tuner = newTuner(o.Cache, b.about)
	if err := b.about.check(); err != nil {
		return nil, errors.Join(err, drv.close())
	}
	return b, nil
}

// program compiles code once.
func (b *Backend) program(c code) (program, error) {
	key := c.key()
	b.mu.Lock()
	defer b.mu.Unlock()
	if p, ok := b.programs[key]; ok {
		return p, nil
	}
	p, err := b.drv.build(source(c.units), buildOptions+c.options)
	if err != nil {
		return 0, fmt.Errorf("kernels for %s: %w", b.about.Name, err)
	}
	b.programs[key] = p
	return p, nil
}

const (
	// oneRow is a step of a single row, which takes in its neighbours.
	oneRow = 1
	// fewRows is up to how many rows products read each weight once for all of them.
	fewRows = 8
)

var buckets = []int{oneRow, fewRows, 128, 1024, 8192}

func (b *Backend) Caps() plan.Caps {
	return plan.Caps{Name: "opencl", Workers: 1, Async: true, Host: true, Buckets: buckets, StoredAs: storedAs, Merges: merges(b.about), OwnScratch: func(string) bool { return true }}
}

func (*Backend) Patterns() []plan.Pattern { return patterns }

// Rules say that one row and few rows are multiplied in another way than many,
// unless one way is asked for; which kernel that is, bindProducts knows.
func (b *Backend) Rules(invariant bool) []plan.Rule {
	many := plan.Rule{Class: "f32", Op: graph.OpLinear, Kernel: "many"}
	if invariant {
		return []plan.Rule{many}
	}
	return []plan.Rule{{Class: "f32", Op: graph.OpLinear, Kernel: "one", To: oneRow}, {Class: "f32", Op: graph.OpLinear, Kernel: "few", To: fewRows}, many}
}

// storedTypes have kernels that read them. Others become f32 when they are packed.
var storedTypes = []tensor.DType{tensor.F32, tensor.F16, tensor.BF16, tensor.Q8_0, tensor.Q4_0, tensor.Q4_1, tensor.Q4_K, tensor.Q6_K}

// storedAs is the type in which the device holds a weight.
func storedAs(v *graph.Value, _ []*graph.Node) tensor.DType {
	if v.DType == tensor.I32 || slices.Contains(storedTypes, v.DType) {
		return v.DType
	}
	return tensor.F32
}

// packed is a weight on the device.
type packed struct {
	be    *Backend
	at    address
	dtype tensor.DType
	bytes int64
}

func (p *packed) Bytes() int64 { return p.bytes }

// Free gives the memory back to the pool.
func (p *packed) Free() error {
	p.be.pool.give(p.at)
	p.at = 0
	return nil
}

// Pack copies a weight to the device.
func (b *Backend) Pack(w plan.Weight, _ *plan.Format) (plan.Packed, error) {
	p := &packed{be: b, dtype: w.DType, bytes: int64(len(w.Data))}
	data := w.Data
	if storedAs(w.Value, nil) != w.DType {
		values := make([]float32, len(w.Data)/w.DType.Info().BlockBytes*w.DType.Info().BlockLen)
		if err := tensor.Dequantize(values, w.DType, w.Data); err != nil {
			return nil, err
		}
		data = bytesOf(values)
		p.dtype, p.bytes = tensor.F32, int64(len(data))
	}
	var err error
	if p.at, err = b.pool.take(p.bytes, "weight "+w.Value.Node.Name); err != nil {
		return nil, err
	}
	if err := b.write(p.at, data); err != nil {
		return nil, errors.Join(err, p.Free())
	}
	if w.Drop != nil {
		w.Drop()
	}
	return p, nil
}

// write copies to the device and waits for it.
func (b *Backend) write(to address, src []byte) error {
	if len(src) == 0 {
		return nil
	}
	at, offset := b.pool.buffer(to)
	e, err := b.drv.write(at, offset, src, ended)
	return b.finish(e, err)
}

// read copies from the device and waits for it.
func (b *Backend) read(dst []byte, from address) error {
	if len(dst) == 0 {
		return nil
	}
	at, offset := b.pool.buffer(from)
	e, err := b.drv.read(dst, at, offset, ended)
	return b.finish(e, err)
}

// finish waits for a command that was enqueued without an error.
func (b *Backend) finish(e event, err error) error {
	if err != nil {
		return err
	}
	return errors.Join(b.drv.wait(e), b.drv.forget(e))
}

// Close gives everything back to the runtime.
func (b *Backend) Close() error {
	return errors.Join(b.pool.close(), b.drv.close())
}
