package plan

import (
	"fmt"
	"slices"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// ProfileLabels say what the runs of a session are for.
type ProfileLabels struct {
	Model string
	// Phases are what runs can be for: prefill, decode. SetPhase picks one
	// before a run. None means that the program's name says it all.
	Phases []string
}

// Pause stops recording, or goes on with it, without forgetting the recorder:
// runs with and without can take turns, which shows what recording costs.
func (s *Session) Pause(on bool) { s.paused = on }

// SetShares says which requests the next run is for. It is forgotten after it.
func (s *Session) SetShares(shares []profile.Share) { s.shares = append(s.shares[:0], shares...) }

// SetPhase says which of the labels' phases the next runs are for.
func (s *Session) SetPhase(i int) { s.phase = i }

// Attach starts recording into rec, or stops with nil. No run may be in
// flight.
func (s *Session) Attach(rec *profile.Recorder, l ProfileLabels) error {
	s.handles, s.labels = nil, l
	if rec == nil {
		return nil
	}
	phases := l.Phases
	if len(phases) == 0 {
		phases = []string{s.prog.Name}
	}
	handles := make([][]profile.PlanHandle, len(phases))
	for p, phase := range phases {
		for i, e := range s.execs {
			h, err := rec.Plan(s.describe(i, e, phase))
			if err != nil {
				return fmt.Errorf("plan: %s: %w", s.prog.Name, err)
			}
			handles[p] = append(handles[p], h)
		}
	}
	s.handles, s.phase = handles, 0
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
	for c := Activations; c < NumClasses; c++ { // weights are shared by all plans of a model
		d.MemoryBytes[c.String()] = pl.ArenaBytes[c]
	}
	for i := range pl.Steps {
		d.Steps = append(d.Steps, describeStep(pl, &pl.Steps[i]))
	}
	d.Buffers = describeBuffers(pl, s.mem.Weights)
	e.Describe(&d)
	return d
}

// ragged are the ops whose cost for a token depends on what it attends to.
var ragged = []*graph.OpDef{graph.OpAttention, graph.OpAttentionKV, graph.OpAttentionRel, graph.OpAttentionGrad}

func describeStep(p *Plan, s *Step) profile.Step {
	root := s.Root()
	d := profile.Step{ID: s.Index, Name: root.Name, Op: s.Kind, Layer: root.Layer, Barrier: s.Barrier, Alloc: s.Scratch.Bytes}
	for _, v := range s.Out {
		d.Alloc += p.Place(v).Bytes
	}
	for _, n := range s.Nodes {
		d.Ragged = d.Ragged || slices.Contains(ragged, n.Op)
	}
	if len(s.Nodes) == 1 {
		return d
	}
	// Shares by FLOPs at the plan's maximum with no inputs bound: good enough
	// to tell a matrix product from the activation behind it.
	c := newCosting(p, nil, nil)
	var total int64
	flops := make([]int64, len(s.Nodes))
	for i := range s.Nodes {
		flops[i] = max(1, c.node(s.Index, i, p.Max).FLOPs)
		total += flops[i]
	}
	for i, n := range s.Nodes {
		d.Nodes = append(d.Nodes, profile.Node{Name: n.Name, Op: n.Op.Name, Share: float64(flops[i]) / float64(total)})
	}
	return d
}

// costing evaluates the cost of every step of a plan after a run.
type costing struct {
	plan  *Plan
	calls [][]costCall // [step][node]
	// Most costs depend on the sizes only; runs of one size after the other,
	// as in decoding, need them once.
	bind   tensor.Bind
	cached []profile.Cost // [step], of bind
	varies []bool         // [step] depends on the integers of inputs too
}

type costCall struct {
	call     graph.Call
	in       []*graph.Value
	out      []*graph.Value
	host     []Operand // input leaves, whose integers costs depend on
	resident []int64   // of each operand, as the backend holds it; 0: as the file has it
}

// newCosting prepares the costs of a plan. io, where not nil, is the memory of
// its inputs; weights, where not nil, are what the backend made of the file's.
func newCosting(p *Plan, io []byte, weights []Packed) *costing {
	c := &costing{plan: p, calls: make([][]costCall, len(p.Steps)), cached: make([]profile.Cost, len(p.Steps)), varies: make([]bool, len(p.Steps))}
	for i := range p.Steps {
		s := &p.Steps[i]
		for _, n := range s.Nodes {
			cc := costCall{in: n.In, out: n.Out, host: make([]Operand, len(n.In)), resident: make([]int64, len(n.In))}
			cc.call = graph.Call{Node: n, In: make([]graph.Tensor, len(n.In)), Out: make([]graph.Tensor, len(n.Out))}
			for k, v := range n.In {
				if v != nil && weights != nil && weights[v.ID] != nil {
					cc.resident[k] = weights[v.ID].Bytes()
				}
				if v != nil && v.Node.Leaf != nil && v.Node.Leaf.Kind == graph.InputLeaf && v.DType == tensor.I32 && io != nil {
					pl := p.Place(v)
					cc.host[k] = Operand{Value: v, full: io[pl.Offset : pl.Offset+pl.Bytes]}
					cc.host[k].t.DType, cc.host[k].t.Cols = v.DType, v.Shape.RowLen()
					c.varies[i] = true
				}
			}
			c.calls[i] = append(c.calls[i], cc)
		}
	}
	return c
}

// node is the cost of node k of a step under a binding.
func (c *costing) node(step, k int, b tensor.Bind) graph.Cost {
	cc := &c.calls[step][k]
	cc.call.Bind = b
	for i, v := range cc.in {
		sized(v, b, &cc.call.In[i])
		cc.call.In[i].Resident = cc.resident[i]
		if cc.host[i].full != nil {
			cc.host[i].View(b, &cc.call.In[i])
		}
	}
	for i, v := range cc.out {
		if c.plan.Place(v).Bytes == 0 && len(c.calls[step]) == 1 {
			cc.call.Out[i] = graph.Tensor{}
			continue
		}
		sized(v, b, &cc.call.Out[i])
	}
	return cc.call.Node.Op.Cost(&cc.call)
}

func sized(v *graph.Value, b tensor.Bind, t *graph.Tensor) {
	*t = graph.Tensor{}
	if v != nil {
		t.DType, t.Rows, t.Cols = v.DType, v.Shape.NumRows(b), v.Shape.RowLen()
	}
}

// fill computes the costs of a run. What fusion keeps out of memory is taken
// off: one write and one read of each inner value without a place.
func (c *costing) fill(b tensor.Bind, dst []profile.Cost) {
	same := b == c.bind
	c.bind = b
	for i := range c.calls {
		if !same || c.varies[i] {
			c.cached[i] = c.step(i, b)
		}
		dst[i] = c.cached[i]
	}
}

func (c *costing) step(i int, b tensor.Bind) profile.Cost {
	var sum profile.Cost
	for k := range c.calls[i] {
		cost := c.node(i, k, b)
		sum.FLOPs += cost.FLOPs
		sum.Bytes += cost.Bytes
	}
	if len(c.calls[i]) > 1 {
		for _, n := range c.plan.Steps[i].Nodes {
			for _, v := range n.Out {
				if c.plan.Place(v).Bytes == 0 {
					sum.Bytes -= 2 * int64(v.Shape.Len(b)) * 4
				}
			}
		}
	}
	return sum
}
