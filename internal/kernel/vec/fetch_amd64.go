package vec

import "unsafe"

//go:noescape
func fetchLines(p *byte, n int)

// Fetch asks for the cache lines of a, which somebody reads or writes soon. It changes
// nothing.
func Fetch[T byte | float32](a []T) {
	if len(a) > 0 {
		p := unsafe.Pointer(&a[0])
		bytes := uintptr(len(a)) * unsafe.Sizeof(a[0])
		fetchLines((*byte)(p), int((uintptr(p)%64+bytes+63)/64))
	}
}
