package cpu

import (
	"unsafe"

	"hotpath/internal/backend/ref"
	"hotpath/internal/plan"
)

// arena is memory off the Go heap, unless asked otherwise: the collector never
// walks it and it comes aligned to pages.
type arena struct {
	mem  []byte
	free func() error
}

func newArena(bytes int64, onHeap bool) (*arena, error) {
	if bytes == 0 {
		return &arena{}, nil
	}
	if onHeap { // all that the race detector sees
		return &arena{mem: ref.NewHostArena(bytes)}, nil
	}
	mem, free, err := mapMemory(bytes)
	if err != nil {
		return nil, err
	}
	return &arena{mem: mem, free: free}, nil
}

func (a *arena) Host() []byte { return a.mem }

// Whole asks for large pages. A training step passes over all of its state, and
// with pages of 4 KB TLB misses are a large part of its time.
func (a *arena) Whole() {
	if a.free != nil && len(a.mem) >= largePage {
		adviseLarge(a.mem)
	}
}

func (a *arena) Read(off int64, dst []byte) error {
	copy(dst, a.mem[off:])
	return nil
}

func (a *arena) Write(off int64, src []byte) error {
	copy(a.mem[off:], src)
	return nil
}

func (a *arena) Free() error {
	free := a.free
	a.mem, a.free = nil, nil
	if free == nil {
		return nil
	}
	return free()
}

var (
	_ plan.Arena      = (*arena)(nil)
	_ plan.WholeArena = (*arena)(nil)
)

// floats views aligned bytes as f32.
func floats(b []byte) []float32 {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b)/4)
}
