package profile

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"hotpath/profile/internal/table"
)

// RoofSplit splits the time of a step by cause: Clock = Ideal + Cache + Neighbour
// + Kernel. A negative Kernel means that the step was faster than the roofline
// allows. The report lists it as a contradiction.
type RoofSplit struct {
	Ideal     int64 `json:"ideal_ns"`     // at the best ceilings of the recording, all values in the nearest cache
	Cache     int64 `json:"cache_ns"`     // because weights and state come from farther away
	Neighbour int64 `json:"neighbour_ns"` // because the machine gave less than its best, or no processor
	Kernel    int64 `json:"kernel_ns"`    // the rest: what another kernel could win
}

// roofline is the sampled ceilings, of a number of lanes at once.
type roofline struct {
	lanes float64
	flops map[string]*ProbeStats
	reads []*ProbeStats // the nearest level first
	moves map[*ProbeStats]float64
}

// leastProbes is how many samples of a ceiling are needed before it is one.
const leastProbes = 3

func newRoofline(stats []ProbeStats, lanes float64) *roofline {
	r := &roofline{lanes: lanes, flops: map[string]*ProbeStats{}, moves: map[*ProbeStats]float64{}}
	for i := range stats {
		switch s := &stats[i]; {
		case s.Count < leastProbes:
			continue
		case s.Class != "":
			r.flops[s.Class] = s
		default:
			r.reads = append(r.reads, s)
		}
		r.moves[&stats[i]] = stats[i].moves()
	}
	if r.flops["f32"] == nil || len(r.reads) == 0 {
		return nil
	}
	far := func(s *ProbeStats) uint64 { return uint64(s.UpTo) - 1 } // 0 is the farthest
	slices.SortFunc(r.reads, func(a, b *ProbeStats) int {
		if far(a) < far(b) {
			return -1
		}
		return 1
	})
	return r
}

// level returns the memory level that holds a working set of one lane.
func (r *roofline) level(bytes int64) *ProbeStats {
	for _, s := range r.reads {
		if s.UpTo == 0 || bytes <= s.UpTo {
			return s
		}
	}
	return r.reads[len(r.reads)-1]
}

// work is the total work of a step over all its calls.
type work struct {
	class       string
	flops       int64
	cold, warm  int64 // bytes from as far as the run reaches, and of the step alone
	near, reach int64 // working sets of one lane: the step's own values, and all of a run
}

// floor is the minimum time of the work in nanoseconds, for one of a ceiling's
// rates. hot: all bytes are at the same memory level as the step's own values.
func (r *roofline) floor(w *work, rate func(*ProbeStats) float64, hot bool) float64 {
	peak := r.flops[w.class]
	if peak == nil {
		peak = r.flops["f32"]
	}
	near := r.level(w.near)
	reach := r.level(w.reach)
	if hot {
		reach = near
	}
	bytes := float64(w.warm)/rate(near) + float64(w.cold)/rate(reach)
	return max(float64(w.flops)/rate(peak), bytes) / r.lanes * 1e9
}

func lowest(s *ProbeStats) float64   { return s.Low }
func middleOf(s *ProbeStats) float64 { return s.Median }
func highest(s *ProbeStats) float64  { return s.High }
func bestOf(s *ProbeStats) float64   { return s.Best }

// place computes the step's floor, with the interval of the ceilings, and its lost
// time, and splits its time by cause. moved is how far runs move.
func (r *roofline) place(st *StepStats, w *work, moved float64) {
	ns := func(rate func(*ProbeStats) float64, hot bool) int64 { return int64(math.Round(r.floor(w, rate, hot))) }
	st.Floor, st.FloorLow, st.FloorHigh = ns(middleOf, false), ns(highest, false), ns(lowest, false)
	st.Lost = st.Clock - st.OffClock - st.Floor
	r.predict(st, w, moved)
	ideal, best := ns(bestOf, true), ns(bestOf, false)
	st.Roof = &RoofSplit{Ideal: ideal, Cache: best - ideal, Neighbour: st.Floor - best + st.OffClock}
	st.Roof.Kernel = st.Clock - st.Roof.Ideal - st.Roof.Cache - st.Roof.Neighbour
}

// workOf returns the work of a step of the plan. reach is the working set of the
// plan's runs.
func workOf(s *PlanStats, step int, reach int64) *work {
	def, st := &s.Steps[step], &s.Stats[step]
	lanes := int64(s.stepLanes(def))
	w := &work{class: def.Class, flops: st.FLOPs, cold: st.Bytes, reach: reach}
	if !def.State {
		w.cold = min(st.Bytes, st.Calls*def.Weights)
	}
	w.warm = st.Bytes - w.cold
	if st.Calls > 0 {
		w.near = w.warm / st.Calls / lanes
	}
	return w
}

// reach is the working set of one run of the plan, in bytes per lane: its weights, and
// the state that steps read.
func (s *PlanStats) reach() int64 {
	var bytes int64
	for i := range s.Steps {
		st := &s.Stats[i]
		switch {
		case st.Calls == 0:
		case s.Steps[i].State:
			bytes += st.Bytes / st.Calls
		default:
			bytes += min(s.Steps[i].Weights, st.Bytes/st.Calls)
		}
	}
	return bytes / int64(len(s.Lanes))
}

// Contradictions names the steps that were faster than the roofline allows, even at
// the highest of its ceilings: there the bytes, the FLOPs or the ceilings are wrong.
func (p *Profile) Contradictions() []string {
	var out []string
	for i := range p.Plans {
		s := &p.Plans[i]
		for k := range s.Stats {
			st := &s.Stats[k]
			if st.FloorLow <= 0 || float64(st.Clock) >= contradiction*float64(st.FloorLow) {
				continue
			}
			out = append(out, fmt.Sprintf("%s of %s took %s ms, the roofline allows %s to %s: it moves fewer bytes than counted, reads them from a nearer cache, or its ceiling was measured too low",
				s.Steps[k].Name, cmp.Or(s.Name, s.ID), table.Ms(st.Clock), table.Ms(st.FloorLow), table.Ms(st.FloorHigh)))
		}
	}
	return out
}

// contradiction is the part of the shortest floor below which a step's time
// contradicts the ceilings. It is less than 1, because sampled ceilings have an
// error of some per cent.
const contradiction = 0.9

// SampledSource is the source of ceilings that come from samples.
const SampledSource = "sampled between runs"

// sampledCeilings fills in the ceilings for who reads those alone: the medians, of as
// many lanes as the machine has workers.
func (p *Profile) sampledCeilings() {
	lanes := max(1, p.Facts.Threads)
	roof := newRoofline(p.Probes, float64(lanes))
	if roof == nil || len(p.Ceilings) > 0 {
		return
	}
	c := Ceilings{Lanes: lanes, Source: SampledSource, FLOPs: roof.flops["f32"].Median * roof.lanes,
		Bytes: roof.reads[len(roof.reads)-1].Median * roof.lanes}
	for class, s := range roof.flops {
		if class != "f32" {
			if c.Class == nil {
				c.Class = map[string]float64{}
			}
			c.Class[class] = s.Median * roof.lanes
		}
	}
	p.Ceilings[""] = c
}
