package study

import (
	"context"
	"runtime"
	"runtime/metrics"
	"strings"
	"time"

	"hotpath/internal/engine"
	"hotpath/internal/perf"
	"hotpath/profile"
	"hotpath/profile/export"
)

// observation is what a recorder and the runtime saw of some calls. Times are
// seconds of one call, over all workers.
type observation struct {
	wall       float64 // of one call
	workers    int
	ledger     profile.Ledger // of all calls
	calls      int
	mallocs    float64 // a call
	heap       float64 // bytes a call
	goroutines int
	queued     float64 // seconds that goroutines waited for a thread, a call
	counted    perf.Reading
	profile    *profile.Profile
	ops        map[string]opCost // of all calls
}

// opCost is what an op took of all lanes, and what it did.
type opCost struct{ time, flops, bytes float64 }

// opCosts sums a profile's steps by op.
func opCosts(p *profile.Profile) map[string]opCost {
	out := map[string]opCost{}
	for _, r := range p.Top(-1, profile.ByTime) {
		c := out[r.Step.MainOp()]
		c.time += float64(r.LaneTime())
		c.flops += float64(r.FLOPs)
		c.bytes += float64(r.Bytes)
		out[r.Step.MainOp()] = c
	}
	return out
}

// work sums FLOPs and bytes of one call.
func (o *observation) work() (flops, bytes float64) {
	for _, c := range o.ops {
		flops += c.flops / float64(o.calls)
		bytes += c.bytes / float64(o.calls)
	}
	return flops, bytes
}

// event is how often an event of the processor was counted per call, if it was.
func (o *observation) event(name string) (float64, bool) {
	v, ok := o.counted[name]
	return v / float64(o.calls), ok
}

// parts are the shares of workers x wall in per cent: what they computed, what
// they waited for, and what was outside of runs.
var ledgerParts = []string{"compute", "barrier", "dispatch", "idle", "outside runs", "residual"}

func (o *observation) parts() []float64 {
	all := o.wall * float64(o.workers) * float64(o.calls) * 1e9
	l := o.ledger
	out := []float64{float64(l.Compute), float64(l.Barrier), float64(l.Dispatch), float64(l.Idle), max(0, all-float64(l.LaneTime)), float64(l.Residual)}
	for i := range out {
		out[i] *= 100 / all
	}
	return out
}

// enough is how long work is observed at most, after two calls.
const enough = 1500 * time.Millisecond

// observe runs work under a recorder, some calls after it is warm.
func observe(ctx context.Context, r *running, rec *profile.Recorder, w work, calls int) (*observation, error) {
	defer r.enter()()
	for range 2 {
		if err := w.run(ctx, r.Engine); err != nil {
			return nil, err
		}
	}
	o := &observation{workers: max(1, r.Engine.Options().Workers)}
	before := rec.Snapshot()
	counters := perf.Open()
	defer counters.Close()
	var m0, m1 runtime.MemStats
	q0 := queued()
	runtime.ReadMemStats(&m0)
	start := time.Now()
	var err error
	o.counted, err = counters.Count(func() error {
		for o.calls < 2 || o.calls < calls && time.Since(start) < enough {
			if err := w.run(ctx, r.Engine); err != nil {
				return err
			}
			o.calls++
			o.goroutines = max(o.goroutines, runtime.NumGoroutine())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	elapsed := time.Since(start).Seconds()
	runtime.ReadMemStats(&m1)
	n := float64(o.calls)
	o.wall, o.queued = elapsed/n, (queued()-q0)/n
	o.mallocs, o.heap = float64(m1.Mallocs-m0.Mallocs)/n, float64(m1.TotalAlloc-m0.TotalAlloc)/n
	o.profile = rec.Snapshot()
	o.ledger = minus(o.profile.Ledger, before.Ledger)
	o.ops = opCosts(o.profile)
	for op, c := range opCosts(before) {
		n := o.ops[op]
		o.ops[op] = opCost{n.time - c.time, n.flops - c.flops, n.bytes - c.bytes}
	}
	return o, nil
}

func minus(a, b profile.Ledger) profile.Ledger {
	return profile.Ledger{Runs: a.Runs - b.Runs, Wall: a.Wall - b.Wall, LaneTime: a.LaneTime - b.LaneTime, Compute: a.Compute - b.Compute,
		Barrier: a.Barrier - b.Barrier, Dispatch: a.Dispatch - b.Dispatch, Idle: a.Idle - b.Idle, Residual: a.Residual - b.Residual,
		GC: a.GC - b.GC, OffCPU: a.OffCPU - b.OffCPU, OffCompute: a.OffCompute - b.OffCompute, Blind: a.Blind - b.Blind, Guessed: a.Guessed - b.Guessed}
}

// recorded opens a setup under a recorder.
func (s *session) recorded(o *opened, x setup) (*running, *profile.Recorder, error) {
	rec := profile.NewRecorder(profile.Options{Events: -1})
	x.engine.Recorder = rec
	r, err := s.start(o, x)
	return r, rec, err
}

// queued is how long goroutines of this process have waited for a thread so
// far, in seconds.
func queued() float64 {
	sample := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindFloat64Histogram {
		return 0
	}
	h := sample[0].Value.Float64Histogram()
	sum := 0.0
	for i, n := range h.Counts {
		lo, hi := h.Buckets[i], h.Buckets[i+1]
		sum += float64(n) * (finite(lo, 0) + finite(hi, lo)) / 2
	}
	return sum
}

// switches says how often a thread had to leave its processor, a call.
func (o *observation) switches() string {
	v, ok := o.counted[perf.ContextSwitches]
	if !ok {
		return "not counted here"
	}
	return number(v / float64(o.calls))
}

// flame is the flame graph of a profile's time.
func flame(p *profile.Profile) (string, error) {
	var b strings.Builder
	err := export.FlameSVG(&b, p, export.FlameTime, profile.FlameMerged)
	return b.String(), err
}

// setMode is a setup in one parallel mode with so many workers.
func setMode(m engine.Mode, workers int) setup {
	return setup{engine: engine.Options{Parallel: m, Workers: workers}}
}
