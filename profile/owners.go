package profile

import (
	"cmp"
	"fmt"
	"maps"
	"runtime/metrics"
	"slices"
	"sync"
	"unsafe"
)

// MemoryOwner is who holds resident memory of the process.
type MemoryOwner struct {
	Owner string `json:"owner"`
	Bytes int64  `json:"bytes"`
}

// Residency is the resident memory of the process by owner, when most of it was seen:
// at the end of a session or at the snapshot. The owners add up to Bytes.
type Residency struct {
	Bytes  int64         `json:"bytes"`
	Owners []MemoryOwner `json:"owners"` // the largest first
}

func (r *Residency) check() error {
	if r == nil {
		return nil
	}
	sum := int64(0)
	for _, o := range r.Owners {
		if sum += o.Bytes; o.Bytes < 0 || sum < 0 {
			return fmt.Errorf("%q has %d bytes, expected none below 0 and a sum that can be added up", o.Owner, o.Bytes)
		}
	}
	if sum != r.Bytes {
		return fmt.Errorf("owners have %d bytes, expected the %d that are resident", sum, r.Bytes)
	}
	return nil
}

// owners lists memory outside of the Go heap, with its owners.
type owners struct {
	mu   sync.Mutex
	held map[uintptr]holding
	most *Residency
}

type holding struct {
	name  string
	bytes int
}

// Own names the owner of memory outside of the Go heap, until Disown.
func (r *Recorder) Own(name string, mem []byte) {
	if r == nil || len(mem) == 0 {
		return
	}
	r.owners.mu.Lock()
	defer r.owners.mu.Unlock()
	if r.owners.held == nil {
		r.owners.held = map[uintptr]holding{}
	}
	r.owners.held[uintptr(unsafe.Pointer(unsafe.SliceData(mem)))] = holding{name, len(mem)}
}

// Disown says that the memory is about to be freed.
func (r *Recorder) Disown(mem []byte) {
	if r == nil || len(mem) == 0 {
		return
	}
	r.owners.mu.Lock()
	defer r.owners.mu.Unlock()
	delete(r.owners.held, uintptr(unsafe.Pointer(unsafe.SliceData(mem))))
}

// LookAtMemory finds the owners of the resident memory, and keeps them where it is
// the most so far.
func (r *Recorder) LookAtMemory() {
	if r == nil {
		return
	}
	r.mu.Lock()
	weights, samples := r.memory[HeapWeights], r.memory[CeilingSamples]
	plans := slices.Clone(r.plans)
	r.mu.Unlock()
	recorder := r.bytes(plans)
	r.owners.mu.Lock()
	defer r.owners.mu.Unlock()
	found, heap, all := mappings()
	if all == 0 {
		return // the system does not say
	}
	for at, h := range r.owners.held {
		n := residentAt(at, h.bytes)
		found[h.name] += n
		found[otherMemory] -= n
	}
	if found[goRuntime] == 0 { // a kernel that does not name the runtime's mappings
		n := min(runtimeBytes(), max(0, found[otherMemory]))
		found[goRuntime], found[otherMemory] = n, found[otherMemory]-n
	}
	samples = min(samples, max(0, found[otherMemory]))
	found[CeilingSamples] += samples
	weights, recorder = min(weights, heap), min(recorder, max(0, heap-weights))
	found["weights, packed"] += weights
	found["recorder"] += recorder
	found["go heap, the rest"] += heap - weights - recorder
	out := &Residency{Bytes: all}
	var sum int64
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if n := found[name]; n > 0 && name != otherMemory {
			out.Owners = append(out.Owners, MemoryOwner{name, n})
			sum += n
		}
	}
	out.Owners = append(out.Owners, MemoryOwner{otherMemory, max(0, all-sum)})
	out.Bytes = sum + max(0, all-sum)
	slices.SortStableFunc(out.Owners, func(a, b MemoryOwner) int { return cmp.Compare(b.Bytes, a.Bytes) })
	if r.owners.most == nil || out.Bytes > r.owners.most.Bytes {
		r.owners.most = out
	}
}

// CeilingSamples is the class of memory that samples of ceilings read.
const CeilingSamples = "ceiling samples"

// HeapWeights is the class of memory of packed weights that lie on the Go heap.
const HeapWeights = "weights on the heap"

// goRuntime is the Go runtime's own memory, beside its heap.
const goRuntime = "go runtime"

// runtimeBytes is how much of it the runtime asked for.
func runtimeBytes() (sum int64) {
	s := []metrics.Sample{
		{Name: "/memory/classes/metadata/mcache/inuse:bytes"}, {Name: "/memory/classes/metadata/mcache/free:bytes"},
		{Name: "/memory/classes/metadata/mspan/inuse:bytes"}, {Name: "/memory/classes/metadata/mspan/free:bytes"},
		{Name: "/memory/classes/metadata/other:bytes"}, {Name: "/memory/classes/profiling/buckets:bytes"}, {Name: "/memory/classes/other:bytes"},
	}
	metrics.Read(s)
	for _, v := range s {
		if v.Value.Kind() == metrics.KindUint64 {
			sum += int64(v.Value.Uint64())
		}
	}
	return sum
}

// otherMemory is what nobody owns: the runtime's own, libraries, stacks.
const otherMemory = "(not known)"

func (r *Recorder) residency() *Residency {
	r.LookAtMemory()
	r.owners.mu.Lock()
	defer r.owners.mu.Unlock()
	return r.owners.most
}
