package opencl

import (
	"errors"
	"unsafe"

	"hotpath/internal/plan"
)

func bytesOf[T float32 | int32 | uint64](v []T) []byte {
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), len(v)*int(unsafe.Sizeof(v[0])))
}

// arena is memory of the device.
type arena struct {
	be *Backend
	at address
}

func (a *arena) Host() []byte { return nil }

func (a *arena) Read(offset int64, dst []byte) error { return a.be.read(dst, a.at+address(offset)) }

func (a *arena) Write(offset int64, src []byte) error { return a.be.write(a.at+address(offset), src) }

func (a *arena) Free() error {
	a.be.pool.give(a.at)
	a.at = 0
	return nil
}

// ioArena is pinned host memory, with a copy on the device that kernels compute
// with.
type ioArena struct {
	arena
	host   []byte
	pinned buffer
}

func (a *ioArena) Host() []byte { return a.host }

func (a *ioArena) Read(offset int64, dst []byte) error {
	copy(dst, a.host[offset:])
	return nil
}

func (a *ioArena) Write(offset int64, src []byte) error {
	copy(a.host[offset:], src)
	return nil
}

func (a *ioArena) Free() error {
	err := a.arena.Free()
	if a.host == nil {
		return err
	}
	host := a.host
	a.host = nil
	return errors.Join(err, a.be.drv.unpin(host, a.pinned))
}

// Arena gives zeroed memory of a class.
func (b *Backend) Arena(c plan.Class, bytes int64) (plan.Arena, error) {
	bytes = max(bytes, plan.Align)
	at, err := b.pool.take(bytes, c.String())
	if err != nil {
		return nil, err
	}
	a := arena{be: b, at: at}
	buf, offset := b.pool.buffer(at)
	if err := b.drv.fill(buf, offset, (bytes+3)/4*4); err != nil {
		return nil, errors.Join(err, a.Free())
	}
	if c != plan.IO {
		return &a, nil
	}
	host, pinned, err := b.drv.pinned(bytes)
	if err != nil {
		return nil, errors.Join(err, a.Free())
	}
	clear(host)
	return &ioArena{a, host, pinned}, nil
}
