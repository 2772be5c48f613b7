package compare

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
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

// holds adds what owners hold to a recording, in MiB.
func holds(p *profile.Profile, mib map[string]float64) *profile.Profile {
	for i := range p.Resident.Owners {
		o := &p.Resident.Owners[i]
		o.Held = int64(mib[o.Owner] * (1 << 20))
	}
	return p
}

// Owners are compared by what they hold. How much of it they touched depends on the
// workers that took part and on the parallel mode: it is no difference, and it is shown.
func TestCompareHeldMemory(t *testing.T) {
	resident := map[string]float64{"weights, packed": 90, "embed activations": 2, "embed worker scratch": 0.6, "tokenizer": 2, "mapped file model.gguf": 60, "program": 17}
	held := map[string]float64{"weights, packed": 90, "embed activations": 4, "embed worker scratch": 12}
	for _, c := range []struct {
		name           string
		touched, holds map[string]float64 // after, where it differs
		want           string
	}{
		{"another recording", map[string]float64{"embed activations": 3.5, "embed worker scratch": 11}, nil, ""},
		{"untouched", map[string]float64{"embed worker scratch": 0}, nil, ""},
		{"twice the scratch", nil, map[string]float64{"embed worker scratch": 24}, "embed worker scratch more memory"},
		{"a little more", nil, map[string]float64{"embed activations": 4.1}, "embed activations more memory"},
		{"fewer activations, all touched", nil, map[string]float64{"embed activations": 2}, "embed activations less memory"},
		{"a new owner", map[string]float64{"generate KV cache": 0.1}, map[string]float64{"generate KV cache": 12}, "generate KV cache more memory"},
		{"a file that is not touched", map[string]float64{"mapped file model.gguf": 10}, nil, "all resident memory less memory; mapped file model.gguf less memory"},
	} {
		rng := rand.New(rand.NewPCG(73, 1))
		after, afterHolds := maps.Clone(resident), maps.Clone(held)
		maps.Copy(after, c.touched)
		maps.Copy(afterHolds, c.holds)
		cmp := compare(t, []*profile.Profile{holds(holding(rng, resident), held)}, []*profile.Profile{holds(holding(rng, after), afterHolds)})
		var changed []string
		for _, d := range cmp.Memory {
			if d.Changed() {
				changed = append(changed, d.Class+" "+string(d.Verdict))
			}
			known := afterHolds[d.Class] > 0
			if d.Held != known || d.Resident == known || known && (d.After != float64(int64(afterHolds[d.Class]*(1<<20))) || d.Touched[1] != float64(int64(after[d.Class]*(1<<20)))) {
				t.Errorf("%s: %+v", c.name, d)
			}
		}
		if got := strings.Join(changed, "; "); got != c.want {
			t.Errorf("%s: %q, expected %q", c.name, got, c.want)
		}
		if says := cmp.Summary(); c.name == "twice the scratch" && !strings.Contains(says, "memory held by embed worker scratch: 12.00 MiB became 24.00.") {
			t.Error(says)
		}
		var text strings.Builder
		if err := cmp.Text(&text, report.Options{}); err != nil || !strings.Contains(text.String(), "what owners allocated") || !strings.Contains(text.String(), "touched before") {
			t.Errorf("%s: %v\n%s", c.name, err, text.String())
		}
	}
}

// A recording of an earlier build does not say what owners held: with one, all are
// compared by what was resident.
func TestCompareHeldWithAnEarlierBuild(t *testing.T) {
	rng := rand.New(rand.NewPCG(79, 1))
	a := holding(rng, map[string]float64{"weights, packed": 92, "embed worker scratch": 1})
	b := holds(holding(rng, map[string]float64{"weights, packed": 184, "embed worker scratch": 1.5, "embed io": 0}), map[string]float64{"weights, packed": 184, "embed worker scratch": 12, "embed io": 8})
	for _, sides := range [][2][]*profile.Profile{{{a}, {b}}, {{b, a}, {b}}} {
		c := compare(t, sides[0], sides[1])
		for _, d := range c.Memory {
			if !d.Resident || d.Held || d.Touched != nil {
				t.Errorf("%+v, expected resident memory", d)
			}
			if more := len(sides[0]) == 1 && d.Class != "embed worker scratch" && d.Class != "embed io"; d.Changed() != more {
				t.Errorf("%+v", d)
			}
		}
	}
}

// Estimates from samples differ by what samples can: less if there are more recordings.
func TestSamplingNoise(t *testing.T) {
	one, ten := []float64{8 << 20}, slices.Repeat([]float64{8 << 20}, 10)
	single, many := samplingNoise(one, one), samplingNoise(ten, ten)
	if single < 9<<20 || single > 10<<20 || math.Abs(many*math.Sqrt(10)/single-1) > 1e-9 {
		t.Errorf("noise %.0f of one recording per side and %.0f of ten", single, many)
	}
	for _, c := range []struct {
		before, after float64 // MiB, estimated from samples
		want          Verdict
	}{{4, 9, Same}, {0.5, 8, MoreMemory}, {8, 25, MoreMemory}, {200, 250, Same}} {
		rng := rand.New(rand.NewPCG(83, 1))
		a, b := holding(rng, map[string]float64{"kernels and tables": c.before}), holding(rng, map[string]float64{"kernels and tables": c.after})
		for _, d := range compare(t, []*profile.Profile{a}, []*profile.Profile{b}).Memory {
			if d.Class == "kernels and tables" && d.Verdict != c.want {
				t.Errorf("%g MiB became %g: %+v, expected %s", c.before, c.after, d, c.want)
			}
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

// An owner that has the name of the sum, as only a file that somebody made has, does not
// take its place.
func TestOwnerWithTheNameOfTheSum(t *testing.T) {
	rng := rand.New(rand.NewPCG(61, 1))
	a, b := holding(rng, map[string]float64{allResident: 10, "tokenizer": 100}), holding(rng, map[string]float64{allResident: 50, "tokenizer": 100})
	want := map[string][2]float64{allResident: {110, 150}, "owner " + allResident: {10, 50}, "tokenizer": {100, 100}}
	rows := compareMemory([]*profile.Profile{a}, []*profile.Profile{b})
	for _, d := range rows {
		if got := [2]float64{d.Before / (1 << 20), d.After / (1 << 20)}; got != want[d.Class] {
			t.Errorf("%s has %v MiB, expected %v", d.Class, got, want[d.Class])
		}
	}
	if len(rows) != len(want) {
		t.Errorf("%d rows, expected %d", len(rows), len(want))
	}
}
