package study

import (
	"cmp"
	"runtime"
	"slices"
	"strings"
)

// Allocator is a place in the program that allocated on the Go heap while
// iterations ran.
type Allocator struct {
	Func  string // with its package, and the caller of it
	Count float64
	Bytes float64 // both of one iteration
}

// heapSites is what was allocated so far, by stack.
type heapSites map[[32]uintptr]struct{ count, bytes int64 }

// readHeap reads the runtime's record of allocations, which is as of the last
// collection but one.
func readHeap() heapSites {
	runtime.GC()
	runtime.GC()
	var records []runtime.MemProfileRecord
	for n, _ := runtime.MemProfile(nil, true); ; n += 64 {
		records = make([]runtime.MemProfileRecord, n)
		if got, ok := runtime.MemProfile(records, true); ok {
			records = records[:got]
			break
		}
	}
	out := heapSites{}
	for _, r := range records {
		s := out[r.Stack0]
		s.count += r.AllocObjects
		s.bytes += r.AllocBytes
		out[r.Stack0] = s
	}
	return out
}

// since ranks what was allocated after before, by function. What measuring
// itself allocates is left out.
func (h heapSites) since(before heapSites, iterations int) []Allocator {
	byFunc := map[string]*Allocator{}
	for stack, now := range h {
		was := before[stack]
		count, bytes := now.count-was.count, now.bytes-was.bytes
		if bytes <= 0 {
			continue
		}
		name := site(stack[:])
		if name == "" {
			continue
		}
		a := byFunc[name]
		if a == nil {
			a = &Allocator{Func: name}
			byFunc[name] = a
		}
		a.Count += float64(count) / float64(iterations)
		a.Bytes += float64(bytes) / float64(iterations)
	}
	var out []Allocator
	for _, a := range byFunc {
		out = append(out, *a)
	}
	slices.SortFunc(out, func(a, b Allocator) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Func, b.Func))
	})
	return out
}

// site names the first function of a stack that is not the runtime's, "" for
// stacks of the measurement.
func site(stack []uintptr) string {
	if n := slices.Index(stack, 0); n >= 0 {
		stack = stack[:n]
	}
	frames := runtime.CallersFrames(stack)
	name := ""
	for {
		f, more := frames.Next()
		if strings.HasSuffix(f.Function, "study.readHeap") || strings.HasSuffix(f.Function, "study.readGC") {
			return ""
		}
		if name == "" && f.Function != "" && !strings.HasPrefix(f.Function, "runtime.") {
			name = f.Function
		}
		if !more {
			break
		}
	}
	return name
}
