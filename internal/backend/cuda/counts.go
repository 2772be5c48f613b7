package cuda

import (
	"hotpath/internal/backend/device"
	"hotpath/internal/plan"
)

// Allocations is how often the driver was asked for memory of the card.
func (b *Backend) Allocations() int { return int(b.memory.allocations.Load()) }

// MemoryCounts is what the pool of the card's memory has.
func (b *Backend) MemoryCounts() plan.MemoryCounts {
	return device.Counts(b.Allocations(), b.pool.Held(), b.pool)
}
