package profile

const hasCounter = true

// Now returns nanoseconds on the monotonic clock since the process started. It is
// never 0: a slot with 0 was not stamped.
//
// A system call takes about 50 ns, too much for stamps of every step. If the
// system itself trusts the processor's time-stamp counter, a recorder calibrates
// that counter once. Now then reads it directly, in about a fifth of the time. It is
// assembly so that its code lies beside that of own, which a run keeps in the caches. Other
// packages reach it through a wrapper that the compiler adds.
func Now() int64

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
