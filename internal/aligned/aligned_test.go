package aligned

import (
	"runtime"
	"testing"
	"unsafe"
)

type record struct {
	next *int
	rest [248]byte
}

func TestSlice(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 8, 100, 200} {
		s := Slice[record](n)
		if len(s) != n {
			t.Fatalf("%d elements, expected %d", len(s), n)
		}
		for i := range s {
			if at := uintptr(unsafe.Pointer(&s[i])); at%Line != 0 {
				t.Errorf("element %d of %d begins at byte %d of a cache line", i, n, at%Line)
			}
			s[i].next = new(int)
			*s[i].next = i
		}
		runtime.GC() // it follows the pointers of all elements
		for range 1000 {
			*new(int) = -1
		}
		for i := range s {
			if *s[i].next != i {
				t.Errorf("element %d of %d points to %d", i, n, *s[i].next)
			}
		}
	}
}
