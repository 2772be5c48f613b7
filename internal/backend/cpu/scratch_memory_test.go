package cpu

import (
	"reflect"
	"slices"
	"testing"
	"unsafe"
)

// All slices of scratch are found, once, and no operand behind an interface.
func TestEachSlice(t *testing.T) {
	type inner struct {
		ids  [2][]int32
		next *inner
	}
	type outer struct {
		rows    []float32
		deep    []*inner
		operand any
	}
	a := &inner{ids: [2][]int32{make([]int32, 3), nil}}
	a.next = a // seen already
	v := []*outer{{rows: make([]float32, 2, 5), deep: []*inner{a, a}, operand: make([]float64, 100)}, nil}
	var sizes []int
	eachSlice(reflect.ValueOf(v), map[unsafe.Pointer]bool{}, func(mem []byte) { sizes = append(sizes, len(mem)) })
	slices.Sort(sizes)
	pointer := int(unsafe.Sizeof(uintptr(0)))
	want := []int{3 * 4, 2 * pointer, 2 * pointer, 5 * 4}
	slices.Sort(want)
	if !slices.Equal(sizes, want) {
		t.Errorf("slices of %v bytes, expected %v", sizes, want)
	}
}
