package compare

import (
	"cmp"
	"maps"
	"math"
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
// after: means over the recordings of each side.
type MemoryDiff struct {
	Owner   string  `json:"owner"`
	Class   string  `json:"class"`
	Before  float64 `json:"before_bytes"`
	After   float64 `json:"after_bytes"`
	Noise   float64 `json:"noise_bytes"` // what two recordings of one build may differ by
	Verdict Verdict `json:"verdict"`
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
	return 0.001, 4 << 10
}

const processOwner = "process"

// compareMemory compares every class that all recordings have.
func compareMemory(a, b []*profile.Profile) []MemoryDiff {
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
			take(processOwner, p.Memory)
			for i := range p.Plans {
				if s := &p.Plans[i]; s.Ledger.Runs > 0 {
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
		d := MemoryDiff{Owner: k.owner, Class: k.class, Before: mean(x), After: mean(y), Verdict: Same}
		// Recordings of one side that lie further apart say so themselves.
		d.Noise = max(part*d.Before, least, slices.Max(x)-slices.Min(x), slices.Max(y)-slices.Min(y))
		if math.Abs(d.Delta()) > d.Noise {
			d.Verdict = MoreMemory
			if d.Delta() < 0 {
				d.Verdict = LessMemory
			}
		}
		out = append(out, d)
	}
	return out
}
