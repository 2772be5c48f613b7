package profile

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// The Go runtime maps its heap in arenas of 64 MB, one behind the other, from a place
// that it draws when the process starts: that of the first object, about.
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

// mappings sums the resident memory by what it is a mapping of. What is anonymous
// and not the Go heap counts as not known.
func mappings() (found map[string]int64, heap, all int64) {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return nil, 0, 0
	}
	defer f.Close()
	program, _ := os.Executable()
	heapAt := uint64(uintptr(unsafe.Pointer(firstObject))) &^ (heapArena - 1)
	found = map[string]int64{}
	name := ""
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Bytes()
		if rest, ok := bytes.CutPrefix(line, []byte("Rss:")); ok {
			n := number64(rest, 0) << 10
			all += n
			if name == "" {
				heap += n
			} else {
				found[name] += n
			}
			continue
		}
		from, _, ok := bytes.Cut(line, []byte("-"))
		at, err := strconv.ParseUint(string(from), 16, 64)
		if !ok || err != nil {
			continue // another figure of the mapping
		}
		fields := strings.Fields(string(line))
		switch path := strings.Join(fields[min(len(fields), 5):], " "); {
		case path == "" && at >= heapAt && at-heapAt < heapMost, strings.HasPrefix(path, "[anon: Go: heap"):
			name = ""
		case strings.HasPrefix(path, "[anon: Go:"):
			name = goRuntime
		case path == program, strings.HasPrefix(path, "[stack"), path == "[heap]":
			name = "program"
		case strings.HasPrefix(path, "/"):
			name = "mapped file " + filepath.Base(path)
		default:
			name = otherMemory
		}
	}
	return found, heap, all
}

// residentAt is how much of a range is in memory.
func residentAt(at uintptr, bytes int) int64 {
	page := os.Getpagesize()
	from := at &^ uintptr(page-1)
	pages := (int(at-from) + bytes + page - 1) / page
	in := make([]byte, pages)
	if _, _, err := syscall.Syscall(syscall.SYS_MINCORE, from, uintptr(pages*page), uintptr(unsafe.Pointer(&in[0]))); err != 0 {
		return 0
	}
	var n int64
	for _, b := range in {
		n += int64(b & 1)
	}
	return n * int64(page)
}
