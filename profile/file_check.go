package profile

import (
	"cmp"
	"fmt"
	"slices"

	"hotpath/profile/internal/table"
)

// check verifies the invariants that all reports and exporters rely on.
func (p *Profile) check() error {
	if p.Start < 0 || p.End < p.Start {
		return fmt.Errorf("start_ns is %d and end_ns %d, expected start_ns before end_ns", p.Start, p.End)
	}
	if err := p.Ledger.check(); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	if p.Elapsed < 0 || p.Elapsed == 0 && p.Ledger.Wall > 0 && p.Version >= 3 {
		return fmt.Errorf("elapsed_ns is %d with %s of %d ns, expected more than 0, the time in which runs were in flight", p.Elapsed, cmp.Or(table.Count(int(p.Ledger.Runs), "run"), "0 runs"), p.Ledger.Wall)
	}
	if p.Overhead != nil {
		if err := p.Overhead.Check(); err != nil {
			return fmt.Errorf("overhead: %w", err)
		}
	}
	if g := p.Go; g != nil && min(g.Objects, g.Bytes, g.Cycles, g.Pause, g.LongPause, g.GCTime, g.Goroutines) < 0 {
		return fmt.Errorf("go: %+v, expected 0 or more in each field", *g)
	}
	if err := p.Process.check(); err != nil {
		return fmt.Errorf("process: %w", err)
	}
	if err := p.Processor.check(); err != nil {
		return fmt.Errorf("processor: %w", err)
	}
	if err := p.Resident.check(); err != nil {
		return fmt.Errorf("resident: %w", err)
	}
	for i := range p.Probes {
		if err := p.Probes[i].check(); err != nil {
			return fmt.Errorf("probes[%d]: %w", i, err)
		}
	}
	for class, n := range p.Memory {
		if n < 0 {
			return fmt.Errorf("memory_bytes[%q] is %d, expected 0 or more", class, n)
		}
	}
	for i := range p.Devices {
		if err := p.Devices[i].check(); err != nil {
			return fmt.Errorf("devices[%d]: %w", i, err)
		}
	}
	for i := range p.Plans {
		if err := p.Plans[i].checkStats(p.Version); err != nil {
			return fmt.Errorf("plans[%d]: %w", i, err)
		}
	}
	for i := range p.Rounds {
		if err := p.Rounds[i].check(); err != nil {
			return fmt.Errorf("rounds[%d]: %w", i, err)
		}
	}
	if err := p.addsUp(); err != nil {
		return err
	}
	for backend, c := range p.Ceilings {
		if err := c.check(); err != nil {
			return fmt.Errorf("ceilings[%q]: %w", backend, err)
		}
	}
	for i, s := range p.Scopes {
		if s.ID != i || s.Parent < -1 || s.Parent >= i {
			return fmt.Errorf("scopes[%d]: id %d under %d, expected id %d under an earlier one", i, s.ID, s.Parent, i)
		}
		if min(s.Calls, s.Total, s.Self, s.Open) < 0 {
			return fmt.Errorf("scopes[%d]: %d calls, total %d, self %d, %d open, expected 0 or more", i, s.Calls, s.Total, s.Self, s.Open)
		}
		if err := s.Heap.check(); err != nil {
			return fmt.Errorf("scopes[%d]: heap: %w", i, err)
		}
		if err := s.Call.check(); err != nil {
			return fmt.Errorf("scopes[%d]: call: %w", i, err)
		}
	}
	for i := range p.Plans {
		for k := range p.Plans[i].ByScope {
			if err := p.Plans[i].ByScope[k].check(len(p.Scopes), len(p.Plans[i].Steps)); err != nil {
				return fmt.Errorf("plans[%d]: by_scope[%d]: %w", i, k, err)
			}
		}
	}
	for i, e := range p.ScopeEvents {
		if e.Scope < 0 || e.Scope >= len(p.Scopes) || e.Start < 0 || e.End < e.Start {
			return fmt.Errorf("raw_scopes[%d]: scope %d from %d to %d, expected one of %d scopes and times in order", i, e.Scope, e.Start, e.End, len(p.Scopes))
		}
	}
	for i, c := range p.Counters {
		for j, sample := range c.Kept {
			if sample.At < 0 {
				return fmt.Errorf("counters[%d].raw[%d]: at %d, expected a time of 0 or more", i, j, sample.At)
			}
		}
	}
	if p.Requests != nil {
		if err := p.Requests.check(); err != nil {
			return fmt.Errorf("requests.%w", err)
		}
	}
	if n := len(p.RunScopes); n != 0 && n != len(p.Runs) {
		return fmt.Errorf("raw_run_scopes has %d entries, expected one for each of %d runs", n, len(p.Runs))
	}
	for i, s := range p.RunScopes {
		if s < 0 || s > len(p.Scopes) {
			return fmt.Errorf("raw_run_scopes[%d] is %d, expected 0 to %d", i, s, len(p.Scopes))
		}
	}
	for i := range p.Runs {
		if err := p.checkRun(&p.Runs[i]); err != nil {
			return fmt.Errorf("raw_runs[%d]: %w", i, err)
		}
	}
	return nil
}

func (s *PlanStats) checkStats(version int) error {
	if err := s.Plan.check(); err != nil {
		return err
	}
	if len(s.ByLane) != len(s.Lanes) || len(s.Stats) != len(s.Steps) {
		return fmt.Errorf("by_lane has %d and step_stats %d entries, expected %d and %d", len(s.ByLane), len(s.Stats), len(s.Lanes), len(s.Steps))
	}
	for i := range s.Stats {
		if st := &s.Stats[i]; len(st.LaneCompute) != len(s.Lanes) || len(st.LaneWait) != len(s.Lanes) {
			return fmt.Errorf("step_stats[%d]: %d compute and %d wait times, expected one of each for %d lanes", i, len(st.LaneCompute), len(st.LaneWait), len(s.Lanes))
		}
		if err := s.Stats[i].check(); err != nil {
			return fmt.Errorf("step_stats[%d]: %w", i, err)
		}
	}
	if err := s.Ledger.check(); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	for i := range s.ByLane {
		if err := s.ByLane[i].check(); err != nil {
			return fmt.Errorf("by_lane[%d]: %w", i, err)
		}
	}
	if err := s.Heap.check(); err != nil {
		return fmt.Errorf("heap: %w", err)
	}
	if err := s.Run.check(); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	var held int64
	for i, b := range s.Buffers {
		if held += b.Bytes; held < 0 {
			return fmt.Errorf("buffers[%d]: %d bytes, the sum overflows 64 bits", i, b.Bytes)
		}
	}
	if s.Elapsed < 0 || s.Elapsed > s.Ledger.Wall {
		return fmt.Errorf("elapsed_ns is %d, expected 0 to %d, the wall time of all runs", s.Elapsed, s.Ledger.Wall)
	}
	if s.Elapsed == 0 && s.Ledger.Wall > 0 && version >= 3 {
		return fmt.Errorf("elapsed_ns is 0 with runs of %d ns, expected more than 0, the time in which runs were in flight", s.Ledger.Wall)
	}
	if s.Samples != nil {
		return s.Samples.check(len(s.Steps))
	}
	return nil
}

func (s *RoundStats) check() error {
	if min(s.Rounds, s.Wall) < 0 || len(s.ByWorker) == 0 {
		return fmt.Errorf("%d rounds of %d ns and %d workers, expected 0 or more, and at least one worker", s.Rounds, s.Wall, len(s.ByWorker))
	}
	for i := range s.ByWorker {
		if w := &s.ByWorker[i]; min(w.Runs, w.InRuns, w.Dispatch, w.Idle) < 0 {
			return fmt.Errorf("by_worker[%d]: %d runs of %d ns, dispatch %d, idle %d, expected 0 or more", i, w.Runs, w.InRuns, w.Dispatch, w.Idle)
		}
	}
	return nil
}

// check finds times that no runs can have. The residual may be below 0.
func (l *Ledger) check() error {
	if min(l.Runs, l.Wall, l.LaneTime, l.Compute, l.OffCPU, l.OffCompute, l.Blind) < 0 {
		return fmt.Errorf("%d runs, wall_ns %d, lane_time_ns %d, compute_ns %d, off_cpu_ns %d, off_compute_ns %d, blind_ns %d, expected 0 or more",
			l.Runs, l.Wall, l.LaneTime, l.Compute, l.OffCPU, l.OffCompute, l.Blind)
	}
	return nil
}

// check finds counts and times that nothing can have.
func (st *StepStats) check() error {
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"calls", st.Calls}, {"total_ns", st.Total}, {"self_ns", st.Self}, {"clock_ns", st.Clock}, {"floor_ns", st.Floor}, {"flops", st.FLOPs}, {"bytes", st.Bytes},
		{"span.min_ns", st.Span.Min}, {"lane_compute_ns", slices.Min(st.LaneCompute)}, {"lane_wait_ns", slices.Min(st.LaneWait)}, {"off_cpu_ns", st.OffCPU}, {"off_clock_ns", st.OffClock}, {"floor_low_ns", st.FloorLow},
	} {
		if f.value < 0 {
			return fmt.Errorf("%s is %d, expected 0 or more", f.name, f.value)
		}
	}
	if err := st.Span.check(); err != nil {
		return fmt.Errorf("span: %w", err)
	}
	if err := st.Heap.check(); err != nil {
		return fmt.Errorf("heap: %w", err)
	}
	return nil
}

// addsUp finds values that are valid one by one but whose sum overflows, because
// reports add steps and plans.
func (p *Profile) addsUp() error {
	var wall, lane, self, total, clock, flops, moved int64
	for i := range p.Rounds {
		for k := range p.Rounds[i].ByWorker {
			w := &p.Rounds[i].ByWorker[k]
			for _, part := range []int64{w.Dispatch, w.Idle} {
				if lane += part; lane < 0 {
					return fmt.Errorf("rounds[%d]: by_worker[%d]: dispatch %d and idle %d, the sum overflows 64 bits", i, k, w.Dispatch, w.Idle)
				}
			}
		}
	}
	for i := range p.Plans {
		s := &p.Plans[i]
		wall, lane = wall+s.Ledger.Wall, lane+s.Ledger.LaneTime
		if min(wall, lane) < 0 {
			return fmt.Errorf("plans[%d]: ledger: wall %d and lane time %d, the sum overflows 64 bits", i, s.Ledger.Wall, s.Ledger.LaneTime)
		}
		for j := range s.Stats {
			st := &s.Stats[j]
			self, total, clock, flops, moved = self+st.Self, total+st.Total, clock+st.Clock, flops+st.FLOPs, moved+st.Bytes
			if min(self, total, clock, flops, moved) < 0 {
				return fmt.Errorf("plans[%d]: step_stats[%d]: self %d, total %d, clock %d, %d FLOPs, %d bytes, the sum overflows 64 bits", i, j, st.Self, st.Total, st.Clock, st.FLOPs, st.Bytes)
			}
		}
	}
	return nil
}

func (d *Dist) check() error {
	if min(d.Count, d.Sum, d.Min, d.Max, d.Mean, d.P50, d.P95, d.P99) < 0 {
		return fmt.Errorf("%d values from %d to %d, sum %d, expected 0 or more", d.Count, d.Min, d.Max, d.Sum)
	}
	return nil
}

func (q *RequestStats) check() error {
	for _, d := range []struct {
		name string
		dist *Dist
	}{{"duration", &q.Duration}, {"time_to_first_token", &q.FirstToken}, {"time_per_output_token", &q.PerToken},
		{"tokenize", &q.Tokenize}, {"compile", &q.Compile}, {"queue", &q.Queue}, {"prefill", &q.Prefill}, {"hand_over", &q.Hand}} {
		if err := d.dist.check(); err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
	}
	for i := range q.Kept {
		if err := q.Kept[i].check(); err != nil {
			return fmt.Errorf("raw[%d]: %w", i, err)
		}
	}
	for i, r := range q.Parts {
		// Beyond it sums of them are no numbers any more, and nothing took so much.
		// A time may be below 0 where stamps overlap.
		const most = 1e30
		if min(r.Runs, r.Tokens) < 0 || !(min(r.FLOPs, r.Bytes) >= 0) || !(max(r.FLOPs, r.Bytes, r.Time) <= most) || !(r.Time >= -most) {
			return fmt.Errorf("parts[%d]: %d runs, %d tokens, %g FLOPs, %g bytes, %g ns, expected 0 or more and at most %g", i, r.Runs, r.Tokens, r.FLOPs, r.Bytes, r.Time, most)
		}
	}
	return nil
}

func (h *HeapCount) check() error {
	if h != nil && min(h.Objects, h.Bytes) < 0 {
		return fmt.Errorf("%d objects of %d bytes, expected 0 or more", h.Objects, h.Bytes)
	}
	return nil
}

func (p *Profile) checkRun(r *RawRun) error {
	if r.Plan < 0 || r.Plan >= len(p.Plans) {
		return fmt.Errorf("plan %d, expected one of %d", r.Plan, len(p.Plans))
	}
	plan := &p.Plans[r.Plan].Plan
	run := Run{Start: r.Start, End: r.End, Lanes: make([]LaneSlots, len(r.Lanes)), Costs: make([]Cost, len(r.FLOPs))}
	if len(r.Bytes) != len(r.FLOPs) {
		return fmt.Errorf("%d byte counts and %d FLOP counts, expected as many of each", len(r.Bytes), len(r.FLOPs))
	}
	if least := min(least(r.FLOPs), least(r.Bytes)); least < 0 {
		return fmt.Errorf("a step has %d FLOPs or bytes, expected 0 or more", least)
	}
	for i, s := range r.Shares {
		if min(s.Tokens, s.Context) < 0 {
			return fmt.Errorf("shares[%d]: %d tokens, %d of context, expected 0 or more", i, s.Tokens, s.Context)
		}
	}
	for i := range r.Lanes {
		l := &r.Lanes[i]
		run.Lanes[i] = LaneSlots{Wake: l.Wake, Done: l.Done, Wait: l.Wait, Absent: l.Absent, Arrive: l.Arrive, Begin: l.Begin, End: l.End}
	}
	return run.check(plan, make([]stepSpan, len(plan.Steps)))
}
