package compare

import (
	"math/rand/v2"
	"strings"
	"testing"

	"hotpath/profile"
	"hotpath/profile/report"
)

// holding is a recording whose process has these MiB resident.
func holding(rng *rand.Rand, mib map[string]float64) *profile.Profile {
	p := machines[0].record(rng, 60, asIs)
	p.Memory = map[string]int64{"weights": 100 << 20}
	p.Plans[0].MemoryBytes = map[string]int64{"activations": 8 << 20}
	p.Resident = &profile.Residency{}
	for owner, size := range mib {
		bytes := int64(size * (1 << 20))
		p.Resident.Bytes += bytes
		p.Resident.Owners = append(p.Resident.Owners, profile.MemoryOwner{Owner: owner, Bytes: bytes})
	}
	return p
}

// Memory is compared as it was resident if all recordings have that: what is laid out
// and never touched is no difference, and what is touched is one.
func TestCompareResidentMemory(t *testing.T) {
	before := map[string]float64{"weights, packed": 92, "embed activations": 21, "embed worker scratch": 0.8, "tokenizer": 2.4, "go heap, garbage": 18,
		"go heap, not in use": 2, "program": 17, "mapped file libLLVM-15.so.1": 41.6, "mapped file libc.so.6": 1.5, "mapped file model.gguf": 60, "(not known)": 0}
	for _, c := range []struct {
		name   string
		change map[string]float64 // MiB after
		want   string
	}{
		{"another recording", map[string]float64{"embed worker scratch": 0.4, "tokenizer": 0.7, "go heap, garbage": 25, "go heap, not in use": 9, "program": 18,
			"mapped file libLLVM-15.so.1": 42.1, "recorder": 0.6}, ""},
		{"weights packed twice", map[string]float64{"weights, packed": 184}, "all resident memory more memory; weights, packed more memory"},
		{"smaller activations", map[string]float64{"embed activations": 11}, "embed activations less memory"},
		{"a new owner", map[string]float64{"generate KV cache": 12}, "generate KV cache more memory"},
		{"a library", map[string]float64{"mapped file libcuda.so.1": 30}, "shared libraries more memory"},
		{"a file that is not touched", map[string]float64{"mapped file model.gguf": 10}, "all resident memory less memory; mapped file model.gguf less memory"},
	} {
		rng := rand.New(rand.NewPCG(59, 1))
		after := map[string]float64{}
		for owner, size := range before {
			after[owner] = size
		}
		for owner, size := range c.change {
			after[owner] = size
		}
		a, b := holding(rng, before), holding(rng, after)
		b.Plans[0].MemoryBytes["activations"] = 80 << 20 // laid out, whether it is touched or not
		cmp := compare(t, []*profile.Profile{a}, []*profile.Profile{b})
		var changed []string
		for i := range cmp.Memory {
			d := &cmp.Memory[i]
			if !d.Resident || d.Owner != processOwner {
				t.Errorf("%s: %+v is not resident memory of the process", c.name, *d)
			}
			if d.Changed() {
				changed = append(changed, d.Class+" "+string(d.Verdict))
			}
		}
		if got := strings.Join(changed, "; "); got != c.want {
			t.Errorf("%s: %q, expected %q", c.name, got, c.want)
		}
		var text strings.Builder
		if err := cmp.Text(&text, report.Options{}); err != nil || !strings.Contains(text.String(), "MEMORY  MiB of the process that were resident") {
			t.Errorf("%s: %v\n%s", c.name, err, text.String())
		}
		if says := cmp.Summary(); c.name == "weights packed twice" && !strings.Contains(says, "resident memory of weights, packed: 92.00 MiB became 184.00.") {
			t.Error(says)
		}
	}
}

// If one recording does not say what was resident, sizes as laid out are compared.
func TestCompareLaidOutMemory(t *testing.T) {
	rng := rand.New(rand.NewPCG(61, 1))
	a, b := holding(rng, map[string]float64{"weights, packed": 92}), holding(rng, map[string]float64{"weights, packed": 92})
	b.Resident, b.Plans[0].MemoryBytes["activations"] = nil, 80<<20
	c := compare(t, []*profile.Profile{a}, []*profile.Profile{b})
	if len(c.Memory) != 2 || c.Memory[0].Resident || c.Memory[0].Changed() || c.Memory[1].Class != "activations" || c.Memory[1].Verdict != MoreMemory {
		t.Errorf("%+v", c.Memory)
	}
	if note := c.MemoryNote(); !strings.Contains(note, "as laid out, touched or not") {
		t.Error(note)
	}
}

// Plans of a device lie in its memory and not in that of the process: their sizes are
// compared as laid out in any case.
func TestCompareMemoryOfDevices(t *testing.T) {
	rng := rand.New(rand.NewPCG(67, 1))
	a, b := holding(rng, map[string]float64{"program": 17}), holding(rng, map[string]float64{"program": 17})
	for i, p := range []*profile.Profile{a, b} {
		p.Plans[0].HostLanes, p.Plans[0].MemoryBytes["activations"] = 1, int64(8+4*i)<<20
	}
	c := compare(t, []*profile.Profile{a}, []*profile.Profile{b})
	last := c.Memory[len(c.Memory)-1]
	if last.Resident || last.Class != "activations" || last.Verdict != MoreMemory {
		t.Errorf("%+v", c.Memory)
	}
}

// Weights on a device are not resident either, and no plan has them.
func TestCompareWeightsOfDevices(t *testing.T) {
	for _, hostLanes := range []int{0, 1} {
		rng := rand.New(rand.NewPCG(71, 1))
		a, b := holding(rng, map[string]float64{"program": 17}), holding(rng, map[string]float64{"program": 17})
		b.Memory["weights"] = 200 << 20
		for _, p := range []*profile.Profile{a, b} {
			p.Plans[0].HostLanes = hostLanes
		}
		var rows []MemoryDiff
		for _, d := range compare(t, []*profile.Profile{a}, []*profile.Profile{b}).Memory {
			if d.Class == "weights" {
				rows = append(rows, d)
			}
		}
		if len(rows) != hostLanes {
			t.Errorf("%d host lanes: %d rows of weights: %+v", hostLanes, len(rows), rows)
		}
		for _, d := range rows {
			if d.Resident || d.Owner != processOwner || d.Before != 100<<20 || d.After != 200<<20 || d.Verdict != MoreMemory {
				t.Errorf("%+v", d)
			}
		}
	}
}
