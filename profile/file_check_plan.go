package profile

import (
	"fmt"

	"hotpath/profile/internal/table"
)

// checkStats checks a plan: its aggregates agree with each other.
func (s *PlanStats) checkStats() error {
	if err := s.Plan.check(); err != nil {
		return err
	}
	if len(s.ByLane) != len(s.Lanes) || len(s.Stats) != len(s.Steps) {
		return fmt.Errorf("by_lane has %d and step_stats %d entries, expected %d and %d", len(s.ByLane), len(s.Stats), len(s.Lanes), len(s.Steps))
	}
	var held int64
	for i, b := range s.Buffers {
		if held += b.Bytes; held > most {
			return fmt.Errorf("buffers[%d]: bytes is %d, expected a sum of at most %d", i, b.Bytes, int64(most))
		}
	}
	if err := s.checkLedger(); err != nil {
		return err
	}
	if err := s.Run.check(); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	if s.Run.Count != s.Ledger.Runs || s.Run.Sum != s.Ledger.Wall {
		return fmt.Errorf("run: count is %d and sum_ns %d, expected the ledger's %d runs of %d ns", s.Run.Count, s.Run.Sum, s.Ledger.Runs, s.Ledger.Wall)
	}
	if s.First > s.Run.Max {
		return fmt.Errorf("first_run_ns is %d, expected at most %d, the longest run", s.First, s.Run.Max)
	}
	if s.Elapsed > s.Ledger.Wall {
		return fmt.Errorf("elapsed_ns is %d, expected 0 to %d, the wall time of all runs", s.Elapsed, s.Ledger.Wall)
	}
	if s.Elapsed == 0 && s.Ledger.Wall > 0 {
		return fmt.Errorf("elapsed_ns is 0 with runs of %d ns, expected more than 0, the time in which runs were in flight", s.Ledger.Wall)
	}
	lanes := make([]int64, len(s.Lanes)) // compute of all steps
	for i := range s.Stats {
		if err := s.Stats[i].check(lanes); err != nil {
			return fmt.Errorf("step_stats[%d]: %w", i, err)
		}
	}
	for i := range lanes {
		if lanes[i] != s.ByLane[i].Compute {
			return fmt.Errorf("by_lane[%d]: compute_ns is %d, expected %d, the sum of step_stats.lane_compute_ns", i, s.ByLane[i].Compute, lanes[i])
		}
	}
	if s.Samples != nil {
		return s.Samples.check(s)
	}
	return nil
}

// checkLedger holds the ledger of a plan to those of its lanes, which share the runs.
func (s *PlanStats) checkLedger() error {
	if err := s.Ledger.check(); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	var all Ledger
	for i := range s.ByLane {
		l := &s.ByLane[i].Ledger
		if err := l.check(); err != nil {
			return fmt.Errorf("by_lane[%d]: %w", i, err)
		}
		if l.Runs != s.Ledger.Runs || l.Wall != s.Ledger.Wall || l.LaneTime != l.Wall {
			return fmt.Errorf("by_lane[%d]: %d runs, wall_ns %d, lane_time_ns %d, expected the plan's %d runs of %d ns", i, l.Runs, l.Wall, l.LaneTime, s.Ledger.Runs, s.Ledger.Wall)
		}
		if all.addLedger(*l); max(all.LaneTime, all.Compute, all.Barrier, all.GC) > most {
			return fmt.Errorf("by_lane[%d]: lane_time_ns is %d, expected a sum of at most %d", i, l.LaneTime, int64(most))
		}
	}
	if all.Runs, all.Wall = s.Ledger.Runs, s.Ledger.Wall; all != s.Ledger {
		return fmt.Errorf("ledger is %+v, expected the sum of by_lane, %+v", s.Ledger, all)
	}
	return nil
}

// check checks a step. It adds the compute time of the lanes to lanes.
func (st *StepStats) check(lanes []int64) error {
	if len(st.LaneCompute) != len(lanes) || len(st.LaneWait) != len(lanes) {
		return fmt.Errorf("%d compute and %d wait times, expected one of each for %d lanes", len(st.LaneCompute), len(st.LaneWait), len(lanes))
	}
	var compute, wait int64
	for i := range lanes {
		lanes[i] += st.LaneCompute[i]
		if compute, wait = compute+st.LaneCompute[i], wait+st.LaneWait[i]; max(compute, wait, lanes[i]) > most {
			return fmt.Errorf("lane_compute_ns[%d] is %d and lane_wait_ns[%d] %d, expected a sum of at most %d", i, st.LaneCompute[i], i, st.LaneWait[i], int64(most))
		}
	}
	if err := st.Span.check(); err != nil {
		return fmt.Errorf("span: %w", err)
	}
	for _, f := range []struct {
		name  string
		value int64
		most  int64
		of    string
	}{
		{"self_ns", st.Self, compute, "sum of lane_compute_ns"}, {"self_ns", st.Self, st.Total, "total_ns"},
		{"total_ns", st.Total, compute + wait, "sum of lane_compute_ns and lane_wait_ns"},
		{"longest_lane_ns", st.Longest, compute, "sum of lane_compute_ns"}, {"even_lane_ns", st.Even, st.Longest, "longest_lane_ns"},
		{"off_cpu_ns", st.OffCPU, compute, "sum of lane_compute_ns"}, {"off_clock_ns", st.OffClock, st.Clock, "clock_ns"},
		{"calls", st.Calls, st.Span.Count, "span.count"}, {"span.count", st.Span.Count, st.Calls, "calls"},
	} {
		if f.value > f.most {
			return fmt.Errorf("%s is %d, expected at most %d, the %s", f.name, f.value, f.most, f.of)
		}
	}
	if st.Longest/int64(len(lanes)) > st.Even+st.Calls { // Even is rounded down in each call
		return fmt.Errorf("longest_lane_ns is %d, expected at most %d times %d, the even_lane_ns", st.Longest, len(lanes), st.Even)
	}
	return st.checkLost()
}

// checkLost checks what a step is held against: floor, lost time and their intervals.
func (st *StepStats) checkLost() error {
	on := st.Clock - st.OffClock
	if known := st.Floor != 0 || st.Lost != 0; known && st.Lost != on-st.Floor {
		return fmt.Errorf("lost_ns is %d, expected %d: clock_ns less off_clock_ns and floor_ns", st.Lost, on-st.Floor)
	}
	if (st.FloorLow != 0 || st.FloorHigh != 0) && !inOrder(st.FloorLow, st.Floor, st.FloorHigh) {
		return fmt.Errorf("floor_low_ns is %d and floor_high_ns %d, expected an interval that contains floor_ns, %d", st.FloorLow, st.FloorHigh, st.Floor)
	}
	if (st.LostLow != 0 || st.LostHigh != 0) && !inOrder(min(0, st.Lost), st.LostLow, st.Lost, st.LostHigh, max(on, st.Lost)) {
		return fmt.Errorf("lost_low_ns is %d and lost_high_ns %d, expected an interval from %d to %d that contains lost_ns, %d", st.LostLow, st.LostHigh, min(0, st.Lost), on, st.Lost)
	}
	if r := st.Roof; r != nil && r.Ideal+r.Cache+r.Neighbour+r.Kernel != st.Clock {
		return fmt.Errorf("roof: ideal_ns %d, cache_ns %d, neighbour_ns %d and kernel_ns %d, expected a sum of %d, the clock_ns", r.Ideal, r.Cache, r.Neighbour, r.Kernel, st.Clock)
	}
	return nil
}

// check holds the samples to the plan, whose runs they are.
func (s *RunSamples) check(p *PlanStats) error {
	n := len(s.Wall)
	if s.Every < 1 || n == 0 || len(s.Tokens) != n || len(s.Steps) != len(p.Steps) {
		return fmt.Errorf("samples: %d walls, %d token counts, %d steps and every=%d, expected one token count per wall, %d steps and every of 1 or more",
			n, len(s.Tokens), len(s.Steps), s.Every, len(p.Steps))
	}
	if int64(n) > p.Ledger.Runs {
		return fmt.Errorf("samples: %d walls, expected at most one for each of %d runs", n, p.Ledger.Runs)
	}
	for i, wall := range s.Wall {
		if !inOrder(p.Run.Min, wall, p.Run.Max) {
			return fmt.Errorf("samples.wall_ns[%d] is %d, expected %d to %d, the shortest and the longest run", i, wall, p.Run.Min, p.Run.Max)
		}
	}
	// part reports a column whose sum is more than that of all runs. A column of one
	// value has it in every sample.
	part := func(name string, column []int64, all int64) error {
		times := int64(1)
		if len(column) == 1 {
			times = int64(n)
		}
		left := all / times
		for i, v := range column {
			if v > left {
				return fmt.Errorf("samples.%s[%d] is %d, expected a sum of at most %d, that of all runs", name, i, v, all)
			}
			left -= v
		}
		return nil
	}
	if err := part("wall_ns", s.Wall, p.Ledger.Wall); err != nil {
		return err
	}
	if err := part("tokens", s.Tokens, p.Tokens); err != nil {
		return err
	}
	for k := range s.Steps {
		st, whole := &s.Steps[k], &p.Stats[k]
		if len(st.Compute) != n || len(st.Wait) != n || len(st.FLOPs) != n && len(st.FLOPs) != 1 || len(st.Bytes) != n && len(st.Bytes) != 1 {
			return fmt.Errorf("samples.steps[%d]: %d, %d, %d, %d values, expected %d each", k, len(st.Compute), len(st.Wait), len(st.FLOPs), len(st.Bytes), n)
		}
		if off := len(st.OffCPU); off > 1 && off != n {
			return fmt.Errorf("samples.steps[%d]: %d times without a processor, expected none, one or %d", k, off, n)
		}
		for i := range n {
			if on := st.OnCPU(i); on < 0 {
				return fmt.Errorf("samples.steps[%d]: off_cpu_ns is %d, expected at most %d, the compute_ns", k, st.Compute[i]-on, st.Compute[i])
			}
		}
		for _, c := range []struct {
			name   string
			column []int64
			all    int64
		}{{"compute_ns", st.Compute, table.Sum(whole.LaneCompute)}, {"wait_ns", st.Wait, table.Sum(whole.LaneWait)}, {"flops", st.FLOPs, whole.FLOPs}, {"bytes", st.Bytes, whole.Bytes}} {
			if err := part(fmt.Sprintf("steps[%d].%s", k, c.name), c.column, c.all); err != nil {
				return err
			}
		}
	}
	return nil
}
