package cpu

import (
	"sync"
	"unsafe"
)

// Packed weights are on the Go heap: the garbage collector frees them after the last
// session. A model larger than L2 is read from end to end in every run, and with
// pages of 4 KB much of that time is address translation. So weights are packed into
// slabs of large pages, if the system has any.

const (
	largePage = 2 << 20
	// slabBytes is the maximum size of one heap allocation for several matrices. What
	// no matrix takes of it is not touched, and needs no memory. Matrices of at least
	// half of it have allocations of their own.
	slabBytes = 64 << 20
	lineBytes = 64 // where a tensor begins, at least
)

// resident hands out memory that packed weights stay in.
type resident struct {
	mu   sync.Mutex
	slab []byte // what is left of the last one
	last int    // which of every it is
	all  int    // bytes of all of them
	// every lists all memory that was handed out, and no other, with weak references.
	// Sampling of ceilings reads it, and ReadWeights.
	every []slab
}

// take returns zeroed memory for one tensor. A slab lives as long as any of its
// tensors. A new slab is about as large as all previous slabs together, so that a
// small model uses little memory. Tensors follow each other in it, so that the end of
// one and the beginning of the next share a large page.
func (r *resident) take(bytes int) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if bytes >= slabBytes/2 {
		mem := largePages(bytes)[:bytes:bytes]
		r.every = append(r.every, newSlab(mem, bytes))
		return mem
	}
	if bytes > len(r.slab) {
		r.slab = largePages(max(bytes, largePage, min(slabBytes, r.all)))
		r.all += len(r.slab)
		r.every = append(r.every, newSlab(r.slab, 0))
		r.last = len(r.every) - 1
	}
	mem, next := r.slab[:bytes:bytes], min(len(r.slab), (bytes+lineBytes-1)/lineBytes*lineBytes)
	r.slab = r.slab[next:]
	r.every[r.last].bytes += next
	return mem
}

// close drops what no tensor took of the last slab: otherwise it would keep all of the
// slab alive.
func (r *resident) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slab = nil
}

// largePages returns at least so much memory, in whole large pages. The memory before
// it stays untouched.
func largePages(bytes int) []byte {
	bytes = (bytes + largePage - 1) / largePage * largePage
	mem := make([]byte, bytes+largePage)
	before := -uintptr(unsafe.Pointer(&mem[0])) % largePage
	mem = mem[before:][:bytes]
	adviseLarge(mem)
	renew(mem)
	return mem
}
