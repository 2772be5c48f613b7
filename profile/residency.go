package profile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// MemoryOwner is who holds memory of the process. Bytes are those that were resident.
// How many of its pages an owner touches depends on the machine: how many workers took
// part, and which parallel mode auto chose. What an owner allocated does not.
type MemoryOwner struct {
	Owner string `json:"owner"`
	Bytes int64  `json:"bytes"`
	// Held is what the owner allocated, touched or not. It is 0 if that is not known:
	// of mapped files, of estimates, and in recordings of earlier builds.
	Held int64 `json:"held_bytes,omitempty"`
}

// Residency is the resident memory of the process by owner, when most of it was in use:
// at the end of a session or at the snapshot. The owners add up to Bytes.
type Residency struct {
	Bytes  int64         `json:"bytes"`
	Owners []MemoryOwner `json:"owners"` // the largest first
}

// KnowsHeld reports whether the recording says what owners hold. Those of earlier builds
// only say what was resident.
func (r *Residency) KnowsHeld() bool {
	return slices.ContainsFunc(r.Owners, func(o MemoryOwner) bool { return o.Held > 0 })
}

// OwnerKind says how the bytes of an owner are known, and so how far they differ from
// recording to recording of one build.
type OwnerKind int

// The kinds of owners.
const (
	OwnedPages    OwnerKind = iota // memory of a known size that is used whole
	TouchedPages                   // memory of which a run touches more or less
	SampledHeap                    // objects on the Go heap, estimated from samples
	CollectorHeap                  // depends on when the Go heap was collected last
	LoadedCode                     // the program and libraries
)

// Kind is the kind of the owner.
func (o MemoryOwner) Kind() OwnerKind {
	switch {
	case o.Owner == garbageHeap || o.Owner == freeHeap || o.Owner == goRuntime:
		return CollectorHeap
	case o.Owner == goHeap || o.Owner == otherMemory || o.Owner == recorderMemory:
		return SampledHeap
	case slices.ContainsFunc(heapOwners, func(h heapRow) bool { return h.owner == o.Owner }):
		return SampledHeap
	case strings.HasSuffix(o.Owner, "worker scratch") || o.Owner == CeilingSamples:
		return TouchedPages
	case o.Owner == programMemory || strings.HasPrefix(o.Owner, mappedFile) && strings.Contains(o.Owner, ".so"):
		return LoadedCode
	}
	return OwnedPages
}

// inUse is the part that somebody is known to use: not what the program and the recording
// take by themselves, nor the rest of the Go heap, which has the error of estimates. All
// these may grow while owners let go of theirs: after a session's end more can be resident
// than before.
func (r *Residency) inUse() int64 {
	n := r.Bytes
	for _, o := range r.Owners {
		switch o.Owner {
		case otherMemory, goRuntime, freeHeap, garbageHeap, goHeap, recorderMemory, CeilingSamples, programMemory:
			n -= o.Bytes
		}
	}
	return n
}

func (r *Residency) check() error {
	if r == nil {
		return nil
	}
	if len(r.Owners) == 0 {
		return errors.New("owners has no entries, expected who holds the memory")
	}
	sum, held := int64(0), int64(0)
	for _, o := range r.Owners {
		if sum += o.Bytes; sum > most {
			return fmt.Errorf("%q has %d bytes, expected a sum of at most %d", o.Owner, o.Bytes, int64(most))
		}
		if held += o.Held; held > most {
			return fmt.Errorf("%q has held_bytes %d, expected a sum of at most %d", o.Owner, o.Held, int64(most))
		}
		if o.Held > 0 && o.Held < o.Bytes {
			return fmt.Errorf("%q has held_bytes %d, expected at least %d, the bytes that are resident, or none", o.Owner, o.Held, o.Bytes)
		}
	}
	if sum != r.Bytes {
		return fmt.Errorf("owners have %d bytes, expected the %d that are resident", sum, r.Bytes)
	}
	return nil
}
