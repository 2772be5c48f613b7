package plan

import (
	"fmt"
	"runtime"
	"slices"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// Program is a graph compiled for a backend, in a few buckets of sizes.
type Program struct {
	Name    string // embed, generate, score, train
	Graph   *graph.Graph
	Backend Backend
	// Plans are the buckets by increasing Max. After them come the partial and
	// the forward plan of each bucket, if the program has such plans.
	Plans   []*Plan
	buckets int
	ends    [numEnds]int // where the plans of a kind begin; 0: there are none
	table   *table
}

// end is the point at which a run ends.
type end uint8

const (
	whole   end = iota
	partial     // before the first node that commits
	forward     // with CompileOptions.Forward
	numEnds
)

// kind names plans that are not whole.
func (p *Program) kind(i int) string {
	switch {
	case p.ends[forward] > 0 && i >= p.ends[forward]:
		return "forward"
	case p.ends[partial] > 0 && i >= p.ends[partial]:
		return "partial"
	}
	return ""
}

// Buckets are the default buckets for a graph: the backend's, and the graph's own
// maximum.
func Buckets(be Backend, most tensor.Bind) []tensor.Bind {
	var bs []tensor.Bind
	for _, t := range be.Caps().Buckets {
		if t < most.T {
			bs = append(bs, tensor.Bind{T: t, S: min(most.S, t), R: min(most.R, t)})
		}
	}
	return append(bs, most)
}

// CompileOptions choose how a graph is planned.
type CompileOptions struct {
	// Invariant asks for one rule per op for every number of rows.
	Invariant bool
	// Partial adds plans that end before the first node that commits. Another run
	// commits their results (Session.Partial).
	Partial bool
	// Forward adds plans that end with this value, for runs that need nothing
	// else (Session.Forward).
	Forward *graph.Value
}

// Compile plans a graph for each bucket; the last bucket is the graph's own
// maximum.
func Compile(name string, g *graph.Graph, be Backend, buckets []tensor.Bind, o CompileOptions) (*Program, error) {
	host, err := place(g, be)
	if err != nil {
		return nil, fmt.Errorf("plan: %s: %w", name, err)
	}
	p := &Program{Name: name, Graph: g, Backend: be, table: newTable(g, be, host, o.Invariant)}
	if len(buckets) == 0 || buckets[len(buckets)-1] != g.Max {
		return nil, fmt.Errorf("plan: %s: the last bucket must be the graph's maximum %v", name, g.Max)
	}
	p.Plans = make([]*Plan, len(buckets))
	err = parallel(runtime.GOMAXPROCS(0), len(buckets), func(i int) (err error) {
		least := tensor.Bind{T: 1, S: 1, R: 1}
		if i > 0 {
			least.T = buckets[i-1].T + 1
		}
		p.Plans[i], err = compile(g, be, p.table, least, buckets[i])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, pl := range p.Plans {
		for _, n := range g.Nodes { // buckets share this memory, whichever steps write it
			if n.Leaf != nil && !slices.EqualFunc(pl.Forms[n.Out[0].ID], p.Plans[0].Forms[n.Out[0].ID], sameForm) {
				return nil, fmt.Errorf("plan: %s: %s has other formats in a bucket of %d rows than in one of %d", name, n.Out[0], pl.Max.T, p.Plans[0].Max.T)
			}
		}
	}
	p.buckets = len(p.Plans)
	if o.Partial {
		p.ends[partial] = len(p.Plans)
		for _, pl := range p.Plans[:p.buckets] {
			p.Plans = append(p.Plans, pl.partial())
		}
	}
	if o.Forward != nil {
		p.ends[forward] = len(p.Plans)
		for _, pl := range p.Plans[:p.buckets] {
			q, err := pl.forward(o.Forward)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			p.Plans = append(p.Plans, q)
		}
	}
	return p, nil
}

func sameForm(a, b Form) bool { return a.Format == b.Format && a.Place == b.Place }

// Packing is the resident format of a weight; nil for the file's rows.
func (p *Program) Packing(weight *graph.Value) *Format { return p.table.packings[weight.ID] }

// MemoryBytes is the size of each arena of a session of p, and of its weights in the
// formats in which they are resident; IO is the size of one slot.
func (p *Program) MemoryBytes() [NumClasses]int64 {
	var b [NumClasses]int64
	for _, pl := range p.Plans {
		for c := range b {
			b[c] = max(b[c], pl.ArenaBytes[c])
		}
	}
	b[Weights] = 0
	for _, n := range p.Graph.Nodes {
		if n.Leaf != nil && n.Leaf.Kind == graph.WeightLeaf {
			b[Weights] += formBytes(n.Out[0], p.Packing(n.Out[0]), p.Graph.Max)
		}
	}
	return b
}

// Uniform reports whether every op uses one rule for any number of rows. The
// result of a row then does not depend on the other rows of its batch. Attention
// over a cache has another kernel for the only query of a sequence, unless the
// program is invariant.
func (p *Program) Uniform() bool {
	rule := map[*graph.Node]*Rule{}
	for _, pl := range p.Plans {
		for i := range pl.Steps {
			for k, n := range pl.Steps[i].Nodes {
				if n.Op == graph.OpAttentionKV && pl.Steps[i].Choices[k] != nil && !pl.Invariant {
					return false
				}
				for _, c := range pl.Steps[i].Choices[k] {
					if r, ok := rule[n]; ok && r != c.Rule {
						return false
					}
					rule[n] = c.Rule
				}
			}
		}
	}
	return true
}

// bucket is the index of the smallest plan that fits b and at least least tokens,
// or of the last plan if none fits least.
func (p *Program) bucket(b tensor.Bind, least int) (int, error) {
	b.T = max(b.T, min(least, p.Graph.Max.T))
	for i, pl := range p.Plans[:p.buckets] {
		if b.Fits(pl.Max) {
			return i, nil
		}
	}
	return 0, fmt.Errorf("plan: %s: a run of %d tokens, %d sequences and %d rows is beyond the maximum %d, %d, %d",
		p.Name, b.T, b.S, b.R, p.Graph.Max.T, p.Graph.Max.S, p.Graph.Max.R)
}

// commits reports whether runs of the program rewrite state for good, as training
// does.
func (p *Program) commits() bool {
	return slices.ContainsFunc(p.Graph.Nodes, func(n *graph.Node) bool { return n.Op != nil && n.Op.Commits })
}
