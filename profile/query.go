package profile

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hotpath/profile/internal/table"
)

// StepResult is one step with its plan, its description and its numbers.
type StepResult struct {
	Plan *PlanStats
	Step *Step
	*StepStats
}

// LaneTime is the time that all lanes together computed in the step.
func (s StepResult) LaneTime() int64 { return table.Sum(s.LaneCompute) }

// HeapCounted is the step's allocations on the Go heap; zero if they were not
// counted.
func (s StepResult) HeapCounted() HeapCount {
	if s.Heap == nil {
		return HeapCount{}
	}
	return *s.Heap
}

// GFLOPS is the rate at which the step computed, by the clock.
func (s StepResult) GFLOPS() float64 { return table.PerTime(s.FLOPs, s.Clock) }

// GBps is the rate at which the step moved bytes, by the clock.
func (s StepResult) GBps() float64 { return table.PerTime(s.Bytes, s.Clock) }

// Intensity is FLOPs per byte moved, or 0 where no bytes are known.
func (s StepResult) Intensity() float64 { return table.PerTime(s.FLOPs, s.Bytes) }

// Roofline is the floor in per cent of the clock time; 0 if no ceiling is known.
func (s StepResult) Roofline() float64 { return table.Percent(s.Floor, s.Clock) }

// Imbalance is how much longer the busiest lane of each call computed than the mean of
// the lanes that took part in that call, in per cent of the mean. Which lane is the
// busiest may change from call to call. It is not known of older files, which have the
// sums of lanes over all calls.
func (s StepResult) Imbalance() (percent float64, known bool) {
	return table.Percent(s.Longest-s.Even, s.Even), s.Even > 0
}

// By is what steps are ranked by.
type By string

// The rankings that Top and the reports know.
const (
	ByTime  By = "time"  // lane time spent computing
	ByLost  By = "lost"  // time beyond the roofline
	ByAlloc By = "alloc" // arena bytes of outputs and scratch
	ByFLOPs By = "flops"
	ByHeap  By = "heap" // bytes allocated on the Go heap, where they were counted
	// ByUneven: how much longer the busiest lanes computed than the mean of their lanes,
	// in time, so that a short step does not come first.
	ByUneven By = "uneven"
)

var rankings = []struct {
	by  By
	key func(StepResult) int64
}{
	{ByTime, func(s StepResult) int64 { return s.Self }},
	{ByLost, func(s StepResult) int64 { return s.Lost }},
	{ByAlloc, func(s StepResult) int64 { return s.Step.Alloc }},
	{ByFLOPs, func(s StepResult) int64 { return s.FLOPs }},
	{ByHeap, func(s StepResult) int64 { return s.HeapCounted().Bytes }},
	{ByUneven, func(s StepResult) int64 { return s.Longest - s.Even }},
}

// ParseBy reads the name of a ranking; the empty name is ByTime.
func ParseBy(name string) (By, error) {
	if name == "" {
		return ByTime, nil
	}
	known := make([]string, len(rankings))
	for i, r := range rankings {
		if string(r.by) == name {
			return r.by, nil
		}
		known[i] = string(r.by)
	}
	return "", fmt.Errorf("profile: cannot rank by %q, expected one of %s", name, strings.Join(known, ", "))
}

// Where returns the steps of all plans for which keep returns true, in plan
// order.
func (p *Profile) Where(keep func(StepResult) bool) []StepResult {
	var out []StepResult
	for i := range p.Plans {
		plan := &p.Plans[i]
		for s := range plan.Stats {
			if r := (StepResult{plan, &plan.Steps[s], &plan.Stats[s]}); keep(r) {
				out = append(out, r)
			}
		}
	}
	return out
}

// ByName lists the steps of that name, one for each plan that has it.
func (p *Profile) ByName(name string) []StepResult {
	return p.Where(func(s StepResult) bool { return s.Step.Name == name })
}

// Top lists the n highest steps that ever ran, all of them where n is 0 or
// less. An unknown ranking is ByTime.
func (p *Profile) Top(n int, by By) []StepResult {
	key := rankings[0].key
	for _, r := range rankings {
		if r.by == by {
			key = r.key
		}
	}
	all := p.Where(func(s StepResult) bool { return s.Calls > 0 })
	slices.SortStableFunc(all, func(a, b StepResult) int { return cmp.Compare(key(b), key(a)) })
	if n > 0 && n < len(all) {
		all = all[:n]
	}
	return all
}

// ScopesWhere returns the scopes for which keep returns true, parents before
// children.
func (p *Profile) ScopesWhere(keep func(*ScopeStats) bool) []*ScopeStats {
	var out []*ScopeStats
	for i := range p.Scopes {
		if keep(&p.Scopes[i]) {
			out = append(out, &p.Scopes[i])
		}
	}
	return out
}

// ScopesByName lists the scopes of that name, one for each path to it.
func (p *Profile) ScopesByName(name string) []*ScopeStats {
	return p.ScopesWhere(func(s *ScopeStats) bool { return s.Name == name })
}

// TopScopes lists the n scopes with the longest time of their own, all of them
// where n is 0 or less.
func (p *Profile) TopScopes(n int) []*ScopeStats {
	all := p.ScopesWhere(func(*ScopeStats) bool { return true })
	slices.SortStableFunc(all, func(a, b *ScopeStats) int { return cmp.Compare(b.Self, a.Self) })
	if n > 0 && n < len(all) {
		all = all[:n]
	}
	return all
}

// Group is steps folded together. Fused steps are divided among their nodes by
// share, so a group counts what its nodes cost.
type Group struct {
	Name                string
	Steps               int // steps with a part in it
	LaneTime            int64
	Self, Clock         int64
	Floor, Lost         int64
	FLOPs, Bytes, Alloc int64
}

// ByLayer folds the steps by layer, in layer order; steps outside any layer
// come first.
func (p *Profile) ByLayer() []Group {
	groups := p.group(func(s *Step, _ Node) string { return LayerName(s.Layer) })
	slices.SortStableFunc(groups, func(a, b Group) int {
		return cmp.Compare(layerNumber(a.Name), layerNumber(b.Name))
	})
	return groups
}

const noLayer = "(none)"

func LayerName(layer int) string {
	if layer < 0 {
		return noLayer
	}
	return strconv.Itoa(layer)
}

func layerNumber(name string) int {
	if n, err := strconv.Atoi(name); err == nil {
		return n
	}
	return -1
}

// ByStage folds the steps of training by stage: forward, loss, backward, recompute
// and optimizer. Steps of other plans are left out.
func (p *Profile) ByStage() []Group {
	groups := p.group(func(s *Step, _ Node) string { return s.Stage })
	return slices.DeleteFunc(groups, func(g Group) bool { return g.Name == "" })
}

// ByOp folds the steps by kind of op, the longest first.
func (p *Profile) ByOp() []Group {
	groups := p.group(func(_ *Step, n Node) string { return n.Op })
	slices.SortStableFunc(groups, func(a, b Group) int { return cmp.Compare(b.LaneTime, a.LaneTime) })
	return groups
}

// ByKernel folds the steps by kernel, the longest first. A fused step counts
// for its one kernel.
func (p *Profile) ByKernel() []Group {
	groups := p.group(func(s *Step, _ Node) string { return cmp.Or(s.Kernel, noKernel) })
	slices.SortStableFunc(groups, func(a, b Group) int { return cmp.Compare(b.LaneTime, a.LaneTime) })
	return groups
}

const noKernel = "(none)"

func (p *Profile) group(key func(*Step, Node) string) []Group {
	var groups []Group
	index := map[string]int{}
	for _, s := range p.Where(func(s StepResult) bool { return s.Calls > 0 }) {
		nodes := s.Step.Parts()
		share := func(v int64) []int64 { return divide(v, nodes) }
		lane, self, clock := share(s.LaneTime()), share(s.Self), share(s.Clock)
		floor, lost := share(s.Floor), share(s.Lost)
		flops, bytes, alloc := share(s.FLOPs), share(s.Bytes), share(s.Step.Alloc)
		seen := map[string]bool{}
		for i, n := range nodes {
			name := key(s.Step, n)
			g, ok := index[name]
			if !ok {
				g = len(groups)
				index[name] = g
				groups = append(groups, Group{Name: name})
			}
			t := &groups[g]
			if !seen[name] {
				seen[name] = true
				t.Steps++
			}
			t.LaneTime += lane[i]
			t.Self += self[i]
			t.Clock += clock[i]
			t.Floor += floor[i]
			t.Lost += lost[i]
			t.FLOPs += flops[i]
			t.Bytes += bytes[i]
			t.Alloc += alloc[i]
		}
	}
	return groups
}

// Parts is the nodes of a fused step, or the step itself as its only node.
func (s *Step) Parts() []Node {
	if len(s.Nodes) == 0 {
		return []Node{{Name: s.Name, Op: s.Op, Share: 1}}
	}
	return s.Nodes
}

// divide splits v by the shares of the nodes, or evenly where all shares are
// 0. Each part is the difference of two rounded running sums, so the parts add
// up to v exactly.
func divide(v int64, nodes []Node) []int64 {
	var all float64
	for _, n := range nodes {
		all += n.Share
	}
	share := func(n Node) float64 {
		if all == 0 {
			return 1 / float64(len(nodes))
		}
		return n.Share / all
	}
	out := make([]int64, len(nodes))
	var run float64
	var given int64
	for i, n := range nodes {
		run += share(n)
		upTo := v
		if i < len(nodes)-1 {
			upTo = int64(float64(v) * run)
		}
		upTo = max(min(0, v), min(upTo, max(0, v))) // rounding may go beyond
		out[i], given = upTo-given, upTo
	}
	return out
}
