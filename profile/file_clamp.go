package profile

// clamp applies the bounds that recorders keep now to a file of an earlier build, which
// did not keep them. Numbers that no recorder ever wrote are left for check to refuse.
func (p *Profile) clamp() {
	if g := p.Go; g != nil && inOrder(0, g.Pause, g.LongPause, most) {
		g.LongPause = g.Pause
	}
	for i := range p.Devices {
		if d := &p.Devices[i]; inOrder(0, d.Held, d.Used, most) {
			d.Held = d.Used
		}
	}
	if p.Requests != nil {
		for i := range p.Requests.Parts {
			if part := &p.Requests.Parts[i]; part.Time < 0 && part.Time >= -most {
				part.Time = 0
			}
		}
	}
	var was, now Ledger // of all plans
	for i := range p.Plans {
		s := &p.Plans[i]
		was.addLedger(s.Ledger)
		s.clampLanes()
		now.addLedger(s.Ledger)
	}
	p.Ledger.followOff(&was, &now)
}

// clampLanes bounds the times without a processor of each lane, and their sums.
func (s *PlanStats) clampLanes() {
	var was, now Ledger // of all lanes
	for i := range s.ByLane {
		l := &s.ByLane[i].Ledger
		was.addLedger(*l)
		if inRange(l.LaneTime, l.Compute, l.OffCPU, l.OffCompute, l.Blind, l.Guessed) {
			l.clampOff()
		}
		now.addLedger(*l)
	}
	s.Ledger.followOff(&was, &now)
}

// followOff replaces the times without a processor that were the sum was by those of
// the sum now. Rounds have none.
func (l *Ledger) followOff(was, now *Ledger) {
	for _, v := range []struct {
		to       *int64
		was, now int64
	}{{&l.OffCPU, was.OffCPU, now.OffCPU}, {&l.OffCompute, was.OffCompute, now.OffCompute}, {&l.Blind, was.Blind, now.Blind}, {&l.Guessed, was.Guessed, now.Guessed}} {
		if *v.to == v.was {
			*v.to = v.now
		}
	}
}

func inRange(values ...int64) bool {
	for _, v := range values {
		if v < 0 || v > most {
			return false
		}
	}
	return true
}
