package main

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"runtime/pprof"
	"sync"

	"hotpath/profile"
	"hotpath/profile/export"
)

// heapAtPeak keeps Go's heap profile of the moment at which most memory was in use, with
// the owners of that memory. At the end of a command the model is closed, and its
// memory is gone.
type heapAtPeak struct {
	mu     sync.Mutex
	owners *profile.Residency
	heap   bytes.Buffer // Go's profile
}

// take is called at each peak, of which the recorder keeps the last one too.
func (h *heapAtPeak) take(owners *profile.Residency) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.owners = owners
	h.takeHeap()
}

func (h *heapAtPeak) takeHeap() {
	h.heap.Reset()
	runtime.GC()                        // the heap profile is as of the last collection
	_ = pprof.WriteHeapProfile(&h.heap) // a buffer takes every write
}

// write writes the profile. A system that does not tell what is resident has Go's
// profile of now.
func (h *heapAtPeak) write(w io.Writer) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.owners == nil {
		h.takeHeap()
	}
	if err := export.HeapWithOwners(w, h.heap.Bytes(), h.owners); err != nil {
		return fmt.Errorf("--pprof: %s: %w", heapProfile, err)
	}
	return nil
}
