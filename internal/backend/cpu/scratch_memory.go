package cpu

import (
	"reflect"
	"unsafe"
)

// EachScratch calls f with the memory of the workers' scratch. Each piece comes once.
func (e *exec) EachScratch(f func(mem []byte)) {
	seen := map[unsafe.Pointer]bool{}
	for _, r := range e.rooms {
		eachSlice(reflect.ValueOf(r.scratch()), seen, f)
	}
	for i := range e.workers {
		w := e.workers[i].scratch
		eachSlice(reflect.ValueOf([][]float32{w.keys, w.values, w.f}), seen, f)
	}
}

// eachSlice calls f with the memory of all slices that can be reached from v, except
// through interfaces: those hold operands of a product, which are not scratch.
func eachSlice(v reflect.Value, seen map[unsafe.Pointer]bool, f func(mem []byte)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && !seen[v.UnsafePointer()] {
			seen[v.UnsafePointer()] = true
			eachSlice(v.Elem(), seen, f)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			eachSlice(v.Field(i), seen, f)
		}
	case reflect.Array:
		for i := range v.Len() {
			eachSlice(v.Index(i), seen, f)
		}
	case reflect.Slice:
		at := v.UnsafePointer()
		if v.Cap() == 0 || seen[at] {
			return
		}
		seen[at] = true
		f(unsafe.Slice((*byte)(at), v.Cap()*int(v.Type().Elem().Size())))
		switch v.Type().Elem().Kind() {
		case reflect.Pointer, reflect.Struct, reflect.Array, reflect.Slice:
			for i := range v.Len() {
				eachSlice(v.Index(i), seen, f)
			}
		}
	}
}
