package compare

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"hotpath/profile"
)

// Verdicts about memory.
const (
	MoreMemory Verdict = "more memory"
	LessMemory Verdict = "less memory"
)

// MemoryDiff is one class of memory of the process, or of a plan, before and
// after: means over the recordings of each side. If all recordings say which memory was
// resident, the rows of the process are by owner: what the owner held, or what was
// resident if some recording does not say what it held. Plans on the host have no rows
// then. Memory of devices is never resident: weights and plans on them are compared as
// laid out.
type MemoryDiff struct {
	Owner    string  `json:"owner"`
	Class    string  `json:"class"`
	Resident bool    `json:"resident"` // what was resident
	Held     bool    `json:"held"`     // what an owner allocated; if neither, the size that was laid out
	Before   float64 `json:"before_bytes"`
	After    float64 `json:"after_bytes"`
	Noise    float64 `json:"noise_bytes"` // what two recordings of one build may differ by
	Verdict  Verdict `json:"verdict"`
	// Touched is the resident part of what was held, before and after. No verdict
	// depends on it: it differs with the workers that took part and the parallel mode.
	Touched *[2]float64 `json:"touched_bytes,omitempty"`
}

// Delta is the whole difference.
func (d *MemoryDiff) Delta() float64 { return d.After - d.Before }

// Changed reports whether the difference is more than noise.
func (d *MemoryDiff) Changed() bool { return d.Verdict != Same }

// memoryNoise is how much of a class differs between recordings of one build, as
// a part and in bytes: the larger counts. Sizes that a plan lays out are exact.
// What the Go runtime holds depends on when it collected last.
func memoryNoise(owner, class string) (part, bytes float64) {
	switch {
	case class == "go runtime total": // what it once held it keeps for a while
		return 1, 128 << 20
	case strings.HasPrefix(class, "go "):
		return 0.3, 32 << 20
	case owner == processOwner:
		return 0.02, 1 << 20
	}
	return exactPart, exactBytes
}

// Noise of sizes that are exact.
const exactPart, exactBytes = 0.001, 4 << 10

const processOwner = "process"

// compareMemory compares the owners of memory if all recordings have them, and otherwise
// the sizes that were laid out.
func compareMemory(a, b []*profile.Profile) []MemoryDiff {
	if slices.ContainsFunc(slices.Concat(a, b), func(p *profile.Profile) bool { return p.Resident == nil }) {
		return compareLaidOut(a, b, true)
	}
	return append(compareOwners(a, b), compareLaidOut(a, b, false)...)
}

// judge fills in a row from the values of both sides. part and least are the noise.
func (d *MemoryDiff) judge(x, y []float64, part, least float64) {
	d.Before, d.After, d.Verdict = mean(x), mean(y), Same
	// Recordings of one side that lie further apart say so themselves.
	d.Noise = max(part*d.Before, least, slices.Max(x)-slices.Min(x), slices.Max(y)-slices.Min(y))
	switch {
	case d.Delta() > d.Noise:
		d.Verdict = MoreMemory
	case d.Delta() < -d.Noise:
		d.Verdict = LessMemory
	}
}

// weightsClass is the class of memory that the plans of a process share.
const weightsClass = "weights"

// onDevice: some of the plan's lanes are those of a device.
func onDevice(s *profile.PlanStats) bool { return s.Ledger.Runs > 0 && s.HostLanes > 0 }

// compareLaidOut compares every class that all recordings have. host: those of the
// process and of plans on the host too, not only weights and plans on devices.
func compareLaidOut(a, b []*profile.Profile, host bool) []MemoryDiff {
	type key struct{ owner, class string }
	var values [2]map[key][]float64
	var order []key
	for side, profiles := range [2][]*profile.Profile{a, b} {
		values[side] = map[key][]float64{}
		for _, p := range profiles {
			take := func(owner string, memory map[string]int64) {
				for _, class := range slices.Sorted(maps.Keys(memory)) {
					k := key{owner, class}
					if side == 0 && values[0][k] == nil {
						order = append(order, k)
					}
					values[side][k] = append(values[side][k], float64(memory[class]))
				}
			}
			if host {
				take(processOwner, p.Memory)
			} else if bytes, ok := p.Memory[weightsClass]; ok && slices.ContainsFunc(p.Plans, func(s profile.PlanStats) bool { return onDevice(&s) }) {
				take(processOwner, map[string]int64{weightsClass: bytes})
			}
			for i := range p.Plans {
				if s := &p.Plans[i]; onDevice(s) || host && s.Ledger.Runs > 0 {
					take("plan "+cmp.Or(s.Name, s.ID), s.MemoryBytes)
				}
			}
		}
	}
	out := []MemoryDiff{}
	for _, k := range order {
		x, y := values[0][k], values[1][k]
		if len(x) != len(a) || len(y) != len(b) {
			continue
		}
		part, least := memoryNoise(k.owner, k.class)
		d := MemoryDiff{Owner: k.owner, Class: k.class}
		d.judge(x, y, part, least)
		out = append(out, d)
	}
	return out
}
