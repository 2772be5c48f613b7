package profile

import (
	"io"
	"strings"

	pprof "github.com/google/pprof/profile"
)

// writePprof writes what go tool pprof reads. The time of a sample is lane
// time, so the total is the ledger's lane time: waits, dispatch, idle and the
// residual are leaves in parentheses. A stack is the model, the scopes of the
// step's name, the op and the kernel; a fused step is divided among its nodes.
func writePprof(w io.Writer, p *Profile) error {
	b := newPprofBuilder(p)
	requests := requestRuns(p)
	for i := range p.Plans {
		b.addPlan(&p.Plans[i], requests[i])
	}
	return b.out.Write(w)
}

// stepValues is what one sample of a step is made of.
type stepValues struct{ calls, compute, wait, flops, bytes int64 }

func (v *stepValues) add(o stepValues, sign int64) {
	v.calls += sign * o.calls
	v.compute += sign * o.compute
	v.wait += sign * o.wait
	v.flops += sign * o.flops
	v.bytes += sign * o.bytes
}

// requestShare is the part of a plan's steps that kept runs of one request
// have; the rest of the aggregate has no request label.
type requestShare struct {
	request string
	steps   []stepValues // [step]
}

// requestRuns sums the kept runs by plan and request, in order of appearance.
func requestRuns(p *Profile) [][]*requestShare {
	out := make([][]*requestShare, len(p.Plans))
	index := make([]map[string]*requestShare, len(p.Plans))
	for i := range p.Runs {
		r := &p.Runs[i]
		if r.Request == "" {
			continue
		}
		if index[r.Plan] == nil {
			index[r.Plan] = map[string]*requestShare{}
		}
		share := index[r.Plan][r.Request]
		if share == nil {
			share = &requestShare{r.Request, make([]stepValues, len(r.FLOPs))}
			index[r.Plan][r.Request] = share
			out[r.Plan] = append(out[r.Plan], share)
		}
		for s := range share.steps {
			v := stepValues{calls: 1, flops: r.FLOPs[s], bytes: r.Bytes[s]}
			for j := range r.Lanes {
				l := &r.Lanes[j]
				v.compute += l.End[s] - l.Begin[s]
				v.wait += l.Begin[s] - l.Arrive[s]
			}
			share.steps[s].add(v, 1)
		}
	}
	return out
}

const noStepLayer = -1

type pprofBuilder struct {
	out       *pprof.Profile
	locations map[string]*pprof.Location
}

func newPprofBuilder(p *Profile) *pprofBuilder {
	nanos := &pprof.ValueType{Type: "time", Unit: "nanoseconds"}
	model := p.Facts.Model
	if model == "" {
		model = "hotpath"
	}
	// A mapping that says it has its symbols keeps pprof from looking for a
	// binary.
	mapping := &pprof.Mapping{ID: 1, Start: 1, Limit: 1 << 32, File: model,
		HasFunctions: true, HasFilenames: true, HasLineNumbers: true, HasInlineFrames: true}
	return &pprofBuilder{locations: map[string]*pprof.Location{}, out: &pprof.Profile{
		SampleType: []*pprof.ValueType{
			{Type: "samples", Unit: "count"}, nanos, {Type: "bytes", Unit: "bytes"}, {Type: "flops", Unit: "count"},
		},
		DefaultSampleType: "time", PeriodType: nanos, Period: 1,
		TimeNanos: p.Created.UnixNano(), DurationNanos: p.End - p.Start,
		Mapping: []*pprof.Mapping{mapping},
	}}
}

func (b *pprofBuilder) addPlan(plan *PlanStats, requests []*requestShare) {
	for i := range plan.Stats {
		st := &plan.Stats[i]
		rest := stepValues{st.Calls, sum(st.LaneCompute), sum(st.LaneWait), st.FLOPs, st.Bytes}
		for _, r := range requests {
			b.addStep(plan, i, r.request, r.steps[i])
			rest.add(r.steps[i], -1)
		}
		b.addStep(plan, i, "", rest)
	}
	l := &plan.Ledger
	for _, e := range []struct {
		name string
		time int64
	}{{"(dispatch)", l.Dispatch}, {"(idle)", l.Idle}, {"(residual)", l.Residual}} {
		if e.time != 0 {
			b.sample([]string{plan.modelName(), e.name}, noStepLayer, labels(plan, "", ""), l.Runs, e.time, 0, 0)
		}
	}
}

func (b *pprofBuilder) addStep(plan *PlanStats, step int, request string, v stepValues) {
	if v == (stepValues{}) {
		return
	}
	s := &plan.Steps[step]
	nodes := s.parts()
	compute, flops, bytes := divide(v.compute, nodes), divide(v.flops, nodes), divide(v.bytes, nodes)
	for i, n := range nodes {
		b.sample(stack(plan, s, n), s.Layer, labels(plan, n.Op, request), v.calls, compute[i], bytes[i], flops[i])
	}
	if v.wait != 0 {
		n := Node{Name: s.Name, Op: s.Op}
		b.sample(append(path(plan, n), "(barrier wait)"), s.Layer, labels(plan, s.Op, request), v.calls, v.wait, 0, 0)
	}
}

// path is the frames from the model down to the op.
func path(plan *PlanStats, n Node) []string {
	frames := []string{plan.modelName()}
	for _, part := range append(strings.Split(n.Name, "/"), n.Op) {
		if part != "" && part != frames[len(frames)-1] {
			frames = append(frames, part)
		}
	}
	return frames
}

func stack(plan *PlanStats, s *Step, n Node) []string {
	frames := path(plan, n)
	if s.Kernel != "" && s.Kernel != frames[len(frames)-1] {
		frames = append(frames, s.Kernel)
	}
	return frames
}

// labels has what a sample can be selected by. The layer is not among them: it
// is a number to pprof, whose -tagfocus=layer=3 matches numeric labels only.
func labels(plan *PlanStats, op, request string) map[string][]string {
	l := map[string][]string{}
	set := func(key, value string) {
		if value != "" {
			l[key] = []string{value}
		}
	}
	set("phase", plan.Phase)
	set("device", plan.deviceName())
	set("op", op)
	set("request", request)
	return l
}

// sample adds one sample; frames come root first.
func (b *pprofBuilder) sample(frames []string, layer int, labels map[string][]string, count, time, bytes, flops int64) {
	locations := make([]*pprof.Location, len(frames))
	for i, f := range frames {
		locations[len(frames)-1-i] = b.location(f)
	}
	s := &pprof.Sample{Location: locations, Label: labels, Value: []int64{count, time, bytes, flops}}
	if layer >= 0 {
		// Without a unit, layer 0 would be an empty field and vanish.
		s.NumLabel = map[string][]int64{"layer": {int64(layer)}}
		s.NumUnit = map[string][]string{"layer": {"count"}}
	}
	b.out.Sample = append(b.out.Sample, s)
}

func (b *pprofBuilder) location(name string) *pprof.Location {
	if l := b.locations[name]; l != nil {
		return l
	}
	id := uint64(len(b.out.Location) + 1)
	f := &pprof.Function{ID: id, Name: name, SystemName: name}
	l := &pprof.Location{ID: id, Mapping: b.out.Mapping[0], Address: id, Line: []pprof.Line{{Function: f}}}
	b.locations[name] = l
	b.out.Function = append(b.out.Function, f)
	b.out.Location = append(b.out.Location, l)
	return l
}
