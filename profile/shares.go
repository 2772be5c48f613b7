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
	// Pairs is the sum, over its tokens, of the tokens that each attends to. Rows is
	// the number of its tokens for which the run computes an output. Both are 0 in
	// profiles of older versions.
	Pairs int64 `json:"pairs,omitempty"`
	Rows  int   `json:"rows,omitempty"`
}

// RequestPart is a request's part of a step, a run or a recording. The cost of
// most steps is the same for every token. The cost of [Step.Ragged] steps depends
// on what each token attends to, and the cost of [Step.Rows] steps on the number
// of answers. Time includes waits.
//
// For a recording, time is wall-clock time: overlapping runs of a plan share it
// as [PlanStats.Elapsed] does, so that requests of coarse and of fine runs add
// up. For a single run, or one of its steps, it is the run's own wall time.
type RequestPart struct {
	Request string  `json:"request"`
	Runs    int64   `json:"runs"`
	Tokens  int64   `json:"tokens"`
	FLOPs   float64 `json:"flops"`
	Bytes   float64 `json:"bytes"`
	Time    float64 `json:"time_ns"`
}

func (p *RequestPart) addPart(o RequestPart) {
	p.Runs += o.Runs
	p.Tokens += o.Tokens
	p.FLOPs += o.FLOPs
	p.Bytes += o.Bytes
	p.Time += o.Time
}

// costBy is the quantity that the cost of a step grows with.
type costBy int

const (
	byTokens costBy = iota
	byPairs         // of tokens and those that they attend to
	byRows          // tokens that get an answer
	numCostBy
)

func (s *Step) costBy() costBy {
	switch {
	case s.Ragged:
		return byPairs
	case s.Rows:
		return byRows
	}
	return byTokens
}

// weights divides 1 among shares in proportion to by, or by tokens if no share
// has any of by.
func weights(shares []Share, by costBy) []float64 {
	w := make([]float64, len(shares))
	var all float64
	for i, s := range shares {
		switch {
		case by == byRows:
			w[i] = float64(s.Rows)
		case by == byPairs && s.Pairs > 0:
			w[i] = float64(s.Pairs)
		case by == byPairs:
			w[i] = float64(s.Tokens) * float64(max(s.Context, 1))
		default:
			w[i] = float64(s.Tokens)
		}
		all += w[i]
	}
	if all == 0 && by != byTokens {
		return weights(shares, byTokens)
	}
	for i := range w {
		if all > 0 {
			w[i] /= all
		}
	}
	return w
}

// allWeights is the weights of shares by all that costs grow with.
func allWeights(shares []Share) (w [numCostBy][]float64) {
	for by := range w {
		w[by] = weights(shares, costBy(by))
	}
	return w
}

// RequestParts returns each request's part of one step of a kept run. If step is
// -1, it returns the part of the whole run; time outside of steps is then divided
// by tokens.
func (p *Profile) RequestParts(r *RawRun, step int) []RequestPart {
	plan := &p.Plans[r.Plan].Plan
	out := make([]RequestPart, len(r.Shares))
	by := allWeights(r.Shares)
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
		give(by[plan.Steps[s].costBy()], r.FLOPs[s], r.Bytes[s], time)
	}
	if step < 0 {
		give(by[byTokens], 0, 0, rest)
	}
	for i, s := range r.Shares {
		out[i].Request, out[i].Runs, out[i].Tokens = s.Request, 1, int64(s.Tokens)
	}
	return out
}

// otherRequests takes in the requests beyond Options.Requests.
const otherRequests = "(other requests)"

// partFold sums the parts of requests; Recorder.mu is held. If runs overlap, a plan's
// share of the elapsed time is known only at the end, so times are kept per plan.
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

// addRun folds a run with shares. Runs without cost nothing.
func (f *partFold) addRun(plan *Plan, r *Run, costs []Cost) {
	by := allWeights(r.Shares)
	var sums [numCostBy]struct{ flops, bytes, time float64 }
	rest := float64(r.End - r.Start)
	kind := func(step int) costBy { return plan.Steps[step].costBy() }
	for s, c := range costs {
		sums[kind(s)].flops += float64(c.FLOPs)
		sums[kind(s)].bytes += float64(c.Bytes)
	}
	for j := range r.Lanes {
		l := &r.Lanes[j]
		for s, st := range l.Steps { // all 0 where the lane had no part
			time := float64(st.End-st.Arrive) / float64(len(r.Lanes))
			sums[kind(s)].time += time
			rest -= time
		}
	}
	sums[byTokens].time += rest
	for i, s := range r.Shares {
		part := RequestPart{Request: s.Request, Runs: 1, Tokens: int64(s.Tokens)}
		wall := 0.0
		for k := range sums {
			part.FLOPs += by[k][i] * sums[k].flops
			part.Bytes += by[k][i] * sums[k].bytes
			wall += by[k][i] * sums[k].time
		}
		at := f.part(s.Request)
		f.parts[at].addPart(part)
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

// onClock sets the time of parts: the wall time of their runs times the plan's share
// of the elapsed time.
func onClock(parts []RequestPart, times []planTime, share map[*Plan]float64) {
	for _, t := range times {
		parts[t.part].Time += t.wall * share[t.plan]
	}
	for i := range parts {
		parts[i].Time = max(0, parts[i].Time) // where stamps overlap by more than the request took
	}
}

// ByRequest lists each request's part of the runs that it shared, the longest
// first.
func (p *Profile) ByRequest() []RequestPart {
	if p.Requests == nil {
		return nil
	}
	out := slices.Clone(p.Requests.Parts)
	slices.SortStableFunc(out, func(a, b RequestPart) int { return cmp.Compare(b.Time, a.Time) })
	return out
}
