package cuda

import (
	"fmt"
	"math/bits"
	"sync"
)

// pool gives memory of the card in classes of powers of two and keeps what comes
// back, so that the driver is asked for the first blocks only.
type pool struct {
	drv   driver
	mu    sync.Mutex
	spare map[int64][]address // by size
	sizes map[address]int64
	// Calls of the driver, and bytes that it gave.
	allocations int
	bytes       int64
}

func newPool(drv driver) *pool {
	return &pool{drv: drv, spare: map[int64][]address{}, sizes: map[address]int64{}}
}

// class is the size of a block for so many bytes. Above a gigabyte it is a
// multiple of 64 MiB: a power of two would waste half of a card.
func class(bytes int64) int64 {
	const large, unit = 1 << 30, 64 << 20
	if bytes > large {
		return (bytes + unit - 1) / unit * unit
	}
	return 1 << max(8, bits.Len64(uint64(max(bytes, 1)-1)))
}

// take gives at least so many bytes, for what is named in an error.
func (p *pool) take(bytes int64, what string) (address, error) {
	size := class(bytes)
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.spare[size]; len(s) > 0 {
		p.spare[size] = s[:len(s)-1]
		return s[len(s)-1], nil
	}
	a, err := p.drv.alloc(size)
	if err != nil {
		p.shrink()
		if a, err = p.drv.alloc(size); err != nil {
			free, total, _ := p.drv.memory()
			return 0, fmt.Errorf("%d bytes for %s, %d of %d bytes of the card are free: %w", size, what, free, total, err)
		}
	}
	p.sizes[a] = size
	p.allocations++
	p.bytes += size
	return a, nil
}

// give takes a block back.
func (p *pool) give(a address) {
	if a == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spare[p.sizes[a]] = append(p.spare[p.sizes[a]], a)
}

// shrink hands spare blocks back to the driver.
func (p *pool) shrink() {
	for size, blocks := range p.spare {
		for _, a := range blocks {
			if p.drv.free(a) == nil {
				delete(p.sizes, a)
				p.bytes -= size
			}
		}
		delete(p.spare, size)
	}
}
