package profile

import (
	"cmp"
	"slices"
)

// Share is the part that one request has in a run of several.
type Share struct {
	Request string `json:"request"`
	Tokens  int    `json:"tokens"`  // of it in the run
	Context int    `json:"context"` // tokens that they attend to, at the end of the run
}

// RequestPart is what a request took of a step, a run or a recording. Most
// steps cost alike for every token; those that are [Step.Ragged], by what each
// token attends to. Time has waits in it. Of a recording it is on the clock:
// runs of a plan that were in flight side by side share it as [PlanStats.Elapsed]
// says, so that requests of coarse and of fine runs add up. Of a single run, or a
// step of it, it is the run's own wall time.
type RequestPart struct {
	Request string  `json:"request"`
	Runs    int64   `json:"runs"`
	Tokens  int64   `json:"tokens"`
	FLOPs   float64 `json:"flops"`
	Bytes   float64 `json:"bytes"`
	Time    float64 `json:"time_ns"`
}

func (p *RequestPart) add(o RequestPart) {
	p.Runs += o.Runs
	p.Tokens += o.Tokens
	p.FLOPs += o.FLOPs
	p.Bytes += o.Bytes
	p.Time += o.Time
}

// weights divides 1 among shares: by tokens, or by tokens and their context.
func weights(shares []Share, ragged bool) []float64 {
	w := make([]float64, len(shares))
	var all float64
	for i, s := range shares {
		w[i] = float64(s.Tokens)
		if ragged {
			w[i] *= float64(max(s.Context, 1))
		}
		all += w[i]
	}
	for i := range w {
		if all > 0 {
			w[i] /= all
		}
	}
	return w
}

// RequestParts is what each request took of one step of a kept run, or of all
// of it where step is -1: then what no step explains is divided by tokens.
func (p *Profile) RequestParts(r *RawRun, step int) []RequestPart {
	plan := &p.Plans[r.Plan].Plan
	out := make([]RequestPart, len(r.Shares))
	even, ragged := weights(r.Shares, false), weights(r.Shares, true)
	rest := float64(r.End - r.Start)
	give := func(w []float64, flops, bytes int64, time float64) {
		for i := range out {
			out[i].FLOPs += w[i] * float64(flops)
			out[i].Bytes += w[i] * float64(bytes)
			out[i].Time += w[i] * time
		}
	}
	for s := range plan.Steps {
		var lane int64
		for j := range r.Lanes {
			if l := &r.Lanes[j]; l.Begin[s] != 0 {
				lane += l.End[s] - l.Arrive[s]
			}
		}
		time := float64(lane) / float64(len(r.Lanes))
		rest -= time
		if step >= 0 && s != step {
			continue
		}
		w := even
		if plan.Steps[s].Ragged {
			w = ragged
		}
		give(w, r.FLOPs[s], r.Bytes[s], time)
	}
	if step < 0 {
		give(even, 0, 0, rest)
	}
	for i, s := range r.Shares {
		out[i].Request, out[i].Runs, out[i].Tokens = s.Request, 1, int64(s.Tokens)
	}
	return out
}

// otherRequests takes in the requests beyond Options.Requests.
const otherRequests = "(other requests)"

// partFold sums the parts of requests; Recorder.mu is held. How much of the time
// of its runs a plan has on the clock is known at the end, so times are kept by
// plan until then.
type partFold struct {
	limit int
	index map[string]int
	parts []RequestPart // Time is 0
	plans map[planPart]int
	times []planTime
}

type planPart struct {
	part int
	plan *Plan
}

type planTime struct {
	planPart
	wall float64 // of runs that may have been side by side
}

func newPartFold(limit int) partFold {
	return partFold{limit: limit, index: map[string]int{}, plans: map[planPart]int{}}
}

// add folds a run with shares. Runs without cost nothing.
func (f *partFold) add(plan *Plan, r *Run) {
	even, ragged := weights(r.Shares, false), weights(r.Shares, true)
	// Of steps that cost alike for every token, and of ragged ones.
	var sums [2]struct{ flops, bytes, time float64 }
	rest := float64(r.End - r.Start)
	kind := func(step int) int {
		if plan.Steps[step].Ragged {
			return 1
		}
		return 0
	}
	for s, c := range r.Costs {
		sums[kind(s)].flops += float64(c.FLOPs)
		sums[kind(s)].bytes += float64(c.Bytes)
	}
	for j := range r.Lanes {
		l := &r.Lanes[j]
		left := l.Wake
		for s, b := range l.Begin {
			if b == 0 {
				continue
			}
			time := float64(l.End[s]-l.arrival(s, left)) / float64(len(r.Lanes))
			left = l.End[s]
			sums[kind(s)].time += time
			rest -= time
		}
	}
	sums[0].time += rest
	for i, s := range r.Shares {
		part := RequestPart{Request: s.Request, Runs: 1, Tokens: int64(s.Tokens)}
		wall := 0.0
		for k, w := range [2]float64{even[i], ragged[i]} {
			part.FLOPs += w * sums[k].flops
			part.Bytes += w * sums[k].bytes
			wall += w * sums[k].time
		}
		at := f.part(s.Request)
		f.parts[at].add(part)
		key := planPart{at, plan}
		t, ok := f.plans[key]
		if !ok {
			t = len(f.times)
			f.plans[key] = t
			f.times = append(f.times, planTime{planPart: key})
		}
		f.times[t].wall += wall
	}
}

// part is the index of a request's part.
func (f *partFold) part(request string) int {
	i, ok := f.index[request]
	if !ok {
		if len(f.parts) > f.limit {
			return f.limit // the last is for all others
		}
		if len(f.parts) == f.limit {
			request = otherRequests
		}
		i = len(f.parts)
		f.index[request] = i
		f.parts = append(f.parts, RequestPart{Request: request})
	}
	return i
}

// onClock gives parts their time, from the wall time of runs and from the share
// of it that each plan has on the clock.
func onClock(parts []RequestPart, times []planTime, share map[*Plan]float64) {
	for _, t := range times {
		parts[t.part].Time += t.wall * share[t.plan]
	}
}

// ByRequest lists what each request took of the runs that it shared, the
// longest first.
func (p *Profile) ByRequest() []RequestPart {
	if p.Requests == nil {
		return nil
	}
	out := slices.Clone(p.Requests.Parts)
	slices.SortStableFunc(out, func(a, b RequestPart) int { return cmp.Compare(b.Time, a.Time) })
	return out
}
