package profile

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"
)

// Probe names the ceiling that a sample measures: a compute class, or reads from
// a working set.
type Probe struct {
	Class string `json:"class,omitempty"` // compute class; empty for reads
	Level string `json:"level,omitempty"` // of reads: L2, L3, memory
	// UpTo is the largest working set of one lane, in bytes, that reads of this
	// level stand for; 0 for any.
	UpTo int64 `json:"up_to_bytes,omitempty"`
}

func (p Probe) String() string { return cmp.Or(p.Class, p.Level) }

// ProbeStats is one ceiling as it was sampled between runs: FLOP/s or bytes/s of
// one lane while all lanes were busy. Low, Median and High are the 10th, 50th and
// 90th percentile, Best is the highest.
type ProbeStats struct {
	Probe
	Count  int64    `json:"count"`
	Low    float64  `json:"low_per_s"`
	Median float64  `json:"median_per_s"`
	High   float64  `json:"high_per_s"`
	Best   float64  `json:"best_per_s"`
	Kept   []Sample `json:"raw,omitempty"` // spread evenly over the recording
}

func (s *ProbeStats) check() error {
	if s.Count < 1 || s.UpTo < 0 || !(s.Low >= leastRate && s.Low <= s.Median && s.Median <= s.High && s.High <= s.Best && s.Best <= mostFloat) {
		return fmt.Errorf("%q: %d samples from %v over %v and %v to %v per second, expected some, from %v to %v and in order", s.Probe.String(), s.Count, s.Low, s.Median, s.High, s.Best, float64(leastRate), mostFloat)
	}
	if int64(len(s.Kept)) > s.Count {
		return fmt.Errorf("%q: raw has %d samples, expected at most %d, the count", s.Probe.String(), len(s.Kept), s.Count)
	}
	for i, v := range s.Kept {
		if v.Value < leastRate {
			return fmt.Errorf("%q: raw[%d].value is %v, expected %v or more", s.Probe.String(), i, v.Value, float64(leastRate))
		}
	}
	return nil
}

// Samples of ceilings take a part of the time of recorded runs: probeShare until
// each ceiling has about manyProbes samples, then laterShare. So a short recording
// has enough of them, spread evenly, and a long one pays less. Time without a run
// does not count: a program that is mostly idle must not spend more on samples than
// on its work.
const (
	probeShare = 0.0025
	laterShare = 0.0005
	manyProbes = 16
)

// A recording that is too short for enoughProbes samples of each ceiling takes more at its
// end, as long as all samples together have taken less than endShare of it. It takes
// leastProbes in any case.
const (
	enoughProbes = 5
	endShare     = 0.003
)

// mostProbeSamples bounds the samples that are kept of one ceiling: beyond it every
// second one is dropped.
const mostProbeSamples = 256

// probes paces and keeps the samples of ceilings.
type probes struct {
	mu    sync.Mutex
	turn  int
	took  int64 // all samples together
	folds []probeFold
}

type probeFold struct {
	probe       Probe
	kept        []Sample
	every, seen int64
}

// TakeProbe reports whether the caller should sample a ceiling now. The caller has
// just ended a run. kind is the ceiling to sample, 0 to n-1 in turn. After sampling
// the caller calls Probed.
func (r *Recorder) TakeProbe(n int) (kind int, due bool) {
	if r.none() || n == 0 || !r.released.probe.Load() {
		return 0, false
	}
	if !r.released.probe.CompareAndSwap(true, false) {
		return 0, false
	}
	p := &r.probes
	p.mu.Lock()
	defer p.mu.Unlock()
	kind = p.turn % n
	p.turn++
	return kind, true
}

// Probed records a sample that was due. rate is per second and lane, 0 if there
// is none. began is the time at which sampling began, and ready when its memory was
// prepared, which takes long for the first sample alone. Both are later than they were
// by the time without a processor, which is estimated and may be too long.
func (r *Recorder) Probed(probe Probe, rate float64, began, ready int64) {
	if r.none() {
		return
	}
	now := Now()
	began, ready = min(began, now), min(ready, now)
	p := &r.probes
	p.mu.Lock()
	defer p.mu.Unlock()
	p.took += now - began
	f := p.fold(probe)
	if rate >= leastRate && rate <= mostFloat {
		f.addSample(Sample{now, rate})
	}
	share := probeShare
	if f.seen >= manyProbes {
		share = laterShare
	}
	r.released.paceProbe(int64(float64(now-ready) / share))
}

// LacksProbe reports whether a recording that ends needs one more sample of a ceiling.
func (r *Recorder) LacksProbe(probe Probe) bool {
	if r.none() {
		return false
	}
	r.probes.mu.Lock()
	defer r.probes.mu.Unlock()
	switch n := r.probes.fold(probe).seen; {
	case n < leastProbes:
		return true
	case n >= enoughProbes:
		return false
	}
	return float64(r.probes.took) < endShare*float64(Now()-r.start)
}

// fold is the samples of one ceiling; p.mu is held.
func (p *probes) fold(probe Probe) *probeFold {
	for i := range p.folds {
		if p.folds[i].probe == probe {
			return &p.folds[i]
		}
	}
	p.folds = append(p.folds, probeFold{probe: probe, kept: make([]Sample, 0, mostProbeSamples), every: 1})
	return &p.folds[len(p.folds)-1]
}

func (f *probeFold) addSample(s Sample) {
	if f.seen++; (f.seen-1)%f.every != 0 {
		return
	}
	if len(f.kept) == mostProbeSamples {
		for i := range f.kept[:mostProbeSamples/2] {
			f.kept[i] = f.kept[2*i]
		}
		f.kept = f.kept[:mostProbeSamples/2]
		if f.every *= 2; (f.seen-1)%f.every != 0 {
			return
		}
	}
	f.kept = append(f.kept, s)
}

func (p *probes) snapshot() (out []ProbeStats, took int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.folds {
		f := &p.folds[i]
		if len(f.kept) == 0 {
			continue
		}
		rates := make([]float64, len(f.kept))
		for k, s := range f.kept {
			rates[k] = s.Value
		}
		slices.Sort(rates)
		at := func(q float64) float64 { return rates[int(math.Round(q*float64(len(rates)-1)))] }
		out = append(out, ProbeStats{Probe: f.probe, Count: f.seen, Low: at(0.1), Median: at(0.5), High: at(0.9), Best: at(1), Kept: slices.Clone(f.kept)})
	}
	return out, p.took
}
