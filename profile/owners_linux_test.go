package profile

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"
	"testing"
)

// Memory off the heap belongs to who said so, to the page, and is nobody's when it is
// given back; the owners add up to what is resident.
func TestOwnersOfMemory(t *testing.T) {
	const bytes, touched = 32 << 20, 20 << 20
	mem := mapMemory(t, bytes, touched)
	heap := make([]byte, 16<<20)
	for i := 0; i < len(heap); i += 4096 {
		heap[i] = 1
	}
	var peaks []*Residency
	rec := NewRecorder(Options{AtPeak: func(r *Residency) { peaks = append(peaks, r) }})
	rec.OwnHeap(&heap, "weights, packed", int64(len(heap)))
	rec.Own("arena", mem)
	p := rec.Snapshot()
	if p.Resident == nil {
		t.Skip("the system does not say what is resident")
	}
	of, held := map[string]int64{}, map[string]int64{}
	var sum int64
	for _, o := range p.Resident.Owners {
		of[o.Owner], held[o.Owner] = o.Bytes, o.Held
		sum += o.Bytes
	}
	if held["arena"] != bytes || held["weights, packed"] != int64(len(heap)) || held[goHeap] != 0 || held[programMemory] != 0 || !p.Resident.KnowsHeld() {
		t.Errorf("owners hold %v, expected %d in the arena and %d in packed weights", held, bytes, len(heap))
	}
	if n := of["arena"]; n < touched || n > bytes || len(peaks) != 1 || peaks[0] != p.Resident {
		t.Errorf("the arena has %d bytes, expected %d", n, touched)
	}
	if n := of["weights, packed"]; n != int64(len(heap)) {
		t.Errorf("packed weights have %d bytes, expected %d", n, len(heap))
	}
	if sum != p.Resident.Bytes || of[otherMemory] > p.Resident.Bytes/20 && !raceDetector {
		t.Errorf("owners add up to %d of %d bytes, %d of them not known", sum, p.Resident.Bytes, of[otherMemory])
	}
	rec.Own("arena", mem) // a second session that shares it
	rec.Disown(mem)
	rec.OwnHeap(&heap, "weights, packed", 0)
	rec.owners.most = nil
	again := map[string]int64{}
	for _, o := range rec.Snapshot().Resident.Owners {
		again[o.Owner] = o.Bytes
	}
	if again["arena"] != of["arena"] || again["weights, packed"] != 0 {
		t.Errorf("the arena that one of two sessions holds has %d bytes, expected %d; packed weights that were let go have %d", again["arena"], of["arena"], again["weights, packed"])
	}
	rec.Disown(mem)
	rec.owners.most = nil
	for _, o := range rec.Snapshot().Resident.Owners {
		if o.Owner == "arena" {
			t.Errorf("the arena still has %d bytes", o.Bytes)
		}
	}
	heap[0]++
	p.Resident.Bytes++
	if _, err := Read("p", encode(t, p)); err == nil {
		t.Error("owners that do not add up were read")
	}
}

// An owner that touched nothing is there with what it holds. A mapped file is not held:
// its pages are those of the file.
func TestOwnersHoldWhatTheyDoNotTouch(t *testing.T) {
	const size = 8 << 20
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	file, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ, syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(file) })
	sum := 0
	for i := 0; i < size; i += 4096 {
		sum += int(file[i])
	}
	rec := NewRecorder(Options{})
	rec.Own("worker scratch", mapMemory(t, size, 0))
	rec.Own("weights, mapped file", file[:size/2])
	rec.Own("embed io", mapMemory(t, 1<<20, 1<<20))
	rec.Own("embed io", file[size/2:]) // some of it is mapped: what is allocated is not said
	p := rec.Snapshot()
	if p.Resident == nil {
		t.Skip("the system does not say what is resident")
	}
	for _, want := range []MemoryOwner{{"worker scratch", 0, size}, {"weights, mapped file", size / 2, 0}, {"embed io", size/2 + 1<<20, 0}} {
		if !slices.Contains(p.Resident.Owners, want) {
			t.Errorf("%+v is not among %+v", want, p.Resident.Owners)
		}
	}
	if _, err := Read("p", encode(t, p)); err != nil || sum != 0 {
		t.Error(err, sum)
	}
}

// The owners at the end of a session stay when more is resident after it, of which
// nobody knows the owner.
func TestOwnersStayAfterTheirEnd(t *testing.T) {
	const size = 16 << 20
	rec := NewRecorder(Options{})
	mem := mapMemory(t, size, size)
	rec.Own("arena", mem)
	rec.LookAtMemory()
	rec.Disown(mem)
	mapMemory(t, 4*size, 4*size)
	p := rec.Snapshot()
	if p.Resident == nil {
		t.Skip("the system does not say what is resident")
	}
	if i := slices.IndexFunc(p.Resident.Owners, func(o MemoryOwner) bool { return o.Owner == "arena" }); i < 0 || p.Resident.Owners[i].Bytes != size {
		t.Errorf("the arena of %d bytes is not among %v", size, p.Resident.Owners)
	}
}

// mapMemory maps memory until the end of the test; the first bytes of it are resident.
func mapMemory(t *testing.T, bytes, touched int) []byte {
	t.Helper()
	mem, err := syscall.Mmap(-1, 0, bytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(mem) })
	for i := 0; i < touched; i += 4096 {
		mem[i] = 1
	}
	return mem
}

// Memory inside of other memory belongs to the owner of the whole.
func TestOwnersOfMemoryInside(t *testing.T) {
	const size = 16 << 20
	mem := make([]byte, 2*size) // the second half is nobody's
	for i := 0; i < len(mem); i += 4096 {
		mem[i] = 1
	}
	rec := NewRecorder(Options{})
	rec.Own("whole", mem[:size])
	rec.Own("inside", mem[size/4:size/2])
	rec.Own("end", mem[size/2:size])
	p := rec.Snapshot()
	if p.Resident == nil {
		t.Skip("the system does not say what is resident")
	}
	of := map[string]int64{}
	for _, o := range p.Resident.Owners {
		of[o.Owner] = o.Bytes
	}
	if of["whole"] != size || of["inside"] != 0 || of["end"] != 0 {
		t.Errorf("the whole has %d bytes, what is inside %d and %d, expected %d, 0, 0", of["whole"], of["inside"], of["end"], size)
	}
	mem[0]++
}

// If the system hides which pages are resident, the profile does not say that owners
// have none.
func TestNoOwnersWithoutPageTable(t *testing.T) {
	was := pageTableFile
	pageTableFile = t.TempDir() + "/none"
	t.Cleanup(func() { pageTableFile = was })
	rec := NewRecorder(Options{AtPeak: func(*Residency) { t.Error("a peak of memory that is not known") }})
	rec.Own("arena", make([]byte, 1<<20))
	if p := rec.Snapshot(); p.Resident != nil {
		t.Errorf("resident: %+v", p.Resident)
	}
}

var dropped []byte

// Garbage that was never written is not resident, and takes nothing from owners of
// objects in use.
func TestUntouchedGarbageIsNotResident(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const bytes = 16 << 20
	kept := make([]byte, bytes) // made by this package, so it counts as the recorder's
	for i := range kept {
		kept[i] = 1
	}
	for range 8 {
		dropped = make([]byte, 64<<20)
	}
	dropped = nil
	rec := NewRecorder(Options{})
	rec.LookAtMemory()
	p := rec.Snapshot()
	if p.Resident == nil {
		t.Skip("the system does not say what is resident")
	}
	for _, o := range p.Resident.Owners {
		if o.Owner == recorderMemory && o.Bytes >= bytes/2 {
			runtime.KeepAlive(kept)
			return
		}
	}
	t.Errorf("owners are %v, expected %d bytes of the recorder", p.Resident.Owners, bytes)
}

// The heap begins in the arena of the first object or in the one before.
func TestHeapByFirstObject(t *testing.T) {
	const first = 0x7e_1000_0000 + 3<<20
	for from, want := range map[uintptr]bool{
		first &^ (heapArena - 1):                 true,
		first&^(heapArena-1) - 2<<20:             true, // what was allocated before has filled the arena
		first + 100*heapArena:                    true,
		first&^(heapArena-1) - heapArena - 4096:  false,
		first&^(heapArena-1) + heapMost + 4<<30:  false,
		0x7f_ffff_0000_0000 & (1<<47 - 1) &^ 0xf: false,
	} {
		if got := inHeap(from, first); got != want {
			t.Errorf("a mapping at %#x with the first object at %#x: %t", from, uintptr(first), got)
		}
	}
}
