// Package device has what backends of graphics cards share: the pool of a device's
// memory, arenas and packed weights, where the values of a plan lie while its steps
// become launches, the steps of products, and the lanes of profiles.
//
// Packages cuda and opencl build on it; it knows neither of their libraries. Errors
// come from the sources and copiers that they give it, and pass through unchanged
// but for what was asked for.
package device

import (
	"fmt"
	"strings"
	"sync"

	"hotpath/internal/plan"
)

// Address is a place in a device's memory. 0 is no place.
type Address uint64

// Source is where a pool gets its blocks.
type Source interface {
	// Size is the size of a block for so many bytes.
	Size(bytes int64) int64
	// Get gives a block.
	Get(bytes int64) (Address, error)
	// Return takes a block back; false: the source keeps the memory until it is
	// closed, so the pool must go on using the block.
	Return(a Address) bool
	// Left says how much memory there is, for errors.
	Left() string
}

// Pool gives memory of a device and keeps what comes back by size, so that the
// device is asked for the first blocks only.
type Pool struct {
	src   Source
	mu    sync.Mutex
	spare map[int64][]Address // by size
	sizes map[Address]int64   // of every block
	class map[Address]string  // of every block that is in use
}

// NewPool makes an empty pool.
func NewPool(src Source) *Pool {
	return &Pool{src: src, spare: map[int64][]Address{}, sizes: map[Address]int64{}, class: map[Address]string{}}
}

// Take gives at least so many bytes, for what is named in an error.
func (p *Pool) Take(bytes int64, what string) (a Address, err error) {
	size := p.src.Size(bytes)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() {
		if err == nil {
			p.class[a] = classOf(what)
		}
	}()
	if s := p.spare[size]; len(s) > 0 {
		p.spare[size] = s[:len(s)-1]
		return s[len(s)-1], nil
	}
	a, err = p.src.Get(size)
	if err != nil {
		p.shrink()
		if a, err = p.src.Get(size); err != nil {
			return 0, fmt.Errorf("%d bytes for %s, %s: %w", size, what, p.src.Left(), err)
		}
	}
	p.sizes[a] = size
	return a, nil
}

// Give takes a block back.
func (p *Pool) Give(a Address) {
	if a == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spare[p.sizes[a]] = append(p.spare[p.sizes[a]], a)
	delete(p.class, a)
}

// Blocks are blocks of a pool that somebody keeps together.
type Blocks struct {
	Pool *Pool
	list []Address
}

// Take is Pool.Take.
func (b *Blocks) Take(bytes int64, what string) (Address, error) {
	a, err := b.Pool.Take(bytes, what)
	if err == nil {
		b.list = append(b.list, a)
	}
	return a, err
}

// Give gives all blocks back.
func (b *Blocks) Give() {
	for _, a := range b.list {
		b.Pool.Give(a)
	}
	b.list = nil
}

// classOf is the class of memory that is taken for something: that of an arena, weights,
// or small tables of plans.
func classOf(what string) string {
	if strings.HasPrefix(what, weightOf) {
		return plan.Weights.String()
	}
	for c := range plan.Class(plan.NumClasses) {
		if what == c.String() {
			return what
		}
	}
	return "plans"
}

// Used is how many bytes of the pool are in use, by class.
func (p *Pool) Used() map[string]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	used := map[string]int64{}
	for a, class := range p.class {
		used[class] += p.sizes[a]
	}
	return used
}

// Held is how many bytes the pool has from its source.
func (p *Pool) Held() (bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, size := range p.sizes {
		bytes += size
	}
	return bytes
}

// shrink returns spare blocks to the source.
func (p *Pool) shrink() {
	for size, blocks := range p.spare {
		kept := blocks[:0]
		for _, a := range blocks {
			if p.src.Return(a) {
				delete(p.sizes, a)
			} else {
				kept = append(kept, a)
			}
		}
		if p.spare[size] = kept; len(kept) == 0 {
			delete(p.spare, size)
		}
	}
}

// Close returns every block to the source, also those that nobody gave back.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for a := range p.sizes {
		p.src.Return(a)
	}
	clear(p.spare)
	clear(p.sizes)
	clear(p.class)
}
