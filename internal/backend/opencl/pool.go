package opencl

import (
	"fmt"
	"math/bits"
	"slices"
	"sync"
)

// address is a place in the device's memory: the number of a slab, counted from 1,
// above slabShift, and an offset. 0 is no place.
type address uint64

const slabShift = 48

func (a address) slab() int     { return int(a>>slabShift) - 1 }
func (a address) offset() int64 { return int64(a & (1<<slabShift - 1)) }

// pool gives memory from a few large buffers, the slabs, each at least as large as
// all before it together. What comes back is kept by size.
type pool struct {
	drv   driver
	mu    sync.Mutex
	slabs []slab
	spare map[int64][]address
	sizes map[address]int64
	bytes int64 // of all slabs
	made  int   // calls that made one
}

type slab struct {
	buffer buffer
	bytes  int64
	used   int64 // from the beginning
}

func newPool(drv driver) *pool {
	return &pool{drv: drv, spare: map[int64][]address{}, sizes: map[address]int64{}}
}

// class rounds a size up, by an eighth at most.
func class(bytes int64) int64 {
	bytes = max(bytes, 256)
	step := max(int64(1)<<max(bits.Len64(uint64(bytes-1))-4, 0), 256)
	return (bytes + step - 1) / step * step
}

// leastSlab is the size of the first slab.
const leastSlab = 16 << 20

// take gives at least so many bytes, for what is named in an error.
func (p *pool) take(bytes int64, what string) (address, error) {
	size := class(bytes)
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.spare[size]; len(s) > 0 {
		a := s[len(s)-1]
		p.spare[size] = s[:len(s)-1]
		return a, nil
	}
	i := slices.IndexFunc(p.slabs, func(s slab) bool { return s.bytes-s.used >= size })
	if i < 0 {
		var err error
		if i, err = p.grow(size); err != nil {
			return 0, fmt.Errorf("%d bytes for %s, %d of %d bytes of the device are in use: %w", size, what, p.bytes, p.drv.describe().Memory, err)
		}
	}
	s := &p.slabs[i]
	a := address(i+1)<<slabShift | address(s.used)
	s.used += size
	p.sizes[a] = size
	return a, nil
}

// grow makes a slab for a block of so many bytes: a large one, or one of the
// block's size where that is all there is.
func (p *pool) grow(size int64) (int, error) {
	largest := p.drv.describe().Largest
	if size > largest {
		return 0, fmt.Errorf("%w: the device takes at most %d bytes at a time", ErrDevice, largest)
	}
	bytes := min(max(size, leastSlab, p.bytes), largest)
	b, err := p.drv.create(bytes)
	if err != nil && bytes > size {
		bytes = size
		b, err = p.drv.create(bytes)
	}
	if err != nil {
		return 0, err
	}
	p.bytes += bytes
	p.made++
	p.slabs = append(p.slabs, slab{buffer: b, bytes: bytes})
	return len(p.slabs) - 1, nil
}

// give takes a block back.
func (p *pool) give(a address) {
	if a == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	size := p.sizes[a]
	p.spare[size] = append(p.spare[size], a)
}

// buffer is where a block lies.
func (p *pool) buffer(a address) (buffer, int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.slabs[a.slab()].buffer, a.offset()
}

// close gives everything back to the runtime.
func (p *pool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var first error
	for i := range p.slabs {
		if err := p.drv.release(p.slabs[i].buffer); err != nil && first == nil {
			first = err
		}
	}
	p.slabs, p.spare, p.sizes, p.bytes = nil, map[int64][]address{}, map[address]int64{}, 0
	return first
}
