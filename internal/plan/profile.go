package plan

import (
	"fmt"
	"slices"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// ProfileLabels describe the purpose of a session's runs.
type ProfileLabels struct {
	Model string
	// Phases are the possible phases of a run, such as prefill and decode.
	// SetPhase selects one before a run. None: the program has only one phase.
	Phases []string
}

// Pause stops or resumes recording and keeps the recorder. Alternating runs with
// and without recording measure its cost.
func (s *Session) Pause(on bool) { s.paused = on }

// ProbeRest takes the samples of ceilings that the recording lacks, for a snapshot
// before Close, which takes them too. No run may be in flight.
func (s *Session) ProbeRest() {
	for _, sl := range s.slots {
		sl.probeRest()
	}
}

// SetShares sets the requests of the next run. It applies to that run only.
func (s *Session) SetShares(shares []profile.Share) { s.shares = append(s.shares[:0], shares...) }

// share moves the requests that were set to a run.
func (s *Session) share(run *profile.Run) {
	if run.Shares = append(run.Shares, s.shares...); len(s.shares) == 1 {
		run.Request = s.shares[0].Request
	}
	s.shares = s.shares[:0]
}

// SetPhase selects the phase of the next runs, an index of the labels' phases.
func (s *Session) SetPhase(i int) { s.phase = i }

// Attach starts recording into rec, or stops with nil. No run may be in
// flight.
func (s *Session) Attach(rec *profile.Recorder, l ProfileLabels) error {
	s.disown()
	s.rec, s.labels, s.recorded = rec, l, false
	for _, sl := range s.slots {
		sl.plans, sl.plan, sl.after = nil, recorded{}, nil
	}
	if rec == nil {
		return nil
	}
	s.counter, _ = s.prog.Backend.(Counter)
	s.look = func() profile.DeviceMemory {
		c := s.counter.MemoryCounts()
		return profile.DeviceMemory{Held: c.Held, Used: c.Used, ByClass: c.ByClass}
	}
	phases := l.Phases
	if len(phases) == 0 {
		phases = []string{s.prog.Name}
	}
	plans := make([][][]recorded, len(s.slots)) // [slot][phase][bucket]
	for k, sl := range s.slots {
		plans[k] = make([][]recorded, len(phases))
		for p := range phases {
			for _, pl := range s.prog.Plans {
				// Each plan of the recorder has a costing of its own, because the
				// recorder may ask for costs of one plan while it folds another.
				c := newCosting(pl, sl.mem.Arenas[IO].Host(), s.mem.Weights)
				plans[k][p] = append(plans[k][p], recorded{costs: c, reads: c.reads, inputs: make([]int32, 0, c.room())})
			}
		}
	}
	for p, phase := range phases {
		for i, e := range s.slots[0].execs {
			d := s.describe(i, e, phase)
			d.Inputs = plans[0][p][i].costs.room()
			h, err := rec.Plan(d)
			if err != nil {
				return fmt.Errorf("plan: %s: %w", s.prog.Name, err)
			}
			for k := range plans {
				plans[k][p][i].handle = h
			}
		}
	}
	for k, sl := range s.slots {
		sl.plans = plans[k]
	}
	s.phase = 0
	s.own()
	return nil
}

func (s *Session) describe(bucket int, e Exec, phase string) profile.Plan {
	pl := s.prog.Plans[bucket]
	d := profile.Plan{
		ID:          fmt.Sprintf("%s/%s/T%d", s.prog.Name, phase, pl.Max.T),
		Name:        fmt.Sprintf("%s T≤%d", s.prog.Name, pl.Max.T), // tells the buckets of a program apart
		Model:       s.labels.Model,
		Phase:       phase,
		Backend:     s.prog.Backend.Caps().Name,
		MemoryBytes: map[string]int64{},
	}
	if kind := s.prog.kind(bucket); kind != "" {
		d.ID, d.Name = d.ID+"/"+kind, d.Name+", "+kind
	}
	for c := Activations; c < NumClasses; c++ { // weights are shared by all plans of a model
		d.MemoryBytes[c.String()] = pl.ArenaBytes[c]
	}
	for i := range pl.Steps {
		d.Steps = append(d.Steps, describeStep(pl, &pl.Steps[i], s.mem.Weights))
	}
	d.Buffers = describeBuffers(pl, s.mem.Weights)
	e.Describe(&d)
	return d
}

// ragged are the ops whose cost per token depends on what the token attends to.
var ragged = []*graph.OpDef{graph.OpAttention, graph.OpAttentionKV, graph.OpAttentionRel, graph.OpAttentionGrad, graph.OpAttentionRelGrad}

func describeStep(p *Plan, s *Step, weights []Packed) profile.Step {
	root := s.Root()
	d := profile.Step{ID: s.Index, Name: s.Name, Op: s.Kind, Layer: root.Layer, Stage: root.Stage.String(), Barrier: s.Barrier, Host: s.Host, Alloc: s.Scratch.Bytes}
	for _, v := range s.Out {
		d.Alloc += p.Place(v).Bytes
	}
	d.Rows = root.Out[0].Shape.Outer.Sym == tensor.R
	seen := map[*graph.Value]bool{}
	for _, n := range s.Nodes {
		d.Ragged = d.Ragged || slices.Contains(ragged, n.Op)
		for _, v := range n.In {
			if v == nil || v.Node.Leaf == nil || seen[v] {
				continue
			}
			seen[v] = true
			d.State = d.State || v.Node.Leaf.Kind == graph.StateLeaf
			if v.ID < len(weights) && weights[v.ID] != nil {
				d.Weights += weights[v.ID].Bytes()
			}
		}
	}
	if len(s.Nodes) == 1 {
		return d
	}
	// Shares by FLOPs at the plan's maximum with no inputs bound. This is
	// accurate enough to separate a matrix product from its activation. A node without
	// FLOPs has none, at any size: comparisons count the work of each op per token.
	var total int64
	flops := make([]int64, len(s.Nodes))
	sizes := newStepCost(p, s, nil)
	for i := range s.Nodes {
		flops[i] = sizes.calls[i].at(p.Max, nil).FLOPs
		total += flops[i]
	}
	if total == 0 {
		for i := range flops {
			flops[i] = 1
		}
		total = int64(len(flops))
	}
	for i, n := range s.Nodes {
		d.Nodes = append(d.Nodes, profile.Node{Name: n.Name, Op: n.Op.Name, Share: float64(flops[i]) / float64(total)})
	}
	return d
}
