//go:build unix

// Package fence is memory for tests of assembly: nobody may touch what lies in
// front of it and behind it. Tests of kernel packages import it, nothing else
// does. A fence that cannot be made ends the test.
package fence

import (
	"runtime/debug"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Fence is memory whose last byte is the last of a page before one that nobody
// may touch, or whose first is the first behind such a one.
type Fence struct {
	mem   []byte
	front bool
}

// New makes room for so many bytes; front says at which end what it gives lies.
func New(t testing.TB, bytes int, front bool) *Fence {
	t.Helper()
	size := unix.Getpagesize()
	pages := (bytes+size-1)/size*size + 2*size
	mem, err := unix.Mmap(-1, 0, pages, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	for _, end := range [][]byte{mem[:size], mem[pages-size:]} {
		if err := unix.Mprotect(end, unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return &Fence{mem[size : pages-size], front}
}

// Of is n values within the fence, the same memory each time.
func Of[T any](f *Fence, n int) []T {
	var v T
	size := n * int(unsafe.Sizeof(v))
	bytes := f.mem[len(f.mem)-size:]
	if f.front {
		bytes = f.mem[:size]
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(bytes))), n)
}

// Hold runs f and fails with what it was doing when it touched a page that
// nobody may.
func Hold(t *testing.T, f func(doing *string)) {
	t.Helper()
	var doing string
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if err := recover(); err != nil {
			t.Fatalf("%s: %v", doing, err)
		}
	}()
	f(&doing)
}
