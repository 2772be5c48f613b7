// Package plan compiles a frozen graph for a backend: dead code, fusion, order,
// liveness, memory layout and barriers. It then binds the plan to memory in a
// Session that runs without allocating.
//
// It defines the interface that backends implement (Backend, Exec, Arena). It
// imports graph, tensor and the public profile records. Engine and train import
// plan; backends import it for the interfaces. Compile and NewSession report
// every error in a plan. A Run fails only if it is cancelled, if its binding
// exceeds the graph's maximum, or if its device fails.
package plan

import (
	"fmt"
	"slices"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// Class is one kind of memory; each class is one arena.
type Class uint8

const (
	// Weights are bound by the backend's Pack and have no arena offsets.
	Weights Class = iota
	// Activations live only within a run and share memory by lifetime.
	Activations
	// State outlives runs.
	State
	// IO is host memory: inputs before a run, outputs after it.
	IO
	// Scratch belongs to one step at a time.
	Scratch
	// NumClasses is the length of an array indexed by Class.
	NumClasses = iota
)

func (c Class) String() string {
	return [...]string{"weights", "activations", "state", "io", "scratch"}[c]
}

// Align is the alignment of every buffer: one cache line, one zmm register.
const Align = 64

// Place is the memory of a value. Bytes is its size at the plan's maximum.
type Place struct {
	Class  Class
	Offset int64
	Bytes  int64
}

func (p Place) overlaps(q Place) bool {
	return p.Class == q.Class && p.Class != Weights && p.Bytes > 0 && q.Bytes > 0 &&
		p.Offset < q.Offset+q.Bytes && q.Offset < p.Offset+p.Bytes
}

// Step is one call of a kernel.
type Step struct {
	Index   int
	Name    string         // for people: of its last node, or of all where they are siblings
	Kind    string         // the op's name, or the pattern's where nodes were fused
	Nodes   []*graph.Node  // in topological order; more than one where fused
	In      []*graph.Value // operands that come from outside, in order of first use
	Out     []*graph.Value // results that somebody outside reads
	Barrier bool           // every worker must have finished what came before
	Scratch Place          // for the reference implementation of a single node
	Host    bool           // the backend lacks its only node: the host runs it
	inPlace bool           // takes may name an operand
	// What merging brought into the step (Merge).
	Before []*graph.Node // every worker computes them for itself, before its first share
	After  []*graph.Node // a share goes on with them for the columns that it has
	Own    *Format       // format in which a worker keeps the result of Before
	core   []*graph.Node // the other nodes; nil where nothing was merged
	// What lowering decided.
	Choices [][]Choice // [node] how it computes, by the number of rows; nil where the backend has no rules for it
	Reads   []*Format  // [In] the format in which the step reads an operand
	Convert *Format    // what a convert step writes
	Chunk   Chunk      // of rows, where the step is there once per chunk
}

// takes returns the operand whose buffer may receive the result, if this step is
// the last to read it; nil: none. It is an operand of the first node that can
// work in place.
func (s *Step) takes() *graph.Value {
	i := slices.IndexFunc(s.Nodes, func(n *graph.Node) bool { return n.Op.ReuseInput > 0 })
	if !s.inPlace || i < 0 {
		return nil
	}
	return s.Nodes[i].In[s.Nodes[i].Op.ReuseInput-1]
}

// Root is the node that the step ends with, or the last of siblings.
func (s *Step) Root() *graph.Node { return s.Nodes[len(s.Nodes)-1] }

// Class is the compute class of a node of the step at the plan's maximum number
// of rows; f32 unless a rule names another.
func (s *Step) Class(node int) string {
	if cs := s.Choices[node]; len(cs) > 0 {
		return cs[len(cs)-1].Rule.Class
	}
	return "f32"
}

// Plan is a graph compiled for bindings from Min to Max.
type Plan struct {
	Graph *graph.Graph
	// Min is one more than the Max of the previous bucket, 1 in the first bucket.
	// A run that asked for this bucket (Session.AtLeast) may have fewer rows. It
	// uses the kernels for Min rows, so its rows have the same bits as in a full
	// run.
	Min, Max  tensor.Bind
	Invariant bool // one way to compute for every number of rows
	Steps     []Step
	// Commit is the first step with a node that Commits; len(Steps) if there is
	// none. A run can be cancelled only before this step; from it on all steps
	// are computed. The step has a barrier.
	Commit int
	// Places is indexed by Value.ID and contains all forms of a value. Values
	// that fusion removed, or that no step reads, have Bytes 0.
	Places []Place
	// Forms, by Value.ID, are the formats of values that own memory, the plain
	// one first; weights are the backend's own.
	Forms [][]Form
	// ArenaBytes is the size of each arena.
	ArenaBytes [NumClasses]int64

	later  []Step // of a part of a plan (parts.go): the steps behind it
	narrow []int  // [Value.ID] rows of values that have the memory of one chunk; nil: there are no chunks
}

// Place returns the memory of v.
func (p *Plan) Place(v *graph.Value) Place { return p.Places[v.ID] }

// commit finds the first step that commits.
func commit(steps []Step) int {
	i := slices.IndexFunc(steps, func(s Step) bool {
		return slices.ContainsFunc(s.Nodes, func(n *graph.Node) bool { return n.Op.Commits })
	})
	if i < 0 {
		return len(steps)
	}
	steps[i].Barrier = true // whoever is in it knows that nobody is before it
	return i
}

// partial is the same plan without the steps from the first that commits on.
func (p *Plan) partial() *Plan { return p.first(p.Commit) }

// first is the same plan with its first n steps only.
func (p *Plan) first(n int) *Plan {
	q := *p
	q.Steps, q.Commit = p.Steps[:n:n], min(p.Commit, n)
	return &q
}

// forward is the same plan up to the step that gives v, without gradients that
// chunks make before it.
func (p *Plan) forward(v *graph.Value) (*Plan, error) {
	i := slices.IndexFunc(p.Steps, func(s Step) bool { return slices.Contains(s.Nodes, v.Node) })
	if i < 0 || i >= p.Commit {
		return nil, fmt.Errorf("plan: %s is computed by step %d, expected a step before the committing steps", v, i)
	}
	q := p.first(i + 1)
	if q.narrow == nil {
		return q, nil
	}
	needed := map[*graph.Value]bool{v: true}
	var steps []Step
	for _, s := range slices.Backward(q.Steps) {
		if slices.ContainsFunc(s.Out, func(v *graph.Value) bool { return needed[v] }) {
			steps = append(steps, s)
			for _, in := range s.In {
				needed[in] = true
			}
		}
	}
	slices.Reverse(steps)
	q.reorder(steps)
	q.Commit = len(steps)
	placeBarriers(q)
	return q, nil
}

// compile runs the passes for one bucket. Inputs, outputs and state are laid
// out for the graph's own maximum, so that all buckets agree on them.
func compile(g *graph.Graph, be Backend, t *table, least, most tensor.Bind) (*Plan, error) {
	p := &Plan{Graph: g, Min: least, Max: most, Invariant: t.invariant, Places: make([]Place, len(g.Values))}
	p.Steps = fuse(g, alive(g), t.host, be.Patterns())
	p.merge(be.Caps().Merges, t)
	if err := p.lower(t); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	p.chunk(be.Caps().Chunk)
	layout(p, be.Caps())
	placeBarriers(p)
	p.Commit = commit(p.Steps)
	if err := Check(p); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	return p, nil
}

// alive marks the nodes that an output or an effect needs. An effect is a
// node that writes state in place.
func alive(g *graph.Graph) []bool {
	live := make([]bool, len(g.Nodes))
	for _, v := range g.Outputs {
		live[v.Node.ID] = true
	}
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		n := g.Nodes[i]
		if n.Effect() {
			live[i] = true
		}
		if !live[i] {
			continue
		}
		for _, v := range n.In {
			if v != nil {
				live[v.Node.ID] = true
			}
		}
		for _, a := range n.After {
			live[a.ID] = true
		}
	}
	return live
}

// buffer follows in-place versions back to the value that owns the memory.
func buffer(v *graph.Value) *graph.Value {
	for {
		in, ok := v.Node.Op.InPlace[v.Index]
		if !ok {
			return v
		}
		v = v.Node.In[in]
	}
}

func isOutput(g *graph.Graph, v *graph.Value) bool { return slices.Contains(g.Outputs, v) }
