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
	"sync"
	"sync/atomic"

	"hotpath/internal/backend/device"
	"hotpath/internal/graph"
	"hotpath/internal/plan"
)

// Options choose a device.
type Options struct {
	Device int    // counted over all platforms
	Cache  string // folder in which winners among tiles, and programs, are kept; "": none
	// Half lets products of many rows round operands to 16 bits, where the device has
	// cl_khr_fp16.
	Half bool
	// Untuned takes the usual tile of each product, without a measurement.
	Untuned bool
}

// half reports whether products of many rows multiply in 16 bits.
func (b *Backend) half() bool { return b.opts.Half && b.about.has("cl_khr_fp16") }

// Backend is one device.
type Backend struct {
	opts  Options
	drv   driver
	slabs *slabs
	pool  *device.Pool // of slabs
	pins  *slabs       // pinned
	hosts *device.Pool // of pins
	tuner *tuner
	clock device.Clock // of profiles
	about description
	kept  binaries

	counts struct{ runs, launches, enqueuing atomic.Int64 }

	mu       sync.Mutex // guards programs
	programs map[string]*built
}

// New opens a device.
func New(o Options) (*Backend, error) {
	drv, err := openDriver(o.Device)
	if err != nil {
		return nil, err
	}
	b, err := newBackend(o, drv)
	if err != nil {
		return nil, err
	}
	// Most plans need these: a device whose compiler fails is refused here, where the
	// caller can still take another.
	if err := b.prepare([]code{plain("k_embed"), plain("k_norm")}); err != nil {
		return nil, firstOf(err, b.Close())
	}
	return b, nil
}

func newBackend(o Options, drv driver) (*Backend, error) {
	s, pins := &slabs{drv: drv}, &slabs{drv: drv, pinned: true}
	b := &Backend{opts: o, drv: drv, slabs: s, pool: device.NewPool(s), pins: pins, hosts: device.NewPool(pins), programs: map[string]*built{}, about: drv.describe()}
	b.kept = newBinaries(o.Cache, b.about)
	b.tuner = newTuner(o.Cache, b.about, b.half())
	if o.Untuned {
		b.tuner.spent = 2 * tuneTime
	}
	if err := b.about.check(); err != nil {
		return nil, firstOf(err, drv.close())
	}
	return b, nil
}

// fewRows is up to how many rows products read each weight once for all of them.
const fewRows = 8

// buckets are the row counts at which smaller plans end: where products change their
// kernels, and where tiles of another size pay.
var buckets = []int{device.OneRow, fewRows, 128, 1024, 8192}

func (b *Backend) Caps() plan.Caps {
	return plan.Caps{Name: "opencl", Workers: 1, Async: true, Host: true, Buckets: buckets, Runs: b.about.runs(), StoredAs: device.StoredAs, Merges: b.merges(), OwnScratch: func(string) bool { return true }}
}

func (*Backend) Patterns() []plan.Pattern { return device.Patterns }

// Rules say that one row and few rows are multiplied in another way than many,
// unless one way is asked for; which kernel that is, bindProducts knows.
func (b *Backend) Rules(invariant bool) []plan.Rule {
	many := plan.Rule{Class: "f32", Op: graph.OpLinear, Kernel: "many"}
	if invariant {
		return []plan.Rule{many}
	}
	return []plan.Rule{{Class: "f32", Op: graph.OpLinear, Kernel: "one", To: device.OneRow}, {Class: "f32", Op: graph.OpLinear, Kernel: "few", To: fewRows}, many}
}

// Pack copies a weight to the device.
func (b *Backend) Pack(w plan.Weight, _ *plan.Format) (plan.Packed, error) {
	as := device.StoredAs(w.Value, nil)
	data, err := device.Encode(w, as)
	if err != nil {
		return nil, err
	}
	p, err := device.Pack(w, as, data, b.pool, b)
	if err != nil {
		return nil, err
	}
	if w.Drop != nil {
		w.Drop()
	}
	return p, nil
}

// pinned gives zeroed memory of the host, from which copies need no staging of the
// runtime's. It is given back to b.hosts.
func (b *Backend) pinned(bytes int64, what string) ([]byte, address, error) {
	a, err := b.hosts.Take(bytes, what)
	if err != nil {
		return nil, 0, err
	}
	host := b.pins.host(a, bytes)
	clear(host)
	return host, a, nil
}

// Close gives everything back to the runtime.
func (b *Backend) Close() error {
	b.pool.Close()
	b.hosts.Close()
	return firstOf(b.slabs.close(), b.pins.close(), b.drv.close())
}
