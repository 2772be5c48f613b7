package compare

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"hotpath/profile"
)

// allResident is the row of the sum of all owners.
const allResident = "all resident memory"

// sharedLibraries is the row of all of them: most are loaded by others.
const sharedLibraries = "shared libraries"

// residentNoise is the noise of an owner's resident memory, as memoryNoise is of sizes.
var residentNoise = map[profile.OwnerKind]struct{ part, bytes float64 }{
	profile.OwnedPages:    {0.02, 1 << 20},
	profile.TouchedPages:  {0.4, 2 << 20},
	profile.SampledHeap:   {0.3, 4 << 20},
	profile.CollectorHeap: {0.3, 32 << 20},
	profile.LoadedCode:    {0.1, 4 << 20},
}

// ownerBytes is the memory of one owner in the recordings of both sides.
type ownerBytes struct {
	kind           profile.OwnerKind
	resident, held [2][]float64 // [side][recording]
	unknown        bool         // some recording has the owner, but not what it held
}

// compareOwners compares the owners of the process's memory. One that a recording does
// not have held nothing there.
func compareOwners(a, b []*profile.Profile) []MemoryDiff {
	owners := map[string]*ownerBytes{}
	of := func(name string) *ownerBytes {
		o := owners[name]
		if o == nil {
			o = new(ownerBytes)
			for side, n := range [2]int{len(a), len(b)} {
				o.resident[side], o.held[side] = make([]float64, n), make([]float64, n)
			}
			owners[name] = o
		}
		return o
	}
	var all [2][]float64
	oldBuild := false // it does not say what owners held, nor whether one that is not there held any
	for side, profiles := range [2][]*profile.Profile{a, b} {
		for i, p := range profiles {
			oldBuild = oldBuild || !p.Resident.KnowsHeld()
			all[side] = append(all[side], float64(p.Resident.Bytes))
			for _, m := range p.Resident.Owners {
				name := m.Owner
				if name == allResident { // in a file that somebody made: it is not the sum
					name = "owner " + allResident
				}
				if m.Kind() == profile.LoadedCode && strings.Contains(name, ".so") {
					name = sharedLibraries
				}
				o := of(name)
				o.kind, o.unknown = m.Kind(), o.unknown || m.Held == 0
				o.resident[side][i] += float64(m.Bytes)
				o.held[side][i] += float64(m.Held)
			}
		}
	}
	sum := MemoryDiff{Owner: processOwner, Class: allResident, Resident: true}
	sum.judge(all[0], all[1], 0.05, 32<<20)
	out := []MemoryDiff{sum}
	for _, name := range slices.Sorted(maps.Keys(owners)) {
		d := MemoryDiff{Owner: processOwner, Class: name}
		owners[name].judge(&d, oldBuild)
		out = append(out, d)
	}
	slices.SortStableFunc(out, func(x, y MemoryDiff) int { return cmp.Compare(max(y.Before, y.After), max(x.Before, x.After)) })
	return out
}

// judge fills in the row of an owner. What it held is exact. How much of that it touched
// depends on the machine: a worker that took no part touched none of its scratch.
func (o *ownerBytes) judge(d *MemoryDiff, oldBuild bool) {
	if !oldBuild && !o.unknown {
		d.Held, d.Touched = true, &[2]float64{mean(o.resident[0]), mean(o.resident[1])}
		d.judge(o.held[0], o.held[1], exactPart, exactBytes)
		return
	}
	d.Resident = true
	noise := residentNoise[o.kind]
	if o.kind == profile.SampledHeap {
		noise.bytes = max(noise.bytes, samplingNoise(o.resident[0], o.resident[1]))
	}
	d.judge(o.resident[0], o.resident[1], noise.part, noise.bytes)
}

// samplingNoise is what estimates from samples of the Go heap may differ by. The runtime
// samples one allocation per heapSample bytes, so the variance of an estimate is at most
// heapSample times the bytes.
func samplingNoise(x, y []float64) float64 {
	const deviations = 3.3 // one false alarm in a thousand rows
	variance := heapSample * (mean(x)/float64(len(x)) + mean(y)/float64(len(y)))
	return deviations * math.Sqrt(variance)
}

// heapSample is runtime.MemProfileRate unless a program changes it.
const heapSample = 512 << 10
