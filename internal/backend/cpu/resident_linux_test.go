package cpu

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestWeightsAskForLargePages: the system knows that all of a large tensor wants large
// pages, its end too, and so do small ones beside each other.
func TestWeightsAskForLargePages(t *testing.T) {
	needLargePages(t)
	var r resident
	large := r.take(9<<20 + 7)
	small := [][]byte{r.take(300 << 10), r.take(300 << 10)}
	for _, at := range []*byte{&large[0], &large[len(large)-1], &small[0][0], &small[1][0]} {
		if flags := pageFlags(t, uintptr(unsafe.Pointer(at))); !strings.Contains(flags, " hg ") {
			t.Errorf("the pages at %p have the flags %q, expected hg among them", at, flags)
		}
	}
	runtime.KeepAlive(large)
}

// TestTrainingAsksForLargePages: an arena that every run passes over asks for large
// pages, and only such a one does.
func TestTrainingAsksForLargePages(t *testing.T) {
	needLargePages(t)
	for _, whole := range []bool{false, true} {
		a, err := newArena(3*largePage, false)
		if err != nil {
			t.Fatal(err)
		}
		if whole {
			a.Whole()
		}
		if flags := pageFlags(t, uintptr(unsafe.Pointer(&a.mem[0]))); strings.Contains(flags, " hg ") != whole {
			t.Errorf("whole %v: the pages have the flags %q", whole, flags)
		}
		if err := a.Free(); err != nil {
			t.Fatal(err)
		}
	}
}

// needLargePages skips where the system does not take the question.
func needLargePages(t *testing.T) {
	t.Helper()
	asked, err := unix.Mmap(-1, 0, 2*largePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(asked)
	if err := unix.Madvise(asked, unix.MADV_HUGEPAGE); err != nil || !strings.Contains(pageFlags(t, uintptr(unsafe.Pointer(&asked[0]))), " hg ") {
		t.Skipf("this system does not take the question for large pages, as emulators do not: %v", err)
	}
}

// pageFlags is what the system says of the mapping at an address.
func pageFlags(t *testing.T, at uintptr) string {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	inside := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var lo, hi uintptr
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x ", &lo, &hi); n == 2 {
			inside = lo <= at && at < hi
		}
		if flags, ok := strings.CutPrefix(lines.Text(), "VmFlags:"); ok && inside {
			return flags + " "
		}
	}
	t.Fatalf("no mapping holds %#x", at)
	return ""
}
