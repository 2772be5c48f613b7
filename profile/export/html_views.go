package export

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hotpath/profile"
	"hotpath/profile/compare"
	"hotpath/profile/internal/table"
)

// viewTimeline is the stamps of kept runs, relative to each run's start.
type viewTimeline struct {
	Plans []viewPlan `json:"plans"`
	Runs  []viewRun  `json:"runs"`
	Wall  viewWall   `json:"wall"`
}

type viewPlan struct {
	Name  string      `json:"name"`
	Lanes []string    `json:"lanes"`
	Steps [][3]string `json:"steps"` // name, op, kernel
}

type viewRun struct {
	Plan   int        `json:"p"`
	Index  int64      `json:"i"`
	Start  int64      `json:"s"`
	End    int64      `json:"e"`
	Tokens int        `json:"k"`
	FLOPs  []int64    `json:"f"` // [step]
	Bytes  []int64    `json:"m"` // [step]
	Lanes  []viewLane `json:"l"`
}

type viewLane struct {
	Wake   int64   `json:"w"`
	Done   int64   `json:"d"`
	Absent bool    `json:"x,omitempty"`
	Boxes  []int64 `json:"b"` // step, arrive, begin, end
}

// maxBoxes bounds the steps in the page's timeline. It shows the last runs, because
// caches are warm then. The trace has all runs that were kept.
const maxBoxes = 30_000

func timelineOf(p *profile.Profile) viewTimeline {
	v := viewTimeline{Plans: []viewPlan{}, Runs: []viewRun{}}
	for i := range p.Plans {
		s := &p.Plans[i]
		plan := viewPlan{Name: strings.TrimSpace(cmp.Or(s.Name, s.ID) + " " + s.Phase), Lanes: s.Lanes, Steps: [][3]string{}}
		if s.Ledger.Runs > 0 {
			for k := range s.Steps {
				plan.Steps = append(plan.Steps, [3]string{s.Steps[k].Name, s.Steps[k].MainOp(), s.Steps[k].Kernel})
			}
		}
		v.Plans = append(v.Plans, plan)
	}
	boxes := 0
	for i := len(p.Runs) - 1; i >= 0; i-- {
		r := &p.Runs[i]
		if boxes += len(r.FLOPs) * len(r.Lanes); boxes > maxBoxes && len(v.Runs) > 0 {
			break
		}
		run := viewRun{Plan: r.Plan, Index: r.Index, Start: r.Start, End: r.End, Tokens: r.Tokens, FLOPs: r.FLOPs, Bytes: r.Bytes}
		for j := range r.Lanes {
			l := &r.Lanes[j]
			lane := viewLane{Wake: l.Wake - r.Start, Done: l.Done - r.Start, Absent: l.Absent, Boxes: []int64{}}
			for s := range l.Begin {
				if l.Begin[s] != 0 {
					lane.Boxes = append(lane.Boxes, int64(s), l.Arrive[s]-r.Start, l.Begin[s]-r.Start, l.End[s]-r.Start)
				}
			}
			run.Lanes = append(run.Lanes, lane)
		}
		v.Runs = append(v.Runs, run)
	}
	slices.Reverse(v.Runs)
	slices.SortStableFunc(v.Runs, func(a, b viewRun) int { return cmp.Compare(a.Start, b.Start) })
	v.Wall = wallOf(p, v.Runs)
	return v
}

type viewMemory struct {
	Plans    []viewPlanMemory `json:"plans"`
	Classes  [][3]any         `json:"classes"` // owner, class, bytes
	Counters []viewCounter    `json:"counters"`
	Notes    []string         `json:"notes"`
}

type viewPlanMemory struct {
	Name    string   `json:"name"`
	Steps   []string `json:"steps"`
	Buffers [][6]any `json:"buffers"` // name, class, layer, bytes, first, last
	Traffic [][3]any `json:"traffic"` // layer, op, bytes per run
}

// traffic is the average number of bytes that a run moves, by layer and op, in
// order of appearance.
func traffic(s *profile.PlanStats) [][3]any {
	type key struct {
		layer int
		op    string
	}
	sums := map[key]int64{}
	var order []key
	for k := range s.Steps {
		at := key{s.Steps[k].Layer, s.Steps[k].MainOp()}
		if _, ok := sums[at]; !ok {
			order = append(order, at)
		}
		sums[at] += s.Stats[k].Bytes
	}
	out := [][3]any{}
	for _, at := range order {
		if n := sums[at] / max(1, s.Ledger.Runs); n > 0 {
			out = append(out, [3]any{at.layer, at.op, n})
		}
	}
	return out
}

type viewCounter struct {
	Name    string       `json:"name"`
	Unit    string       `json:"unit"`
	Samples [][2]float64 `json:"samples"` // at, value
}

func memoryOf(p *profile.Profile) viewMemory {
	v := viewMemory{Plans: []viewPlanMemory{}, Classes: [][3]any{}, Counters: []viewCounter{}, Notes: []string{}}
	classes := func(owner string, memory map[string]int64) {
		for _, class := range slices.Sorted(maps.Keys(memory)) {
			v.Classes = append(v.Classes, [3]any{owner, class, memory[class]})
		}
	}
	classes("process", p.Memory)
	for i := range p.Plans {
		s := &p.Plans[i]
		if s.Ledger.Runs == 0 {
			continue
		}
		name := strings.TrimSpace(cmp.Or(s.Name, s.ID) + " " + s.Phase)
		classes(name, s.MemoryBytes)
		if n := s.BytesPerToken(); n > 0 {
			v.Notes = append(v.Notes, fmt.Sprintf("%s moves %sB for a token.", name, table.Si(n)))
		}
		if s.Heap != nil {
			v.Notes = append(v.Notes, fmt.Sprintf("While %s ran, the process allocated %d objects of %sB on the Go heap.", name, s.Heap.Objects, table.Si(float64(s.Heap.Bytes))))
			s.HeapRows(10, func(row string, h profile.HeapCount, note string) {
				v.Notes = append(v.Notes, strings.TrimSpace(fmt.Sprintf("%s: %d objects of %sB %s", strings.TrimSpace(row), h.Objects, table.Si(float64(h.Bytes)), note)))
			})
		}
		if len(s.Buffers) == 0 {
			continue
		}
		m := viewPlanMemory{Name: name}
		for k := range s.Steps {
			m.Steps = append(m.Steps, s.Steps[k].Name)
		}
		m.Traffic = traffic(s)
		for _, b := range s.Buffers {
			m.Buffers = append(m.Buffers, [6]any{b.Name, b.Class, b.Layer, b.Bytes, b.First, b.Last})
		}
		v.Plans = append(v.Plans, m)
	}
	for _, c := range p.Counters {
		counter := viewCounter{c.Name, c.Unit, [][2]float64{}}
		for _, s := range c.Kept {
			counter.Samples = append(counter.Samples, [2]float64{float64(s.At), s.Value})
		}
		v.Counters = append(v.Counters, counter)
	}
	if g := p.Go; g != nil {
		v.Notes = append(v.Notes, fmt.Sprintf("Go heap: %d objects of %sB allocated during the recording; %s paused it for %s in all, at most %s, and took %s of processor time.",
			g.Objects, table.Si(float64(g.Bytes)), cmp.Or(table.Count(int(g.Cycles), "collection"), "no collection"), table.Human(g.Pause), table.Human(g.LongPause), table.Human(g.GCTime)))
	}
	return v
}

// viewComparison is what compare.js shows.
type viewComparison struct {
	*compare.Comparison
	Summary     string          `json:"summary"`
	NotCompared []string        `json:"not_compared"`
	MemoryNote  string          `json:"memory_note"`
	Cards       []viewCard      `json:"cards"`
	Trees       []*viewDiffNode `json:"trees"` // [plan]
}

type viewDiffNode struct {
	Name     string          `json:"n"`
	Children []*viewDiffNode `json:"c,omitempty"`
	*compare.Diff
}

// comparisonOf is the comparison with its difference flame graphs.
func comparisonOf(c *compare.Comparison) *viewComparison {
	v := &viewComparison{Comparison: c, Summary: c.Summary(), NotCompared: c.NotCompared(), MemoryNote: c.MemoryNote()}
	t := &c.Total
	mid, low, high := c.Real()
	part := func(label string, ns float64) viewCard {
		return viewCard{label, fmt.Sprintf("%+.1f %%", table.PercentOf(ns, t.Before)), table.Signed(ns) + " ms"}
	}
	v.Cards = []viewCard{part("difference", t.Delta()), part("work", t.Work), part("efficiency", t.Efficiency), part("wait", t.Wait),
		{"real", fmt.Sprintf("%+.1f %%", mid), fmt.Sprintf("%+.1f to %+.1f; rows that differ: %d", low, high, len(c.Different()))}}
	for i := range c.Plans {
		v.Trees = append(v.Trees, diffTree(&c.Plans[i]))
	}
	return v
}

// tree arranges a plan's rows by the frames of their steps.
func diffTree(p *compare.PlanDiff) *viewDiffNode {
	total := p.Total
	root := &viewDiffNode{Name: p.Name, Diff: &total}
	index := map[string]*viewDiffNode{}
	for i := range p.Steps {
		d := &p.Steps[i]
		at, key := root, ""
		frames := d.Frames[1:] // the model is the root
		if len(frames) > 1 && frames[len(frames)-1] != d.Op {
			frames = frames[:len(frames)-1] // kernels may differ between the sides
		}
		for j, f := range frames {
			key += "\x00" + f
			n := index[key]
			if n == nil || j == len(frames)-1 {
				n = &viewDiffNode{Name: f, Diff: &compare.Diff{Layer: -1, Verdict: compare.Untested}}
				index[key] = n
				at.Children = append(at.Children, n)
			}
			n.Before += d.Before
			n.After += d.After
			n.Work += d.Work
			n.Efficiency += d.Efficiency
			n.Wait += d.Wait
			at = n
		}
		at.Diff = d
	}
	w := p.Wait
	w.Before, w.After = p.Outside[0], p.Outside[1] // the waits of steps lie within these
	root.Children = append(root.Children, &viewDiffNode{Name: "(dispatch and idle)", Diff: &w})
	return root
}
