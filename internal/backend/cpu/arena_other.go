//go:build !unix

package cpu

import "hotpath/internal/backend/ref"

// mapMemory falls back to the Go heap.
func mapMemory(bytes int64) ([]byte, func() error, error) {
	return ref.NewHostArena(bytes), func() error { return nil }, nil
}
