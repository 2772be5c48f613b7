package profile

import (
	"cmp"
	"maps"
	"runtime/metrics"
	"slices"
	"sort"
	"sync"
	"unsafe"
)

// owners lists memory with its owners.
type owners struct {
	peaks sync.Mutex // held over a look and the call of AtPeak, before mu
	mu    sync.Mutex
	held  map[uintptr]*holding // by address
	// counted is memory on the Go heap that is known by its size only, by who holds it.
	counted map[any]holding
	most    *Residency
}

type holding struct {
	name    string
	bytes   int64
	holders int
}

// Own names the owner of memory until Disown. Several holders of the same memory,
// such as sessions that share a KV cache, each call both; it counts once, and so does
// memory inside of other memory, which belongs to the owner of the whole.
func (r *Recorder) Own(name string, mem []byte) {
	if r.none() || len(mem) == 0 {
		return
	}
	r.owners.mu.Lock()
	defer r.owners.mu.Unlock()
	at := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	if h := r.owners.held[at]; h != nil {
		h.holders++
		return
	}
	if r.owners.held == nil {
		r.owners.held = map[uintptr]*holding{}
	}
	r.owners.held[at] = &holding{name, int64(len(mem)), 1}
}

// Disown says that a holder of the memory is about to let go of it.
func (r *Recorder) Disown(mem []byte) {
	if r.none() || len(mem) == 0 {
		return
	}
	r.owners.mu.Lock()
	defer r.owners.mu.Unlock()
	at := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	if h := r.owners.held[at]; h != nil {
		if h.holders--; h.holders == 0 {
			delete(r.owners.held, at)
		}
	}
}

// OwnHeap says how many bytes of the Go heap a holder has under a name: all of them,
// and 0 when it lets go of them.
func (r *Recorder) OwnHeap(holder any, name string, bytes int64) {
	if r.none() {
		return
	}
	r.owners.mu.Lock()
	defer r.owners.mu.Unlock()
	if bytes <= 0 {
		delete(r.owners.counted, holder)
		return
	}
	if r.owners.counted == nil {
		r.owners.counted = map[any]holding{}
	}
	r.owners.counted[holder] = holding{name: name, bytes: bytes}
}

// region is a mapping of the process.
type region struct {
	from, to uintptr
	name     string // of its owner
	bytes    int64  // resident
}

// LookAtMemory finds the owners of the resident memory, and keeps them if more is in
// use than ever before.
func (r *Recorder) LookAtMemory() {
	if r.none() {
		return
	}
	r.mu.Lock()
	samples := r.memory[CeilingSamples]
	plans := slices.Clone(r.plans)
	r.mu.Unlock()
	r.owners.peaks.Lock()
	defer r.owners.peaks.Unlock()
	if out := r.owners.look(plans, samples, &r.gc); out != nil && r.opts.AtPeak != nil {
		r.opts.AtPeak(out)
	}
}

// look keeps and returns what it finds. It is nil if more was in use before, or if the
// system does not tell what is resident, in all or of an owner: what owners have would appear as the rest of the Go
// heap and as not known. gc forgets the collections that looking takes.
func (o *owners) look(plans []*planFold, samples int64, gc *collections) *Residency {
	o.mu.Lock()
	defer o.mu.Unlock()
	began, _, _ := readGo() // one look at a time: two must not forget the same collections
	defer func() { gc.forget(began) }()
	pages := openPageTable()
	if pages == nil {
		return nil
	}
	defer pages.close()
	regions := mappings()
	if len(regions) == 0 {
		return nil
	}
	free := metricBytes("/memory/classes/heap/free:bytes", "/memory/classes/heap/unused:bytes")
	found, held := map[string]int64{}, map[string]int64{} // resident and allocated, by owner
	var all int64
	for _, m := range regions {
		found[m.name] += m.bytes
		all += m.bytes
	}
	// take gives bytes of one owner to another one, as far as there are any.
	take := func(from, to string, bytes int64) {
		n := min(bytes, found[from])
		found[from] -= n
		found[to] += n
	}
	var counted uintptr         // the end of what has an owner: a view of it counts once
	mapped := map[string]bool{} // owners of pages of files, which nobody allocated: what they hold is not said
	for _, begin := range slices.Sorted(maps.Keys(o.held)) {
		h := o.held[begin]
		at, end := max(begin, counted), begin+uintptr(h.bytes)
		if at >= end {
			continue
		}
		counted = end
		i := sort.Search(len(regions), func(i int) bool { return regions[i].to > at })
		if i < len(regions) && regions[i].from <= at {
			from := regions[i].name
			take(from, h.name, pages.resident(at, int64(end-at)))
			if held[h.name] += int64(end - at); from != goHeap && from != otherMemory {
				mapped[h.name] = true
			}
		}
	}
	if found[goRuntime] == 0 { // a kernel that does not name the runtime's mappings
		take(otherMemory, goRuntime, runtimeBytes())
	}
	take(otherMemory, CeilingSamples, samples)
	for _, h := range o.counted {
		take(goHeap, h.name, h.bytes)
		held[h.name] += h.bytes
	}
	for _, f := range plans {
		f.eachSlot(func(mem []int64) {
			take(goHeap, recorderMemory, pages.resident(uintptr(unsafe.Pointer(unsafe.SliceData(mem))), int64(len(mem))*8))
		})
	}
	live, garbage := liveHeap()
	var sum int64
	for _, bytes := range live {
		sum += bytes
	}
	free, garbage = touchedOf(found[goHeap]-sum, free, garbage)
	take(goHeap, freeHeap, free)
	take(goHeap, garbageHeap, garbage)
	left := found[goHeap]
	for name, bytes := range live { // samples know shares better than bytes
		take(goHeap, name, int64(float64(left)*float64(bytes)/float64(max(1, sum))))
	}
	out := &Residency{Bytes: all}
	for name, n := range found {
		allocated := held[name]
		if mapped[name] || allocated < n { // estimates of the heap may have more
			allocated = 0
		}
		if n > 0 || allocated > 0 || name == otherMemory {
			out.Owners = append(out.Owners, MemoryOwner{name, n, allocated})
		}
	}
	slices.SortFunc(out.Owners, func(a, b MemoryOwner) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Owner, b.Owner))
	})
	if o.most != nil && out.inUse() <= o.most.inUse() {
		return nil
	}
	o.most = out
	return out
}

// CeilingSamples is the class of memory that samples of ceilings read.
const CeilingSamples = "ceiling samples"

const (
	// goHeap is the part of the Go heap that nobody else owns: texts, results, and the
	// error of estimates.
	goHeap = "go heap, the rest"
	// freeHeap is the part without objects, which the runtime has not given back.
	freeHeap = "go heap, not in use"
	// goRuntime is the Go runtime's own memory, beside its heap.
	goRuntime = "go runtime"
	// programMemory is the executable, its data and the main stack.
	programMemory = "program"
	// mappedFile is what the name of another file in memory begins with.
	mappedFile = "mapped file "
)

// runtimeBytes is how much the runtime asked for itself.
func runtimeBytes() int64 {
	return metricBytes("/memory/classes/metadata/mcache/inuse:bytes", "/memory/classes/metadata/mcache/free:bytes",
		"/memory/classes/metadata/mspan/inuse:bytes", "/memory/classes/metadata/mspan/free:bytes",
		"/memory/classes/metadata/other:bytes", "/memory/classes/profiling/buckets:bytes", "/memory/classes/other:bytes")
}

// metricBytes is the sum of some of the runtime's metrics.
func metricBytes(names ...string) (sum int64) {
	s := make([]metrics.Sample, len(names))
	for i, name := range names {
		s[i].Name = name
	}
	metrics.Read(s)
	for _, v := range s {
		if v.Value.Kind() == metrics.KindUint64 {
			sum += int64(v.Value.Uint64())
		}
	}
	return sum
}

// eachSlot calls each with the memory of the plan's stamps and samples, most of what
// recording takes.
func (f *planFold) eachSlot(each func(mem []int64)) {
	f.rec.folding.Lock()
	defer f.rec.folding.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pool.Lock()
	defer f.pool.Unlock()
	slot := func(r *Run) {
		for i := range r.Lanes {
			each(words(r.Lanes[i].Steps))
		}
		each(words(r.Costs))
		each(r.Stamps[:cap(r.Stamps)])
	}
	for r := f.free; r != nil; r = r.next {
		slot(r)
	}
	own := func(r *Run) {
		if r.fold == f {
			slot(r)
		}
	}
	f.rec.released.each(own)
	for _, r := range f.rec.taken {
		own(r)
	}
	for _, runs := range [][]*Run{f.kept.first, f.kept.last} {
		for _, r := range runs {
			slot(r)
		}
	}
	each(words(f.samples.values))
	each(f.samples.burn)
	each(words(f.steps))
}

// words is the memory of a slice of elements that have no pointers.
func words[T any](s []T) []int64 {
	var t T
	return unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(t))/8)
}

// otherMemory is what nobody owns: the runtime's own, libraries, stacks.
const otherMemory = "(not known)"

func (r *Recorder) residency() *Residency {
	r.LookAtMemory()
	r.owners.mu.Lock()
	defer r.owners.mu.Unlock()
	return r.owners.most
}
