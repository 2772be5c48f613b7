package cuda

import (
	"fmt"
	"math/bits"
	"sync/atomic"

	"hotpath/internal/backend/device"
)

// address is a place in the card's memory, or in host memory that it can reach.
type address = device.Address

// memory gives blocks of the card in classes of powers of two, each from the driver.
type memory struct {
	drv         driver
	allocations atomic.Int64 // calls of the driver
}

// Size is the size of a block for so many bytes. Above a gigabyte it is a
// multiple of 64 MiB: a power of two would waste half of a card.
func (*memory) Size(bytes int64) int64 {
	const large, unit = 1 << 30, 64 << 20
	if bytes > large {
		return (bytes + unit - 1) / unit * unit
	}
	return 1 << max(8, bits.Len64(uint64(max(bytes, 1)-1)))
}

func (m *memory) Get(bytes int64) (address, error) {
	a, err := m.drv.alloc(bytes)
	if err == nil {
		m.allocations.Add(1)
	}
	return a, err
}

func (m *memory) Return(a address) bool { return m.drv.free(a) == nil }

func (m *memory) Left() string {
	free, total, _ := m.drv.memory()
	return fmt.Sprintf("%d of %d bytes of the card are free", free, total)
}
