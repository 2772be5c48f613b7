package profile

import "slices"

// RunSamples is single runs spread evenly over a recording, step by step: what
// [Compare] draws its statistics from. The aggregates say how much, the samples
// how surely.
type RunSamples struct {
	Every  int64         `json:"every"`   // one run of so many
	Wall   []int64       `json:"wall_ns"` // [sample]
	Tokens []int64       `json:"tokens"`  // [sample]
	Steps  []StepSamples `json:"steps"`   // [step]
}

// StepSamples is one step in the sampled runs, in lane time. FLOPs, Bytes and OffCPU
// have one value where all samples have the same.
type StepSamples struct {
	Compute []int64 `json:"compute_ns"` // [sample]
	// OffCPU is how much of Compute had no processor, measured call by call: [sample],
	// or [1]. It is empty if the system does not mark threads that lose their processor.
	OffCPU []int64 `json:"off_cpu_ns,omitempty"`
	Wait   []int64 `json:"wait_ns"` // [sample]
	FLOPs  []int64 `json:"flops"`   // [sample], or [1]
	Bytes  []int64 `json:"bytes"`   // [sample], or [1]
}

// OnCPU is the time on a processor of one sample: what the step itself took, however
// many programs share the machine. If it is not known, it is the whole time.
func (s *StepSamples) OnCPU(sample int) int64 {
	switch len(s.OffCPU) {
	case 0:
		return s.Compute[sample]
	case 1:
		return s.Compute[sample] - s.OffCPU[0]
	}
	return s.Compute[sample] - s.OffCPU[sample]
}

// maxSamples bounds the sampled runs per plan. When it is reached, every second
// sample is dropped, and from then on only every second run is sampled. So
// samples stay evenly spread over a recording of any length.
const maxSamples = 128

// sampler keeps the samples of a plan in memory that is there from the start.
type sampler struct {
	steps, keep int
	every       int64
	n           int
	wall        []int64      // [sample]
	tokens      []int64      // [sample]
	values      []stepSample // [sample][step]
	burn        []int64      // [sample][step], of canaries; nil unless asked for
}

type stepSample struct{ compute, off, wait, flops, bytes int64 }

func newSampler(steps, events int, canary bool) *sampler {
	keep := min(maxSamples, events/steps) &^ 1
	s := &sampler{steps: steps, keep: keep, every: 1,
		wall: make([]int64, keep), tokens: make([]int64, keep), values: make([]stepSample, keep*steps)}
	if canary {
		s.burn = make([]int64, keep*steps)
	}
	return s
}

// addRun samples a run if its turn has come.
func (s *sampler) addRun(r *Run, costs []Cost) {
	if s.keep == 0 || r.index%s.every != 0 {
		return
	}
	if s.n == s.keep {
		for i := range s.n / 2 {
			s.wall[i], s.tokens[i] = s.wall[2*i], s.tokens[2*i]
			copy(s.values[i*s.steps:(i+1)*s.steps], s.values[2*i*s.steps:])
			if s.burn != nil {
				copy(s.burn[i*s.steps:(i+1)*s.steps], s.burn[2*i*s.steps:])
			}
		}
		s.n /= 2
		s.every *= 2
		if r.index%s.every != 0 {
			return
		}
	}
	s.wall[s.n], s.tokens[s.n] = r.End-r.Start, int64(r.Tokens)
	if s.burn != nil {
		copy(s.burn[s.n*s.steps:(s.n+1)*s.steps], r.burn)
	}
	row := s.values[s.n*s.steps : (s.n+1)*s.steps]
	for k := range row {
		row[k] = stepSample{flops: costs[k].FLOPs, bytes: costs[k].Bytes}
	}
	for i := range r.Lanes {
		l := &r.Lanes[i]
		for k := range row {
			if l.Steps[k].Begin == 0 {
				continue
			}
			row[k].compute += l.Steps[k].End - l.Steps[k].Begin
			row[k].wait += l.Steps[k].Begin - l.Steps[k].Arrive
			if l.exact && l.marked(k) {
				row[k].off += l.off[k]
			}
		}
	}
	s.n++
}

// snapshot copies the samples. exact: the system marks threads that lose their
// processor.
func (s *sampler) snapshot(exact bool) *RunSamples {
	if s.n == 0 {
		return nil
	}
	out := &RunSamples{Every: s.every, Wall: slices.Clone(s.wall[:s.n]), Tokens: slices.Clone(s.tokens[:s.n]), Steps: make([]StepSamples, s.steps)}
	column := func(step int, value func(*stepSample) int64) []int64 {
		v := make([]int64, s.n)
		for i := range v {
			v[i] = value(&s.values[i*s.steps+step])
		}
		return v
	}
	for k := range out.Steps {
		out.Steps[k] = StepSamples{
			Compute: column(k, func(v *stepSample) int64 { return v.compute }),
			Wait:    column(k, func(v *stepSample) int64 { return v.wait }),
			FLOPs:   collapsed(column(k, func(v *stepSample) int64 { return v.flops })),
			Bytes:   collapsed(column(k, func(v *stepSample) int64 { return v.bytes })),
		}
		if exact {
			out.Steps[k].OffCPU = collapsed(column(k, func(v *stepSample) int64 { return v.off }))
		}
	}
	return out
}

// collapsed is one value where all are the same.
func collapsed(v []int64) []int64 {
	for _, x := range v {
		if x != v[0] {
			return v
		}
	}
	return v[:1:1]
}

// least is the smallest of values and 0.
func least(v []int64) int64 {
	if len(v) == 0 {
		return 0
	}
	return min(0, slices.Min(v))
}

// Samples returns the samples of plan i. For files older than samples it computes
// them from the kept runs.
func (p *Profile) Samples(i int) *RunSamples {
	plan := &p.Plans[i]
	if plan.Samples != nil {
		return plan.Samples
	}
	out := &RunSamples{Every: 1, Steps: make([]StepSamples, len(plan.Steps))}
	for j := range p.Runs {
		r := &p.Runs[j]
		if r.Plan != i {
			continue
		}
		out.Wall = append(out.Wall, r.End-r.Start)
		out.Tokens = append(out.Tokens, int64(r.Tokens))
		for k := range out.Steps {
			st := &out.Steps[k]
			var compute, wait int64
			for l := range r.Lanes {
				lane := &r.Lanes[l]
				compute += lane.End[k] - lane.Begin[k]
				wait += lane.Begin[k] - lane.Arrive[k]
			}
			st.Compute, st.Wait = append(st.Compute, compute), append(st.Wait, wait)
			st.FLOPs, st.Bytes = append(st.FLOPs, r.FLOPs[k]), append(st.Bytes, r.Bytes[k])
		}
	}
	return out
}
