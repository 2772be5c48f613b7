package profile

// HostTime is the time of a scope that contains runs while none was in flight: what
// the host did between its runs, before the first and after the last.
type HostTime struct {
	Scope *ScopeStats
	Time  int64 // without what recording took of it
	Runs  int64
}

// OutsideRuns is the host's time of the scope without a parent that contains all
// runs. It reports false if there is no such scope, or if it is still open: of runs
// in several scopes it is not known which one they leave free.
func (p *Profile) OutsideRuns() (HostTime, bool) {
	if p.Process == nil {
		return HostTime{}, false
	}
	top, runs := -1, int64(0)
	for i := range p.Plans {
		s := &p.Plans[i]
		within := int64(0)
		for k := range s.ByScope {
			o := &s.ByScope[k]
			if o.Ledger.Runs == 0 {
				continue
			}
			at := o.Scope
			for p.Scopes[at].Parent >= 0 {
				at = p.Scopes[at].Parent
			}
			if top >= 0 && at != top {
				return HostTime{}, false
			}
			top, within = at, within+o.Ledger.Runs
		}
		if within != s.Ledger.Runs {
			return HostTime{}, false
		}
		runs += within
	}
	if top < 0 || p.Scopes[top].Open > 0 {
		return HostTime{}, false
	}
	own := p.Process.InRuns + p.Process.Probing + p.Process.Folding
	return HostTime{&p.Scopes[top], max(0, p.Scopes[top].Total-own), runs}, true
}
