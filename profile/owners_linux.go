package profile

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"
)

// The Go runtime maps its heap in arenas of 64 MB, one behind the other, from a place
// that it draws when the process starts, somewhere in an arena: the first object lies in
// that one, or in the next if what was allocated before has filled the rest of it.
const (
	heapArena = 64 << 20
	heapMost  = 1 << 38
)

var firstObject = newObject()

// newObject makes an object on the heap: a variable's initial value may lie in the
// program's data.
//
//go:noinline
func newObject() *[128]byte { return new([128]byte) }

// inHeap reports whether a mapping that begins at from is of the Go heap, by the address of
// the first object.
func inHeap(from, first uintptr) bool {
	heapAt := first&^(heapArena-1) - heapArena
	return from >= heapAt && uint64(from-heapAt) < heapMost
}

// mappings lists the mappings of the process by address. Anonymous memory outside of
// the Go heap has no owner yet.
func mappings() (out []region) {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return nil
	}
	defer f.Close()
	program, _ := os.Executable()
	first := uintptr(unsafe.Pointer(firstObject))
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Bytes()
		if rest, ok := bytes.CutPrefix(line, []byte("Rss:")); ok && len(out) > 0 {
			out[len(out)-1].bytes = number64(rest, 0) << 10
			continue
		}
		span, rest, _ := strings.Cut(string(line), " ")
		from, to, ok := strings.Cut(span, "-")
		begin, err := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		if !ok || err != nil || err2 != nil {
			continue // another figure of the mapping
		}
		m := region{from: uintptr(begin), to: uintptr(end)}
		fields := strings.Fields(rest)
		switch path := strings.Join(fields[min(len(fields), 4):], " "); {
		case path == "" && inHeap(m.from, first), strings.HasPrefix(path, "[anon: Go: heap"):
			m.name = goHeap
		case strings.HasPrefix(path, "[anon: Go:"):
			m.name = goRuntime
		case path == program, strings.HasPrefix(path, "[stack"), path == "[heap]":
			m.name = programMemory
		case strings.HasPrefix(path, "/"):
			m.name = mappedFile + filepath.Base(path)
		default:
			m.name = otherMemory
		}
		out = append(out, m)
	}
	return out
}

// pageTable is the process's page table: one word per page, whose highest bit says
// that the page is in memory.
type pageTable struct {
	file  *os.File
	first int64 // page of the first word in words
	words []byte
	some  [windowPages * pageWord]byte
}

const (
	pageWord    = 8
	windowPages = 512 // words that are read at once
)

var pageTableFile = "/proc/self/pagemap" // replaced by tests

// openPageTable is nil if the system does not show the table, as some containers.
func openPageTable() *pageTable {
	f, err := os.Open(pageTableFile)
	if err != nil {
		return nil
	}
	return &pageTable{file: f}
}

func (t *pageTable) close() { _ = t.file.Close() }

// has reports whether a page is in memory.
func (t *pageTable) has(page int64) bool {
	if page < t.first || (page-t.first+1)*pageWord > int64(len(t.words)) {
		n, err := t.file.ReadAt(t.some[:], page*pageWord)
		if n < pageWord && err != nil {
			return false
		}
		t.first, t.words = page, t.some[:n]
	}
	return t.words[(page-t.first+1)*pageWord-1]&0x80 != 0
}

// resident is how many bytes of a range are in memory.
func (t *pageTable) resident(at uintptr, bytes int64) (sum int64) {
	size := int64(os.Getpagesize())
	from, to := int64(at), int64(at)+bytes
	for p := from / size; p*size < to; p++ {
		if t.has(p) {
			sum += min(to, (p+1)*size) - max(from, p*size)
		}
	}
	return sum
}
