package opencl

import (
	"hotpath/internal/backend/device"
	"hotpath/internal/plan"
)

// Allocations is how many buffers were made so far, of the device and of the host.
func (b *Backend) Allocations() int { return b.slabs.made() + b.pins.made() }

// MemoryCounts is what the pool of the device's memory has.
func (b *Backend) MemoryCounts() plan.MemoryCounts {
	return device.Counts(b.Allocations(), b.slabs.bytes(), b.pool)
}

// bytes is the size of all slabs.
func (p *slabs) bytes() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}
