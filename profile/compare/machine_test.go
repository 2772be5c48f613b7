package compare

import (
	"fmt"
	"math"
	"math/rand/v2"

	"hotpath/profile"
)

// machine is a simulated one, on which recordings differ for every reason that
// real ones do. All are standard deviations of logarithms.
type machine struct {
	name string
	// Of a whole recording: all steps, one kind, one step.
	recording, kind, step float64
	// Within a recording: drift of all steps and of one kind, with the number of
	// runs in which it is forgotten; each step of each run; and how many times a
	// run loses its processor, for a Pareto-distributed time.
	drift, kindDrift, memory, run, interrupt float64
	// burst is how often a neighbour begins to work in a run. It stays for some
	// runs and slows what reads memory more than what multiplies.
	burst float64
	// marks: the system shows which calls lost their processor, and for how long.
	marks bool
}

var machines = []machine{
	{"quiet", 0.01, 0.003, 0.003, 0.01, 0.003, 10, 0.02, 0.01, 0, false},
	{"shared", 0.05, 0.015, 0.01, 0.05, 0.02, 20, 0.04, 0.05, 0, false},
	{"drifting", 0.05, 0.01, 0.01, 0.10, 0.03, 200, 0.05, 0.02, 0, false},
	{"noisy", 0.10, 0.03, 0.02, 0.10, 0.05, 30, 0.15, 0.2, 0, false},
	{"bursts", 0.03, 0.01, 0.01, 0.03, 0.01, 20, 0.03, 0.05, 0.04, false},
}

// hurt is by how much a burst slows an op.
var hurt = map[string]float64{"linear": 0.25, "attention": 0.35, "norm": 0.6, "gelu": 0.4, "add": 0.6}

// simKinds is an encoder layer: op, wall time in microseconds, per layer.
var simKinds = []struct {
	op string
	us float64
}{{"linear", 900}, {"linear", 300}, {"linear", 1200}, {"linear", 1200}, {"attention", 400}, {"norm", 60}, {"norm", 60}, {"gelu", 90}, {"add", 30}}

const simLayers = 6

func simPlan() profile.Plan {
	p := profile.Plan{ID: "embed/embed/T4096", Name: "embed T≤4096", Model: "sim", Backend: "cpu", Phase: "embed", Lanes: []string{"worker 0", "worker 1"}}
	add := func(name, op string, layer int) {
		p.Steps = append(p.Steps, profile.Step{ID: len(p.Steps), Name: name, Op: op, Kernel: op, Layer: layer})
	}
	add("embed/tokens", "gather", -1)
	for l := range simLayers {
		for k, kind := range simKinds {
			add(fmt.Sprintf("blk.%d/%s%d", l, kind.op, k), kind.op, l)
		}
	}
	add("pool", "pool", -1)
	return p
}

func simTime(p *profile.Plan, step int) float64 {
	if p.Steps[step].Layer < 0 {
		return 50e3
	}
	return simKinds[(step-1)%len(simKinds)].us * 1e3
}

// record simulates a recording. slow multiplies the time of steps.
func (m *machine) record(rng *rand.Rand, runs int, slow func(*profile.Step) float64) *profile.Profile {
	sizes := make([]int, runs)
	for i := range sizes {
		sizes[i] = simTokens
	}
	return m.recordSizes(rng, sizes, slow)
}

// simTokens is the usual batch.
const simTokens = 4096

// recordSizes is record with batches of so many tokens. A quarter of the time of
// a run does not depend on its tokens.
func (m *machine) recordSizes(rng *rand.Rand, sizes []int, slow func(*profile.Step) float64) *profile.Profile {
	p := simPlan()
	steps := len(p.Steps)
	s := profile.PlanStats{Plan: p, ByLane: make([]profile.LaneLedger, 2), Stats: make([]profile.StepStats, steps)}
	sample := &profile.RunSamples{Every: 1, Steps: make([]profile.StepSamples, steps)}
	normal := func(sd float64) float64 { return rng.NormFloat64() * sd }
	all := normal(m.recording)
	kind, kindDrift := map[string]float64{}, map[string]float64{}
	var ops []string
	luck := make([]float64, steps)
	for i := range p.Steps {
		if _, ok := kind[p.Steps[i].Op]; !ok {
			ops = append(ops, p.Steps[i].Op)
			kind[p.Steps[i].Op] = normal(m.kind)
			kindDrift[p.Steps[i].Op] = normal(m.kindDrift)
		}
		luck[i] = normal(m.step)
		s.Stats[i].LaneCompute, s.Stats[i].LaneWait = make([]int64, 2), make([]int64, 2)
	}
	keep := math.Exp(-1 / m.memory)
	fresh := math.Sqrt(1 - keep*keep)
	drift := normal(m.drift)
	bursting := 0
	for _, tokens := range sizes {
		part := float64(tokens) / simTokens
		flops, bytes := int64(1e6*part), int64(1e5*(0.25+0.75*part))
		if bursting--; bursting < 0 && rng.Float64() < m.burst {
			bursting = int(8 * rng.ExpFloat64())
		}
		drift = keep*drift + fresh*normal(m.drift)
		var busy, waited int64
		for _, op := range ops {
			kindDrift[op] = keep*kindDrift[op] + fresh*normal(m.kindDrift)
		}
		victims := map[int]int{}
		for n := m.interrupt; n > 0; n-- {
			if rng.Float64() < n {
				victims[rng.IntN(steps)]++
			}
		}
		for i := range p.Steps {
			op := p.Steps[i].Op
			t := simTime(&p, i) * (0.25 + 0.75*part) * math.Exp(all+kind[op]+luck[i]+drift+kindDrift[op]+normal(m.run)) * slow(&p.Steps[i])
			if bursting >= 0 && m.burst > 0 {
				t *= 1 + hurt[op]
			}
			on := t
			for range victims[i] {
				t += 200e3 / math.Pow(rng.Float64(), 0.8)
			}
			compute, wait := int64(2*t), int64(0.05*t*rng.ExpFloat64())
			st := &s.Stats[i]
			if m.marks {
				off := compute - int64(2*on)
				sample.Steps[i].OffCPU = append(sample.Steps[i].OffCPU, off)
				st.OffCPU += off
				s.Ledger.OffCompute += off
			}
			st.Calls++
			st.FLOPs += flops
			st.Bytes += bytes
			sample.Steps[i].FLOPs = append(sample.Steps[i].FLOPs, flops)
			sample.Steps[i].Bytes = append(sample.Steps[i].Bytes, bytes)
			st.LaneCompute[0] += compute
			st.LaneWait[0] += wait
			sample.Steps[i].Compute = append(sample.Steps[i].Compute, compute)
			sample.Steps[i].Wait = append(sample.Steps[i].Wait, wait)
			busy += compute
			waited += wait
		}
		wall := (busy + waited) / 2
		sample.Wall = append(sample.Wall, wall)
		sample.Tokens = append(sample.Tokens, int64(tokens))
		s.Tokens += int64(tokens)
		s.Ledger.Runs++
		s.Ledger.Wall += wall
		s.Ledger.LaneTime += 2 * wall
		s.Ledger.Compute += busy
		s.Ledger.Barrier += waited
	}
	s.Samples, s.ExactSwitches = sample, m.marks
	return &profile.Profile{Format: profile.Format, Version: profile.Version, Plans: []profile.PlanStats{s}, Ledger: s.Ledger}
}

func (m *machine) records(rng *rand.Rand, n, runs int, slow func(*profile.Step) float64) []*profile.Profile {
	out := make([]*profile.Profile, n)
	for i := range out {
		out[i] = m.record(rng, runs, slow)
	}
	return out
}
