// Package cuda runs plans on an NVIDIA card through the driver's own library,
// libcuda.so.1, without cgo. Nothing but the driver need be installed.
//
// Kernels are CUDA C++ in kernels/, compiled ahead of time (make gen). A plan's
// steps become one list of launches, recorded when the plan is bound and replayed
// at each run: sizes lie in the card's memory, so arguments never change. Inputs
// and outputs are read and written by kernels in host memory that the card
// reaches; weights, state and activations never leave the card.
//
// It implements plan.Backend; package hotpath/cuda registers it. Errors wrap
// ErrDevice.
package cuda

import (
	"fmt"
	"sync"

	"hotpath/internal/backend/device"
	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// Options choose a card and how it computes.
type Options struct {
	Card int
	F32  bool // products in f32; otherwise operands are rounded to bf16
	// Narrow rounds the operands of narrow products too: tests have no others.
	Narrow bool
	// OldCodes multiplies single rows by the kernels in f32 at the default precision
	// too, so that gpubench can measure both kernels.
	OldCodes bool
}

// narrow is the number of values from which operands are rounded. Below it products
// cost next to nothing in f32 either, and models as narrow as that have vectors that
// are sensitive to rounding.
const narrow = 256

// inF32 reports whether products of rows of k values, or attention with rows of k
// values of queries, are computed in f32.
func (b *Backend) inF32(k int) bool { return b.opts.F32 || k < narrow && !b.opts.Narrow }

// Backend is one card.
type Backend struct {
	opts   Options
	drv    driver
	memory *memory
	pool   *device.Pool
	clock  device.Clock // of profiles
	funcs  map[string]function
	// wgmma says that the card has compute capability 9.0, whose kernels multiply by
	// warpgroups and may begin before those before them have ended.
	wgmma bool

	mu   sync.Mutex // one caller of the driver at a time
	last *exec      // whose run was enqueued last, if nobody waits for it yet
}

// New opens a card.
func New(o Options) (*Backend, error) {
	drv, err := openDriver(o.Card)
	if err != nil {
		return nil, err
	}
	return newBackend(o, drv)
}

func newBackend(o Options, drv driver) (*Backend, error) {
	b := &Backend{opts: o, drv: drv, memory: &memory{drv: drv}, funcs: map[string]function{}}
	b.pool = device.NewPool(b.memory)
	c := drv.describe().Capability
	b.wgmma = c == [2]int{9, 0}
	if c[0] < leastCapability {
		_ = drv.close()
		return nil, tooOld(drv.describe())
	}
	err := b.do(func() error {
		image, err := image(drv.describe().Capability)
		if err != nil {
			return err
		}
		m, err := drv.load(image)
		if err != nil {
			return err
		}
		for _, name := range kernelNames {
			if b.funcs[name], err = drv.function(m, name); err != nil {
				return fmt.Errorf("kernel %s: %w", name, err)
			}
		}
		for kernel, of := range map[string][]tile{"k_wg": tiles, "k_dx": gradientTiles, "k_dw": gradientTiles} {
			for _, t := range of {
				if err := drv.setShared(b.funcs[t.name(kernel)], t.shared()); b.wgmma && err != nil {
					return fmt.Errorf("kernel %s: %w", t.name(kernel), err)
				}
			}
		}
		for _, name := range append(streamKernels(), attendRow(64), attendRow(128), "k_several", "k_one_f16", "k_one_bf16", tallKernels[0].name(), tallKernels[1].name()) {
			if err := drv.preferShared(b.funcs[name], 100); err != nil {
				return fmt.Errorf("kernel %s: %w", name, err)
			}
		}
		for _, name := range fewKernels {
			if err := drv.preferShared(b.funcs[name], fewShared); err != nil {
				return fmt.Errorf("kernel %s: %w", name, err)
			}
		}
		for _, name := range streamKernels() {
			if err := drv.setShared(b.funcs[name], b.streamShared()); err != nil {
				return fmt.Errorf("kernel %s: %w", name, err)
			}
		}
		for _, name := range []string{"k_flash_256_f32", "k_flash_256_f16"} {
			if err := drv.setShared(b.funcs[name], flashBytes); err != nil {
				return fmt.Errorf("kernel %s: %w", name, err)
			}
		}
		for name, bytes := range map[string]int{"k_wide": wideShared(wideSteps), "k_several": severalMost, tallKernels[0].name(): tallKernels[0].shared(), tallKernels[1].name(): tallKernels[1].shared()} {
			if err := drv.setShared(b.funcs[name], bytes); b.wgmma && err != nil {
				return fmt.Errorf("kernel %s: %w", name, err)
			}
		}
		return nil
	})
	if err != nil {
		_ = drv.close() // a card that failed fails here too, and the first error says why
		return nil, err
	}
	return b, nil
}

// leastCapability is the compute capability that kernels are compiled for at least.
const leastCapability = 8

func tooOld(d description) error {
	return fmt.Errorf("%w: %s has compute capability %d.%d, expected %d.0 or more", ErrDevice, d.Name, d.Capability[0], d.Capability[1], leastCapability)
}

// do calls the driver from a thread that has the card's context.
func (b *Backend) do(f func() error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.drv.enter(); err != nil {
		return err
	}
	defer b.drv.leave()
	return f()
}

// await calls the driver while others may do so too: waiting holds up nobody.
func (b *Backend) await(f func() error) error {
	if err := b.drv.enter(); err != nil {
		return err
	}
	defer b.drv.leave()
	return f()
}

// buckets are the row counts at which smaller plans end: where products change their
// kernels, and where tiles of another size pay.
var buckets = []int{device.OneRow, severalRows, fewRows, 64, 256, 1024, 4096, 16384}

func (b *Backend) Caps() plan.Caps {
	return plan.Caps{Name: "cuda", Workers: 1, Async: true, Largest: true, Buckets: buckets, Runs: device.RunsFor(b.drv.describe().Memory), StoredAs: device.StoredAs, Merges: b.merges(), OwnScratch: func(string) bool { return true }}
}

// Supports reports whether there is a kernel for a node's op, and for its
// activation: those behind device.LastAct have no case in elementwise.cu.
func (*Backend) Supports(n *graph.Node) bool {
	a, acts := n.Attr.(graph.ActAttr)
	return ops[n.Op.Name] != nil && (!acts || a.Kind <= device.LastAct)
}

func (b *Backend) Patterns() []plan.Pattern { return append(b.gradientPatterns(), patterns...) }

// typeOnCard is the type in which a weight of some format lies on the card.
func typeOnCard(w *graph.Value, f *plan.Format) tensor.DType {
	if f == half {
		return tensor.BF16
	}
	return device.StoredAs(w, nil)
}

// Pack copies a weight to the card.
func (b *Backend) Pack(w plan.Weight, f *plan.Format) (plan.Packed, error) {
	as := typeOnCard(w.Value, f)
	data, err := device.Encode(w, as)
	if err != nil {
		return nil, err
	}
	var p *device.Packed
	err = b.do(func() (err error) {
		p, err = device.Pack(w, as, data, b.pool, copier{b.drv})
		return err
	})
	if err != nil {
		return nil, err
	}
	if w.Drop != nil {
		w.Drop()
	}
	return p, nil
}

// Memory is what the driver gave.
type Memory struct {
	Allocations int   // calls of the driver so far
	Free, Total int64 // of the card
}

// Memory asks the driver.
func (b *Backend) Memory() (m Memory, err error) {
	err = b.do(func() (err error) {
		m.Allocations = b.Allocations()
		m.Free, m.Total, err = b.drv.memory()
		return err
	})
	return m, err
}

// Close gives everything back to the driver.
func (b *Backend) Close() error {
	return b.do(func() error {
		b.pool.Close()
		return b.drv.close()
	})
}
