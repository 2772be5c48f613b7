package cpu

import (
	"sync"
	"unsafe"
)

// Packed weights are on the Go heap: they go with the last session that has
// them, which nobody has to tell. A model that is larger than L2 is read from
// one end to the other with every run, and in pages of 4 KB a good part of that
// is looking pages up. So weights lie behind each other in slabs of large pages,
// where the system has some.

const (
	largePage = 2 << 20
	// slabBytes is what is taken from the heap at a time, at most; matrices of
	// half of it and more are on their own.
	slabBytes = 8 << 20
	lineBytes = 64 // where a tensor begins, at least
)

// resident hands out memory that packed weights stay in.
type resident struct {
	mu   sync.Mutex
	slab []byte // what is left of the last one
	all  int    // bytes of all of them
	// every is what was handed out, without keeping it alive: ceilings are sampled
	// by reading it.
	every []slab
}

// take is zeroed memory for one tensor. A slab lives as long as any of its
// tensors; it is about as large as those before it together, so that a small
// model takes little.
func (r *resident) take(bytes int) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if bytes >= slabBytes/2 {
		mem := largePages(bytes)[:bytes:bytes]
		r.every = append(r.every, newSlab(mem))
		return mem
	}
	if bytes > len(r.slab) {
		size := min(slabBytes, max(bytes, r.all, largePage))
		r.slab = largePages((size + largePage - 1) / largePage * largePage)
		r.all += len(r.slab)
		r.every = append(r.every, newSlab(r.slab))
	}
	mem := r.slab[:bytes:bytes]
	r.slab = r.slab[min(len(r.slab), (bytes+lineBytes-1)/lineBytes*lineBytes):]
	return mem
}

// largePages is memory that begins with a large page, all of it in large pages
// but for what is behind the last whole one. Nobody touches what lies before.
func largePages(bytes int) []byte {
	mem := make([]byte, bytes+largePage)
	before := -uintptr(unsafe.Pointer(&mem[0])) % largePage
	mem = mem[before:][:bytes]
	if whole := bytes / largePage * largePage; whole > 0 {
		adviseLarge(mem[:whole])
	}
	return mem
}
