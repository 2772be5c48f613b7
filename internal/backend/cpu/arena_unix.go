//go:build unix

package cpu

import (
	"golang.org/x/sys/unix"
)

// mapMemory gives zeroed pages off the Go heap.
func mapMemory(bytes int64) ([]byte, func() error, error) {
	b, err := unix.Mmap(-1, 0, int(bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, nil, err
	}
	return b, func() error { return unix.Munmap(b) }, nil
}
