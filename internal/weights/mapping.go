package weights

import (
	"fmt"
	"math"
	"os"
)

// mapping is a whole file in memory.
type mapping struct {
	data []byte
	path string // that mapFile was given
	// inside: data are part of the program, and stay
	inside bool
}

// openRegular opens a file that can be mapped, a regular one with something in
// it, and says how long it is. It looks before it opens: opening a pipe would
// wait for somebody to write.
func openRegular(path string) (*os.File, int, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s: %w: expected a regular file", path, ErrNotModel)
	}
	if info.Size() == 0 {
		return nil, 0, fmt.Errorf("%s: the file is empty: %w", path, ErrTruncated)
	}
	if info.Size() > math.MaxInt {
		return nil, 0, fmt.Errorf("%s: %d bytes do not fit into this machine's address space: %w", path, info.Size(), ErrUnsupported)
	}
	f, err := os.Open(path)
	return f, int(info.Size()), err
}

// MapFile maps a file read-only, for files that are read like a model's weights
// but are none. data must not be used after unmap.
func MapFile(path string) (data []byte, unmap func() error, err error) {
	m, err := openMapping(path)
	if err != nil {
		return nil, nil, err
	}
	return m.data, m.close, nil
}
