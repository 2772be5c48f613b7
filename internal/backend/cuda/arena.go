package cuda

import (
	"errors"
	"unsafe"

	"hotpath/internal/backend/device"
	"hotpath/internal/plan"
)

// copier copies between enter and leave.
type copier struct{ drv driver }

func (c copier) Read(dst []byte, from address) error { return c.drv.read(dst, from) }

func (c copier) Write(to address, src []byte) error { return c.drv.write(to, src) }

// Read copies from the card.
func (b *Backend) Read(dst []byte, from address) error {
	return b.do(func() error { return b.drv.read(dst, from) })
}

// Write copies to the card.
func (b *Backend) Write(to address, src []byte) error {
	return b.do(func() error { return b.drv.write(to, src) })
}

// ioArena also knows what the card has of the inputs.
type ioArena struct {
	*device.IOArena
	changes map[int64]*changes // of inputs, by their offset
}

// hostAt is where the card sees a byte of host memory that it reaches.
func hostAt(host []byte, offset int64) address {
	return address(uintptr(unsafe.Pointer(&host[0]))) + address(offset)
}

// Arena gives zeroed memory of a class.
func (b *Backend) Arena(c plan.Class, bytes int64) (plan.Arena, error) {
	bytes = max(bytes, plan.Align)
	var at address
	var host []byte
	err := b.do(func() (err error) {
		if at, err = b.pool.Take(bytes, c.String()); err != nil {
			return err
		}
		if err = b.drv.fill(at, 0, bytes); err == nil && c == plan.IO {
			host, err = b.drv.hostAlloc(bytes)
		}
		return err
	})
	if err != nil {
		b.pool.Give(at)
		return nil, err
	}
	a := device.NewArena(at, b.pool, b)
	if c == plan.IO {
		io := &ioArena{changes: map[int64]*changes{}}
		io.IOArena = device.NewIOArena(a, host, func() error {
			return b.do(func() error { return errors.Join(b.drv.hostFree(host), io.freeLists(b.drv)) })
		})
		return io, nil
	}
	return a, nil
}
