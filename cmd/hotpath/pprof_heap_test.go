package main

import (
	"testing"

	"hotpath/profile"
)

// The heap profile is that of the last peak: a peak has more memory in use than those
// before it, but less may be resident.
func TestHeapAtPeakKeepsTheLast(t *testing.T) {
	var h heapAtPeak
	first, last := &profile.Residency{Bytes: 100}, &profile.Residency{Bytes: 90}
	h.take(first)
	h.take(last)
	if h.owners != last || h.heap.Len() == 0 {
		t.Errorf("kept %+v with %d bytes of heap profile, expected %+v", h.owners, h.heap.Len(), last)
	}
}
