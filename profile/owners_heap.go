package profile

import (
	"math"
	"runtime"
	"strings"
)

// garbageHeap is the part of the Go heap with objects that nobody needs, and that the
// collector has not found yet.
const garbageHeap = "go heap, garbage"

// heapOwners names the owners of objects on the Go heap by the function that made
// them: the first row that its name begins with. A row without an owner is memory that
// is known by its address or its size.
var heapOwners = []heapRow{
	{"hotpath/internal/plan.newCosting", recorderMemory},
	{"hotpath/internal/plan.newStepCost", recorderMemory},
	{"hotpath/internal/plan.(*costing)", recorderMemory},
	{"hotpath/profile.newSampler", ""}, // eachSlot has it
	{"hotpath/profile.(*LaneSlots).Init", ""},
	{"hotpath/profile", recorderMemory},
	{"hotpath/internal/tokenizer", "tokenizer"},
	{"hotpath/internal/weights", "tables of model files"},
	{"hotpath/internal/format", "tables of model files"},
	{"hotpath/internal/backend/cpu.largePages", ""}, // packed weights
	{"hotpath/internal/backend/cpu.newScratch", ""},
	{"hotpath/internal/backend/cpu.(*attention)", ""}, // scratch of workers
	{"hotpath/internal/kernel", ""},
	{"hotpath/internal/backend", "kernels and tables"},
	{"hotpath/internal/plan", "plans and graphs"},
	{"hotpath/internal/graph", "plans and graphs"},
	{"hotpath/internal/model", "plans and graphs"},
	{"hotpath/internal/train", "training data"},
	{"hotpath/internal/dataset", "training data"},
}

type heapRow struct{ function, owner string }

// recorderMemory is the owner of what recording takes.
const recorderMemory = "recorder"

// liveHeap collects garbage, and estimates the bytes of the objects that are left by
// owner, from the runtime's samples of allocations. garbage is what was collected.
func liveHeap() (owners map[string]int64, garbage int64) {
	before := metricBytes("/memory/classes/heap/objects:bytes")
	runtime.GC() // the samples are of the last collection
	garbage = max(0, before-metricBytes("/memory/classes/heap/objects:bytes"))
	var records []runtime.MemProfileRecord
	n, ok := runtime.MemProfile(nil, false)
	for !ok {
		records = make([]runtime.MemProfileRecord, n+64)
		n, ok = runtime.MemProfile(records, false)
	}
	owners = map[string]int64{}
	for i := range records[:n] {
		if owner := heapOwner(records[i].Stack()); owner != "" {
			owners[owner] += sampledBytes(&records[i])
		}
	}
	return owners, garbage
}

// touchedOf is how much of the heap's free memory and of its garbage is resident, if
// objects in use leave room bytes for both. The runtime counts bytes, and large slices of
// which little was ever written are mostly not resident. Objects in use are mostly written.
func touchedOf(room, free, garbage int64) (int64, int64) {
	room, all := max(0, room), free+garbage
	if all <= room {
		return free, garbage
	}
	part := float64(room) / float64(all)
	return int64(part * float64(free)), int64(part * float64(garbage))
}

// heapOwner is the owner of an object by the stack that made it; empty if the memory
// is known otherwise.
func heapOwner(stack []uintptr) string {
	for frames := runtime.CallersFrames(stack); ; {
		f, more := frames.Next()
		if strings.HasPrefix(f.Function, "hotpath") {
			for _, row := range heapOwners {
				if strings.HasPrefix(f.Function, row.function) {
					return row.owner
				}
			}
			return goHeap
		}
		if !more {
			return goHeap
		}
	}
}

// sampledBytes estimates the bytes of all objects from a stack: the runtime samples
// one allocation per MemProfileRate bytes, and small ones more seldom.
func sampledBytes(r *runtime.MemProfileRecord) int64 {
	bytes, objects := float64(r.InUseBytes()), float64(r.InUseObjects())
	if rate := float64(runtime.MemProfileRate); objects > 0 && rate > 1 {
		bytes /= 1 - math.Exp(-bytes/objects/rate)
	}
	return int64(bytes)
}
