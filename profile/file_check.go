package profile

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"hotpath/profile/internal/table"
)

// check verifies the invariants that all reports and exporters rely on. Every number
// is in its range, and numbers that a recorder derives from each other agree. So sums
// cannot overflow, and differences that are times are not below 0.
func (p *Profile) check() error {
	if err := p.checkNumbers(); err != nil {
		return err
	}
	if p.End < p.Start {
		return fmt.Errorf("start_ns is %d and end_ns %d, expected start_ns before end_ns", p.Start, p.End)
	}
	if s := p.Created.Unix(); !p.Created.IsZero() && (s < 0 || s > math.MaxInt64/1_000_000_000) {
		return fmt.Errorf("created is %s, expected a year from 1970 to 2262", p.Created.Format("2006"))
	}
	if err := p.Ledger.check(); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	if p.Elapsed == 0 && p.Ledger.Wall > 0 {
		return fmt.Errorf("elapsed_ns is 0 with %s of %d ns, expected more than 0, the time in which runs were in flight", cmp.Or(table.Count(int(p.Ledger.Runs), "run"), "0 runs"), p.Ledger.Wall)
	}
	if err := p.checkMachine(); err != nil {
		return err
	}
	for i := range p.Plans {
		if err := p.Plans[i].checkStats(); err != nil {
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
	if err := p.checkScopes(); err != nil {
		return err
	}
	for i := range p.Counters {
		if err := p.Counters[i].check(); err != nil {
			return fmt.Errorf("counters[%d]: %w", i, err)
		}
	}
	if p.Requests != nil {
		if err := p.Requests.check(); err != nil {
			return fmt.Errorf("requests.%w", err)
		}
	}
	return p.checkRuns()
}

// checkMachine checks what is about the process and the machine.
func (p *Profile) checkMachine() error {
	if p.Overhead != nil {
		if err := p.Overhead.Check(); err != nil {
			return fmt.Errorf("overhead: %w", err)
		}
	}
	if g := p.Go; g != nil && g.LongPause > g.Pause {
		return fmt.Errorf("go: gc_pause_max_ns is %d, expected at most %d, the sum of all pauses", g.LongPause, g.Pause)
	}
	if s := p.Process; s != nil && s.Scoped > p.End-p.Start {
		return fmt.Errorf("process: scoped_ns is %d, expected at most %d, the time of the recording", s.Scoped, p.End-p.Start)
	}
	if err := p.Resident.check(); err != nil {
		return fmt.Errorf("resident: %w", err)
	}
	for i := range p.Probes {
		if err := p.Probes[i].check(); err != nil {
			return fmt.Errorf("probes[%d]: %w", i, err)
		}
	}
	for i := range p.Devices {
		if err := p.Devices[i].check(); err != nil {
			return fmt.Errorf("devices[%d]: %w", i, err)
		}
	}
	for backend, c := range p.Ceilings {
		if err := c.check(); err != nil {
			return fmt.Errorf("ceilings[%q]: %w", backend, err)
		}
	}
	return nil
}

func (s *RoundStats) check() error {
	if len(s.ByWorker) == 0 {
		return errors.New("by_worker has no entries, expected one for each worker")
	}
	for i := range s.ByWorker {
		if w := &s.ByWorker[i]; w.InRuns+w.Dispatch+w.Idle != s.Wall {
			return fmt.Errorf("by_worker[%d]: in_runs_ns %d, dispatch_ns %d and idle_ns %d, expected a sum of %d, the rounds' wall_ns", i, w.InRuns, w.Dispatch, w.Idle, s.Wall)
		}
	}
	return nil
}

// check finds times that no runs can have together.
func (l *Ledger) check() error {
	if sum := l.Compute + l.Barrier + l.Dispatch + l.Idle + l.Residual; sum != l.LaneTime {
		return fmt.Errorf("compute_ns %d, barrier_ns %d, dispatch_ns %d, idle_ns %d and residual_ns %d, expected a sum of %d, the lane_time_ns",
			l.Compute, l.Barrier, l.Dispatch, l.Idle, l.Residual, l.LaneTime)
	}
	for _, f := range []struct {
		name  string
		value int64
		most  int64
		of    string
	}{
		{"off_cpu_ns", l.OffCPU, l.LaneTime, "lane_time_ns"}, {"blind_ns", l.Blind, l.LaneTime, "lane_time_ns"},
		{"off_compute_ns", l.OffCompute, l.Compute, "compute_ns"}, {"off_compute_ns", l.OffCompute, l.OffCPU, "off_cpu_ns"},
		{"off_guessed_ns", l.Guessed, l.OffCPU, "off_cpu_ns"}, {"off_guessed_ns", l.Guessed, l.Blind, "blind_ns"},
	} {
		if f.value > f.most {
			return fmt.Errorf("%s is %d, expected at most %d, the %s", f.name, f.value, f.most, f.of)
		}
	}
	return nil
}

// addsUp holds the ledger to the sum of plans and rounds, and finds values that are
// valid one by one but whose sum overflows, because reports add steps and plans.
func (p *Profile) addsUp() error {
	var all Ledger
	add := func(l Ledger, what string, i int) error {
		if all.addLedger(l); max(all.Runs, all.Wall, all.LaneTime, all.Compute, all.Barrier) > most {
			return fmt.Errorf("%s[%d]: %d runs, wall_ns %d and lane_time_ns %d, expected a sum of at most %d", what, i, l.Runs, l.Wall, l.LaneTime, int64(most))
		}
		return nil
	}
	for i := range p.Rounds {
		if err := add(p.Rounds[i].Outside(), "rounds", i); err != nil {
			return err
		}
	}
	var self, total, clock, floor, alloc, tokens, flops, moved int64
	for i := range p.Plans {
		s := &p.Plans[i]
		if err := add(s.Ledger, "plans", i); err != nil {
			return err
		}
		if tokens += s.Tokens; tokens > most {
			return fmt.Errorf("plans[%d]: tokens is %d, expected a sum of at most %d", i, s.Tokens, int64(most))
		}
		for j := range s.Stats {
			st := &s.Stats[j]
			self, total, clock, floor, alloc = self+st.Self, total+st.Total, clock+st.Clock, floor+st.Floor, alloc+s.Steps[j].Alloc
			flops, moved = flops+st.FLOPs, moved+st.Bytes
			if max(self, total, clock, floor, alloc) > most || min(flops, moved) < 0 {
				return fmt.Errorf("plans[%d]: step_stats[%d]: self_ns %d, total_ns %d, clock_ns %d, floor_ns %d, flops %d, bytes %d, alloc_bytes %d, expected sums over all steps of at most %d, those of flops and bytes of at most %d",
					i, j, st.Self, st.Total, st.Clock, st.Floor, st.FLOPs, st.Bytes, s.Steps[j].Alloc, int64(most), int64(math.MaxInt64))
			}
		}
	}
	if all != p.Ledger {
		return fmt.Errorf("ledger is %+v, expected the sum of plans and rounds, %+v", p.Ledger, all)
	}
	return nil
}

// check finds a distribution that no values have.
func (d *Dist) check() error {
	if d.Count == 0 {
		if *d != (Dist{}) {
			return fmt.Errorf("count is 0 with %+v, expected 0 in each field", *d)
		}
		return nil
	}
	if d.Mean != d.Sum/d.Count || !inOrder(d.Min, d.Mean, d.Max) || !inOrder(d.Min, d.P50, d.P95, d.P99, d.Max) {
		return fmt.Errorf("%d values from %d to %d, p50 %d, p95 %d, p99 %d, mean %d, sum %d, expected quantiles in order and the mean of the sum",
			d.Count, d.Min, d.Max, d.P50, d.P95, d.P99, d.Mean, d.Sum)
	}
	return nil
}

func (c *CounterStats) check() error {
	if c.Samples < int64(len(c.Kept)) {
		return fmt.Errorf("samples is %d, expected at least the %d of raw", c.Samples, len(c.Kept))
	}
	if c.Last > c.Peak {
		return fmt.Errorf("peak is %v, expected at least %v, the last", c.Peak, c.Last)
	}
	for i, s := range c.Kept {
		if s.Value > c.Peak {
			return fmt.Errorf("raw[%d].value is %v, expected at most %v, the peak", i, s.Value, c.Peak)
		}
	}
	return nil
}

func inOrder(v ...int64) bool {
	for i := range v[1:] {
		if v[i] > v[i+1] {
			return false
		}
	}
	return true
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
	return nil
}
