package cuda

import (
	"errors"
	"unsafe"

	"hotpath/internal/plan"
)

// arena is memory of the card.
type arena struct {
	be    *Backend
	at    address
	bytes int64
}

func (a *arena) Host() []byte { return nil }

func (a *arena) Read(offset int64, dst []byte) error {
	return a.be.do(func() error { return a.be.drv.read(dst, a.at+address(offset)) })
}

func (a *arena) Write(offset int64, src []byte) error {
	return a.be.do(func() error { return a.be.drv.write(a.at+address(offset), src) })
}

func (a *arena) Free() error {
	a.be.pool.give(a.at)
	a.at = 0
	return nil
}

// ioArena is host memory that the card reaches, with a copy on the card that
// kernels compute with.
type ioArena struct {
	arena
	host    []byte
	changes map[int64]*changes // of inputs, by their offset
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
	lists := [][]byte{a.host}
	for _, c := range a.changes {
		lists = append(lists, c.list)
	}
	a.host, a.changes = nil, nil
	return errors.Join(err, a.be.do(func() error {
		var errs []error
		for _, b := range lists {
			errs = append(errs, a.be.drv.hostFree(b))
		}
		return errors.Join(errs...)
	}))
}

// hostAt is where the card sees a byte of the host memory.
func (a *ioArena) hostAt(offset int64) address {
	return address(uintptr(unsafe.Pointer(&a.host[0]))) + address(offset)
}

// Arena gives zeroed memory of a class.
func (b *Backend) Arena(c plan.Class, bytes int64) (plan.Arena, error) {
	bytes = max(bytes, plan.Align)
	a := arena{be: b, bytes: bytes}
	var host []byte
	err := b.do(func() (err error) {
		if a.at, err = b.pool.take(bytes, c.String()); err != nil {
			return err
		}
		if err = b.drv.fill(a.at, 0, bytes); err == nil && c == plan.IO {
			host, err = b.drv.hostAlloc(bytes)
		}
		return err
	})
	if err != nil {
		b.pool.give(a.at)
		return nil, err
	}
	if c == plan.IO {
		clear(host)
		return &ioArena{arena: a, host: host}, nil
	}
	return &a, nil
}
