package profile

const hasCounter = true

// readCounter is the processor's time stamp counter.
func readCounter() uint64

// own brings the cache line of p here, to be written.
//
//go:noescape
func own(p *int64)

// ownAll is own for size bytes from p.
//
//go:noescape
func ownAll(p *int64, size uintptr)
