package profile

import "fmt"

// checkScopes checks the scopes, and the parts of plans that began inside of them.
func (p *Profile) checkScopes() error {
	var totals int64
	for i := range p.Scopes {
		s := &p.Scopes[i]
		if s.ID != i || s.Parent >= i {
			return fmt.Errorf("scopes[%d]: id %d under %d, expected id %d under an earlier one", i, s.ID, s.Parent, i)
		}
		if err := s.Call.check(); err != nil {
			return fmt.Errorf("scopes[%d]: call: %w", i, err)
		}
		if s.Call.Count != s.Calls || max(s.Total, s.Self) > s.Call.Sum {
			return fmt.Errorf("scopes[%d]: calls is %d, total_ns %d and self_ns %d, expected the %d calls of %d ns of call", i, s.Calls, s.Total, s.Self, s.Call.Count, s.Call.Sum)
		}
		if totals += s.Total; totals > most {
			return fmt.Errorf("scopes[%d]: total_ns is %d, expected a sum of at most %d", i, s.Total, int64(most))
		}
	}
	for i := range p.Plans {
		if err := p.Plans[i].checkParts(len(p.Scopes)); err != nil {
			return fmt.Errorf("plans[%d]: %w", i, err)
		}
	}
	for i, e := range p.ScopeEvents {
		if e.Scope >= len(p.Scopes) || e.End < e.Start {
			return fmt.Errorf("raw_scopes[%d]: scope %d from %d to %d, expected one of %d scopes and times in order", i, e.Scope, e.Start, e.End, len(p.Scopes))
		}
	}
	return nil
}

// checkParts holds the parts of a plan that began inside of scopes to the plan: what
// is left began outside of all, and is not below 0.
func (s *PlanStats) checkParts(scopes int) error {
	for i := range s.ByScope {
		part := &s.ByScope[i]
		if err := part.check(scopes, len(s.Steps)); err != nil {
			return fmt.Errorf("by_scope[%d]: %w", i, err)
		}
		if i > 0 && part.Scope <= s.ByScope[i-1].Scope {
			return fmt.Errorf("by_scope[%d]: scope is %d after %d, expected them in order", i, part.Scope, s.ByScope[i-1].Scope)
		}
	}
	rest := s.asPart()
	if rest.least() < 0 {
		return fmt.Errorf("the sum of lane_wait_ns over all steps is too large: %d remain, expected 0 or more of the ledger's barrier_ns, %d", rest.least(), s.Ledger.Barrier)
	}
	for i := range s.ByScope {
		if rest.addPart(&s.ByScope[i], -1); rest.least() < 0 {
			return fmt.Errorf("by_scope[%d]: with the scopes before it has more than the plan: %d remain, expected 0 or more", i, rest.least())
		}
	}
	return nil
}

// least is the smallest value that cannot be below 0.
func (s *ScopePart) least() int64 {
	after := s.Ledger.Barrier // waits of lanes that had no step left
	for _, v := range s.Wait {
		if after -= v; min(v, after) < 0 {
			return min(v, after) // further ones could wrap the sum
		}
	}
	return min(s.Ledger.Runs, after, least(s.Compute), least(s.Wait), least(s.FLOPs), least(s.Bytes))
}

func (s *ScopePart) check(scopes, steps int) error {
	if s.Scope >= scopes {
		return fmt.Errorf("scope %d, expected one of %d", s.Scope, scopes)
	}
	if err := s.Ledger.check(); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	for _, v := range [][]int64{s.Compute, s.Wait, s.FLOPs, s.Bytes} {
		if len(v) != steps {
			return fmt.Errorf("%d values, expected one for each of %d steps", len(v), steps)
		}
	}
	waits := s.Ledger.Barrier
	for k, v := range s.Wait {
		if waits -= v; waits < 0 {
			return fmt.Errorf("wait_ns[%d] is %d, expected a sum of at most %d, the ledger's barrier_ns", k, v, s.Ledger.Barrier)
		}
	}
	return nil
}

// checkRuns checks the runs that were kept. They are some of those in the aggregates.
func (p *Profile) checkRuns() error {
	if n := len(p.RunScopes); n != 0 && n != len(p.Runs) {
		return fmt.Errorf("raw_run_scopes has %d entries, expected one for each of %d runs", n, len(p.Runs))
	}
	for i, s := range p.RunScopes {
		if s > len(p.Scopes) {
			return fmt.Errorf("raw_run_scopes[%d] is %d, expected 0 to %d", i, s, len(p.Scopes))
		}
	}
	type key struct{ plan, scope int }
	rest := map[key]*ScopePart{} // of the aggregates, without the runs so far
	for i := range p.Runs {
		r := &p.Runs[i]
		if err := p.checkRun(r); err != nil {
			return fmt.Errorf("raw_runs[%d]: %w", i, err)
		}
		at := key{r.Plan, p.partOf(i)}
		if rest[at] == nil {
			part := p.Plans[r.Plan].partIn(at.scope)
			rest[at] = &part
		}
		if rest[at].addPart(r.asPart(), -1); rest[at].least() < 0 {
			return fmt.Errorf("raw_runs[%d]: with the runs before it has more than the plan: %d remain, expected 0 or more", i, rest[at].least())
		}
	}
	return nil
}

func (p *Profile) checkRun(r *RawRun) error {
	if r.Plan >= len(p.Plans) {
		return fmt.Errorf("plan %d, expected one of %d", r.Plan, len(p.Plans))
	}
	plan := &p.Plans[r.Plan]
	if r.Index >= plan.Ledger.Runs {
		return fmt.Errorf("index is %d, expected one of %d runs", r.Index, plan.Ledger.Runs)
	}
	run := Run{Start: r.Start, End: r.End, Lanes: make([]LaneSlots, len(r.Lanes))}
	if len(r.Bytes) != len(plan.Steps) || len(r.FLOPs) != len(plan.Steps) {
		return fmt.Errorf("%d byte counts and %d FLOP counts, expected %d of each", len(r.Bytes), len(r.FLOPs), len(plan.Steps))
	}
	for i := range r.Lanes {
		l := &r.Lanes[i]
		if len(l.Begin) != len(l.Arrive) || len(l.End) != len(l.Arrive) {
			return fmt.Errorf("lanes[%d]: %d, %d, %d stamps, expected as many of each", i, len(l.Arrive), len(l.Begin), len(l.End))
		}
		run.Lanes[i] = LaneSlots{Wake: l.Wake, Done: l.Done, Wait: l.Wait, Absent: l.Absent, Steps: make([]StepStamps, len(l.Arrive))}
		for s := range l.Arrive {
			run.Lanes[i].Steps[s] = StepStamps{l.Arrive[s], l.Begin[s], l.End[s]}
		}
	}
	if err := run.check(&plan.Plan, make([]stepSpan, len(plan.Steps))); err != nil {
		return err
	}
	return r.checkStamped(&run)
}

// checkStamped finds stamps that check took for those of an earlier run and cleared in
// its copy: recorders write 0 in their place.
func (r *RawRun) checkStamped(run *Run) error {
	for i := range r.Lanes {
		l := &r.Lanes[i]
		for s, left := range run.Lanes[i].Steps {
			if was := (StepStamps{l.Arrive[s], l.Begin[s], l.End[s]}); was != left {
				return fmt.Errorf("lanes[%d]: step %d: arrive %d, begin %d, end %d, expected 0 or no earlier than start_ns, %d", i, s, was.Arrive, was.Begin, was.End, r.Start)
			}
		}
	}
	return nil
}

// asPart is one run as a part of its plan. Sums that are beyond most are just that.
func (r *RawRun) asPart() *ScopePart {
	part := newPart(-1, len(r.FLOPs))
	part.Ledger.Runs = 1
	copy(part.FLOPs, r.FLOPs)
	copy(part.Bytes, r.Bytes)
	add := func(to *int64, n int64) { *to = min(*to+n, most+1) }
	for i := range r.Lanes {
		l := &r.Lanes[i]
		add(&part.Ledger.Barrier, l.Wait)
		for k := range part.Compute {
			add(&part.Compute[k], l.End[k]-l.Begin[k])
			add(&part.Wait[k], l.Begin[k]-l.Arrive[k])
			add(&part.Ledger.Barrier, l.Begin[k]-l.Arrive[k])
		}
	}
	return part
}
