package cuda

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"hotpath/internal/tensor"
	"hotpath/profile"
)

// fake is a driver without a card: memory is Go's, launches are counted and
// compute nothing. It fails when it is told to.
type fake struct {
	live     map[address][]byte
	host     map[*byte]bool
	lists    map[list][]launch
	replays  int
	allocs   int
	closed   bool
	inside   bool
	room     int64 // bytes that can be allocated; 0: no limit
	used     int64
	failSync error
	failLoad error
	failEnd  error         // of close
	events   map[event]int // replays before the event's mark
	syncs    int           // waits for all that was replayed
	broken   []string      // calls outside of enter and leave
	sizes    tensor.Bind   // of the last replay
	carried  [2]int64      // bytes to the card and back, of the last replay
	torn     int           // inputs that the card had otherwise than the host after a transfer
	clock    int64         // of the card
	stamped  []string      // kernels of the last replay that wrote a stamp
	slow     time.Duration // of each block that carries results
	units    int           // multiprocessors
	compute  [2]int        // capability
}

func newFake() *fake {
	return &fake{live: map[address][]byte{}, host: map[*byte]bool{}, lists: map[list][]launch{}, events: map[event]int{}, units: 4, compute: [2]int{9, 0}}
}

func (f *fake) within(call string) {
	if !f.inside {
		f.broken = append(f.broken, call)
	}
}

func (f *fake) enter() error {
	f.inside = true
	return nil
}

func (f *fake) leave() { f.inside = false }
func (f *fake) describe() description {
	return description{Name: "fake", Driver: 13000, Capability: f.compute, Units: f.units, Memory: 1 << 30}
}
func (f *fake) memory() (int64, int64, error) { return f.room - f.used, f.room, nil }

func (f *fake) alloc(bytes int64) (address, error) {
	f.within("alloc")
	if f.room > 0 && f.used+bytes > f.room {
		return 0, failure("cuMemAlloc_v2", 2, "out of memory")
	}
	f.allocs++
	f.used += bytes
	b := make([]byte, bytes)
	a := address(uintptr(unsafe.Pointer(&b[0])))
	f.live[a] = b
	return a, nil
}

func (f *fake) free(a address) error {
	f.within("free")
	if f.live[a] == nil {
		return errors.New("freed what is not there")
	}
	f.used -= int64(len(f.live[a]))
	delete(f.live, a)
	return nil
}

func (f *fake) hostAlloc(bytes int64) ([]byte, error) {
	f.within("hostAlloc")
	b := make([]byte, bytes)
	f.host[&b[0]] = true
	return b, nil
}

func (f *fake) hostFree(b []byte) error {
	f.within("hostFree")
	if !f.host[&b[0]] {
		return errors.New("freed what is not there")
	}
	delete(f.host, &b[0])
	return nil
}

// at finds bytes of the card.
func (f *fake) at(a address, n int) ([]byte, error) {
	for base, b := range f.live {
		if a >= base && a+address(n) <= base+address(len(b)) {
			return b[a-base:][:n], nil
		}
	}
	return nil, fmt.Errorf("%d bytes at %x are no memory of the card", n, a)
}

func (f *fake) fill(a address, value byte, bytes int64) error {
	b, err := f.at(a, int(bytes))
	for i := range b {
		b[i] = value
	}
	return err
}

func (f *fake) read(dst []byte, src address) error {
	b, err := f.at(src, len(dst))
	copy(dst, b)
	return err
}

func (f *fake) write(dst address, src []byte) error {
	b, err := f.at(dst, len(src))
	copy(b, src)
	return err
}

func (f *fake) load([]byte) (module, error) { return 1, f.failLoad }
func (f *fake) function(_ module, name string) (function, error) {
	return function(len(name)), nil
}

func (f *fake) record(launches []launch) (list, error) {
	f.within("record")
	l := list(len(f.lists) + 1)
	f.lists[l] = append([]launch(nil), launches...)
	return l, nil
}

func (f *fake) replay(l list) error {
	f.within("replay")
	if f.lists[l] == nil {
		return errors.New("replayed what was dropped")
	}
	f.replays++
	f.carried, f.stamped = [2]int64{}, nil
	for _, l := range f.lists[l] {
		f.stamp(l)
		if l.kernel == "k_transfer" {
			f.transfer(l.args[stampBytes:], l.grid[0])
		}
	}
	return nil
}

// of is the bytes of a value in a run of some sizes.
func (p *travels) of(b tensor.Bind) int64 {
	d := tensor.Dim{Sym: tensor.Sym(p.sym), Mul: int(p.mul), Add: int(p.add)}
	return int64(d.Size(b)) * int64(p.bytes)
}

// word is a word of the card's memory.
func word(at uint64) *int32 { return (*int32)(*(*unsafe.Pointer)(unsafe.Pointer(&at))) }

// tick reads the card's clock, which is the host's and never stands still.
func (f *fake) tick(to uint64) {
	f.clock = max(f.clock+1, profile.Now())
	*(*int64)(unsafe.Pointer(word(to))) = f.clock
}

// stamp does what wait_clock and write_stamp do: it writes half of the clock.
func (f *fake) stamp(l launch) {
	if to := binary.LittleEndian.Uint64(l.args); to != 0 {
		f.clock = max(f.clock+1, profile.Now())
		*word(to) = int32(f.clock)
		f.stamped = append(f.stamped, l.kernel)
	}
}

// parts are the values that a launch of k_transfer carries.
func (f *fake) parts(args []byte) []travels {
	at, n := binary.LittleEndian.Uint64(args[16:]), int(binary.LittleEndian.Uint32(args[24:]))
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*travels)(unsafe.Pointer(word(at))), n)
}

// transfer does what k_transfer does, and counts what crosses.
func (f *fake) transfer(args []byte, grid int) {
	u64 := func(i int) uint64 { return binary.LittleEndian.Uint64(args[i:]) }
	bind, sizes, n := u64(0), u64(8), int(binary.LittleEndian.Uint32(args[24:]))
	b := tensor.Bind{T: int(*word(sizes)), S: int(*word(sizes + 4)), R: int(*word(sizes + 8))}
	f.sizes = b
	way, clocks, home, profiled := 1, u64(32), u64(40), *word(sizes + profiledAt)
	if profiled != 0 && bind != 0 {
		f.tick(clocks)
	}
	if bind != 0 {
		copy(unsafe.Slice(word(bind), sizesBytes/4), unsafe.Slice(word(sizes), sizesBytes/4))
		way, f.carried[0] = 0, f.carried[0]+sizesBytes
	}
	for _, p := range f.parts(args) {
		to, from, bytes := unsafe.Slice(word(uint64(p.to)), p.of(b)/4), unsafe.Slice(word(uint64(p.from)), p.of(b)/4), p.of(b)
		if p.changes != 0 {
			f.carried[way] += 4
			if count := *word(uint64(p.changes)); count >= 0 {
				list := unsafe.Slice(word(uint64(p.changes)+4), 2*count)
				for k := 0; k < len(list); k += 2 {
					to[list[k]] = list[k+1]
				}
				f.carried[way] += 8 * int64(count)
				if !slices.Equal(to, from) {
					f.torn++
				}
				continue
			}
		}
		copy(to, from)
		f.carried[way] += bytes
	}
	if count := uint64(binary.LittleEndian.Uint32(args[48:])); profiled != 0 && bind == 0 {
		copy(unsafe.Slice(word(home), 2*count), unsafe.Slice(word(clocks), 2*count))
		for y := range max(1, n) { // every block that carries a value, the last one last
			blocks := 1
			if y < n {
				blocks = int(f.parts(args)[y].blocks)
			}
			for x := range blocks {
				time.Sleep(f.slow)
				f.tick(home + 8*(count+uint64(y*grid+x)))
			}
		}
	}
}

func (f *fake) drop(l list) error {
	f.lists[l] = nil
	return nil
}

func (f *fake) sync() error {
	f.within("sync")
	f.syncs++
	err := f.failSync
	f.failSync = nil
	return err
}

func (f *fake) newEvent() (event, error) {
	f.within("newEvent")
	e := event(len(f.events) + 1)
	f.events[e] = -1
	return e, nil
}

func (f *fake) mark(e event) error {
	f.within("mark")
	f.events[e] = f.replays
	return nil
}

func (f *fake) await(e event) error {
	f.within("await")
	if f.events[e] < 0 {
		return errors.New("awaited an event that was not marked")
	}
	return f.failSync
}

func (f *fake) dropEvent(e event) error {
	f.within("dropEvent")
	f.events[e] = -2
	return nil
}

func (f *fake) close() error {
	f.closed = true
	return f.failEnd
}

func (f *fake) tensorMap(at address, rows, cols, box int) (tensorMap, error) {
	f.within("tensorMap")
	if at == 0 || at%16 != 0 || cols < 1 || box < 1 || box > 256 {
		return tensorMap{}, fmt.Errorf("a map of %d x %d values at %x with boxes of %d rows", rows, cols, at, box)
	}
	if _, err := f.at(at, 2*rows*stride8(cols)); err != nil {
		return tensorMap{}, err
	}
	return tensorMap{uint64(at), uint64(rows), uint64(cols), uint64(box)}, nil
}

func (f *fake) setShared(function, int) error    { return nil }
func (f *fake) preferShared(function, int) error { return nil }
