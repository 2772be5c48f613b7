package profile

const hasCounter = true

// readCounter is the processor's time stamp counter.
func readCounter() uint64
