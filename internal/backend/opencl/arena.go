package opencl

import (
	"hotpath/internal/backend/device"
	"hotpath/internal/plan"
)

// Arena gives zeroed memory of a class. IO arenas have pinned host memory.
func (b *Backend) Arena(c plan.Class, bytes int64) (plan.Arena, error) {
	bytes = max(bytes, plan.Align)
	at, err := b.pool.Take(bytes, c.String())
	if err != nil {
		return nil, err
	}
	a := device.NewArena(at, b.pool, b)
	if err := b.fill(at, bytes); err != nil {
		return nil, firstOf(err, a.Free())
	}
	if c != plan.IO {
		return a, nil
	}
	host, pinned, err := b.pinned(bytes, c.String())
	if err != nil {
		return nil, firstOf(err, a.Free())
	}
	return device.NewIOArena(a, host, func() error {
		b.hosts.Give(pinned)
		return nil
	}), nil
}

// fill writes zeros and waits for it. Bytes are rounded up to words: blocks have room.
func (b *Backend) fill(at address, bytes int64) error {
	buf, offset := b.slabs.at(at)
	return b.drv.fill(buf, offset, (bytes+3)/4*4)
}

// Write copies to the device and waits for it.
func (b *Backend) Write(to address, src []byte) error {
	if len(src) == 0 {
		return nil
	}
	at, offset := b.slabs.at(to)
	e, err := b.drv.write(at, offset, src, order{notice: ended})
	return b.finish(e, err)
}

// Read copies from the device and waits for it.
func (b *Backend) Read(dst []byte, from address) error {
	if len(dst) == 0 {
		return nil
	}
	at, offset := b.slabs.at(from)
	e, err := b.drv.read(dst, at, offset, order{notice: ended})
	return b.finish(e, err)
}

// finish waits for a command that was enqueued without an error.
func (b *Backend) finish(e event, err error) error {
	if err != nil {
		return err
	}
	return firstOf(b.drv.wait(e), b.drv.forget(e))
}
