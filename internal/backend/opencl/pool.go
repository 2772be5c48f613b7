package opencl

import (
	"fmt"
	"math/bits"
	"slices"
	"sync"

	"hotpath/internal/backend/device"
)

// address is a place in the device's memory: the number of a slab, counted from 1,
// above slabShift, and an offset. 0 is no place.
type address = device.Address

const slabShift = 48

func slabOf(a address) int     { return int(a>>slabShift) - 1 }
func offsetOf(a address) int64 { return int64(a & (1<<slabShift - 1)) }

// slabs gives memory from a few large buffers, each at least as large as all before
// it together.
type slabs struct {
	drv    driver
	pinned bool // memory of the host, from which copies need no staging
	mu     sync.Mutex
	list   []slab
	used   int64 // bytes of all slabs
}

type slab struct {
	buffer buffer
	host   []byte // where the slab is pinned
	bytes  int64
	used   int64 // from the beginning
}

// Size rounds a size up, by an eighth at most.
func (*slabs) Size(bytes int64) int64 {
	bytes = max(bytes, 256)
	step := max(int64(1)<<max(bits.Len64(uint64(bytes-1))-4, 0), 256)
	return (bytes + step - 1) / step * step
}

// The first slab is a part of the memory, slabShare, between leastSlab and mostSlab: one
// is enough for most models, and launches with one buffer are the fastest. Of the
// host's memory it has leastPinned.
const (
	leastSlab   = 16 << 20
	mostSlab    = 1 << 30
	slabShare   = 64
	leastPinned = 1 << 20
)

// Get cuts a block off a slab.
func (p *slabs) Get(size int64) (address, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.list, func(s slab) bool { return s.bytes-s.used >= size })
	if i < 0 {
		var err error
		if i, err = p.grow(size); err != nil {
			return 0, err
		}
	}
	s := &p.list[i]
	a := address(i+1)<<slabShift | address(s.used)
	s.used += size
	return a, nil
}

// grow makes a slab for a block of so many bytes: a large one, or one of the
// block's size where that is all there is.
func (p *slabs) grow(size int64) (int, error) {
	largest := p.drv.describe().Largest
	if size > largest {
		return 0, fmt.Errorf("%w: the device takes at most %d bytes at a time", ErrDevice, largest)
	}
	least := min(max(leastSlab, p.drv.describe().Memory/slabShare), mostSlab)
	if p.pinned {
		least = leastPinned
	}
	s, err := p.create(min(max(size, least, p.used), largest))
	if err != nil && s.bytes > size {
		s, err = p.create(size)
	}
	if err != nil {
		return 0, err
	}
	p.used += s.bytes
	p.list = append(p.list, s)
	return len(p.list) - 1, nil
}

// create makes a slab of so many bytes.
func (p *slabs) create(bytes int64) (s slab, err error) {
	if s.bytes = bytes; p.pinned {
		s.host, s.buffer, err = p.drv.pinned(bytes)
	} else {
		s.buffer, err = p.drv.create(bytes)
	}
	return s, err
}

// Return keeps the block: a slab is given back as a whole.
func (*slabs) Return(address) bool { return false }

func (p *slabs) Left() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("%d of %d bytes of the device are in use", p.used, p.drv.describe().Memory)
}

// at is where a block lies.
func (p *slabs) at(a address) (buffer, int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.list[slabOf(a)].buffer, offsetOf(a)
}

// buffer is the buffer of a slab.
func (p *slabs) buffer(number int) buffer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.list[number].buffer
}

// host is a block of a pinned slab.
func (p *slabs) host(a address, bytes int64) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := offsetOf(a)
	return p.list[slabOf(a)].host[at : at+bytes : at+bytes]
}

// made is how many buffers were made.
func (p *slabs) made() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.list)
}

// close gives everything back to the runtime.
func (p *slabs) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var first error
	for _, s := range p.list {
		if p.pinned {
			first = firstOf(first, p.drv.unpin(s.host, s.buffer))
		} else {
			first = firstOf(first, p.drv.release(s.buffer))
		}
	}
	p.list, p.used = nil, 0
	return first
}
