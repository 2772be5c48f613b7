// Package aligned makes slices that begin at a cache line.
package aligned

import (
	"reflect"
	"unsafe"
)

// Line is the size of a cache line.
const Line = 64

// Slice is make([]T, n) that begins at a cache line, where the runtime lets it. Go puts
// a header of one word before objects of some sizes that have pointers. Then there is
// room before the first element that makes the header a whole line.
func Slice[T any](n int) []T {
	s := make([]T, n)
	if n == 0 || begins(s)%Line == 0 {
		return s
	}
	room := reflect.ArrayOf(int(Line-begins(s)%Line), reflect.TypeFor[byte]())
	items := reflect.ArrayOf(n, reflect.TypeFor[T]())
	padded := reflect.New(reflect.StructOf([]reflect.StructField{{Name: "Room", Type: room}, {Name: "Items", Type: items}}))
	return unsafe.Slice((*T)(padded.Elem().Field(1).Index(0).Addr().UnsafePointer()), n)
}

func begins[T any](s []T) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(s))) }
