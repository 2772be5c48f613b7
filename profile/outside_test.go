package profile

import "testing"

// The host's time is what the scope around all runs has beside them and beside the
// recorder, and it is not known if runs lie in several scopes, in none, or in an
// open one.
func TestOutsideRuns(t *testing.T) {
	made := func() *Profile {
		return &Profile{
			Process: &ProcessStats{InRuns: 700, Probing: 20, Folding: 30},
			Scopes:  []ScopeStats{{ID: 0, Parent: -1, Name: "work", Calls: 1, Total: 1000}, {ID: 1, Parent: 0, Name: "inner", Total: 500}, {ID: 2, Parent: -1, Name: "other", Total: 50}},
			Plans: []PlanStats{
				{Ledger: Ledger{Runs: 5}, ByScope: []ScopePart{{Scope: 0, Ledger: Ledger{Runs: 2}}, {Scope: 1, Ledger: Ledger{Runs: 3}}, {Scope: 2}}},
				{}, // no run
			},
		}
	}
	if h, ok := made().OutsideRuns(); !ok || h.Scope.Name != "work" || h.Time != 250 || h.Runs != 5 {
		t.Errorf("%+v, %v, expected 250 ns of work beside 5 runs", h, ok)
	}
	for what, change := range map[string]func(*Profile){
		"nothing of the process is known": func(p *Profile) { p.Process = nil },
		"runs of two scopes":              func(p *Profile) { p.Plans[0].ByScope[1].Scope = 2 },
		"a run in no scope":               func(p *Profile) { p.Plans[0].Ledger.Runs = 6 },
		"an open scope":                   func(p *Profile) { p.Scopes[0].Open = 1 },
		"no run":                          func(p *Profile) { p.Plans = p.Plans[1:] },
	} {
		p := made()
		change(p)
		if h, ok := p.OutsideRuns(); ok {
			t.Errorf("%s: %+v", what, h)
		}
	}
	p := made()
	p.Process.InRuns = 2000 // of another clock reading
	if h, ok := p.OutsideRuns(); !ok || h.Time != 0 {
		t.Errorf("runs that outlast the scope: %+v, %v", h, ok)
	}
}
