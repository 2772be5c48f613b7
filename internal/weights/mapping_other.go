//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package weights

import (
	"fmt"
	"io"
)

// openMapping reads the file: there is no memory map here.
func openMapping(path string) (*mapping, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, size)
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, fmt.Errorf("%s: %w: %v", path, ErrTruncated, err)
	}
	return &mapping{data: data}, nil
}

func (m *mapping) drop(begin, end int) {}

func (m *mapping) close() error {
	m.data = nil
	return nil
}
