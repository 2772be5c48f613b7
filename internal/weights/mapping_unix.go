//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package weights

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openMapping maps the file read-only. Another program that shortens the file
// meanwhile kills this one: replace a model by renaming, never in place.
func openMapping(path string) (*mapping, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // the map outlives the descriptor
	data, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("%s: mmap of %d bytes: %w", path, size, err)
	}
	return &mapping{data: data}, nil
}

// drop releases the whole pages within [begin, end). The advice is a hint: a
// system that refuses it loses nothing but memory.
func (m *mapping) drop(begin, end int) {
	if m.inside {
		return
	}
	page := os.Getpagesize()
	begin = (begin + page - 1) / page * page
	if end != len(m.data) { // the last page of the file holds nothing else
		end = end / page * page
	}
	if begin < end {
		_ = unix.Madvise(m.data[begin:end], unix.MADV_DONTNEED)
	}
}

func (m *mapping) close() error {
	if m.data == nil {
		return nil
	}
	data := m.data
	m.data = nil
	if m.inside {
		return nil
	}
	return unix.Munmap(data)
}
