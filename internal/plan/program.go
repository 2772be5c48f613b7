package plan

import (
	"context"
	"fmt"
	"sync"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// Program is a graph compiled for a backend, in a few buckets of sizes.
type Program struct {
	Name    string // embed, generate, score, train
	Graph   *graph.Graph
	Backend Backend
	Plans   []*Plan // by growing Max
}

// Buckets are the usual ones for a graph: single rows, small and large runs
// want different kernels and different amounts of memory touched.
func Buckets(max tensor.Bind) []tensor.Bind {
	var bs []tensor.Bind
	for _, t := range []int{1, 64} {
		if t < max.T {
			bs = append(bs, tensor.Bind{T: t, S: min(max.S, t), R: min(max.R, t)})
		}
	}
	return append(bs, max)
}

// Compile plans a graph for each bucket; the last bucket is the graph's own
// maximum.
func Compile(name string, g *graph.Graph, be Backend, buckets []tensor.Bind) (*Program, error) {
	p := &Program{Name: name, Graph: g, Backend: be}
	if len(buckets) == 0 || buckets[len(buckets)-1] != g.Max {
		return nil, fmt.Errorf("plan: %s: the last bucket must be the graph's maximum %v", name, g.Max)
	}
	least := tensor.Bind{T: 1, S: 1, R: 1}
	for _, b := range buckets {
		pl, err := compile(g, be.Patterns(), least, b, be.Caps())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		p.Plans = append(p.Plans, pl)
		least = tensor.Bind{T: b.T + 1, S: b.S + 1, R: b.R + 1}
	}
	return p, nil
}

// bucket is the index of the smallest plan that b fits and that is made for as
// many tokens as least, or the last one where least is beyond all.
func (p *Program) bucket(b tensor.Bind, least int) (int, error) {
	b.T = max(b.T, min(least, p.Graph.Max.T))
	for i, pl := range p.Plans {
		if b.Fits(pl.Max) {
			return i, nil
		}
	}
	return 0, fmt.Errorf("plan: %s: a run of %d tokens, %d sequences and %d rows is beyond the maximum %d, %d, %d",
		p.Name, b.T, b.S, b.R, p.Graph.Max.T, p.Graph.Max.S, p.Graph.Max.R)
}

// WeightSet packs each weight of a model once for a backend; programs of the
// same model share it.
type WeightSet struct {
	be     Backend
	source Source

	mu     sync.Mutex
	packed map[string]Packed
}

// NewWeightSet starts an empty set over a model's weights.
func NewWeightSet(be Backend, source Source) *WeightSet {
	return &WeightSet{be: be, source: source, packed: map[string]Packed{}}
}

// Bytes is the resident size of what was packed.
func (s *WeightSet) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var n int64
	for _, p := range s.packed {
		n += p.Bytes()
	}
	return n
}

// bind returns the packed weights of a program by Value.ID. Packing takes long,
// so it ends between two weights where ctx does.
func (s *WeightSet) bind(ctx context.Context, g *graph.Graph) ([]Packed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Packed, len(g.Values))
	us := uses(g, alive(g))
	for _, n := range g.Nodes {
		if n.Leaf == nil || n.Leaf.Kind != graph.WeightLeaf || len(us[n.Out[0].ID]) == 0 {
			continue
		}
		v := n.Out[0]
		if p := s.packed[n.Leaf.Key]; p != nil {
			out[v.ID] = p
			continue
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		w, err := s.load(v, g.Max)
		if err != nil {
			return nil, err
		}
		p, err := s.be.Pack(w, us[v.ID])
		if err != nil {
			return nil, fmt.Errorf("pack %s: %w", n.Name, err)
		}
		s.packed[n.Leaf.Key] = p
		out[v.ID] = p
	}
	return out, nil
}

// load fetches a leaf's tensor and holds it against the graph's shape, which
// only a test's leaf sizes by a symbol.
func (s *WeightSet) load(v *graph.Value, max tensor.Bind) (Weight, error) {
	t, err := s.source.Weight(v.Node.Leaf.Key)
	if err != nil {
		return Weight{}, err
	}
	w := Weight{Value: v, DType: t.DType, Data: t.Data, Drop: func() { s.source.Drop(t) }}
	rows, cols := v.Shape.NumRows(max), v.Shape.RowLen()
	if v.Shape.Rank() == 1 {
		rows, cols = 1, rows
	}
	if want := rows * w.DType.RowBytes(cols); len(w.Data) != want {
		return w, fmt.Errorf("weight %s: %d bytes of %s, expected %d for shape %s", v.Node.Leaf.Key, len(w.Data), w.DType, want, v.Shape)
	}
	return w, nil
}
