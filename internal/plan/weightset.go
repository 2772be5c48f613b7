package plan

import (
	"context"
	"fmt"
	"sync"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// WeightSet packs each weight of a model once for a backend; programs of the
// same model share it, and may be bound at the same time.
type WeightSet struct {
	be     Backend
	source Source

	packing chan struct{} // capacity 1: held while one weight is packed
	mu      sync.Mutex    // guards packed
	packed  map[packedKey]Packed
}

// packedKey is a tensor in one format. Programs that read a tensor in different
// formats hold it twice.
type packedKey struct {
	key    string
	format *Format
}

// NewWeightSet starts an empty set over a model's weights.
func NewWeightSet(be Backend, source Source) *WeightSet {
	return &WeightSet{be: be, source: source, packing: make(chan struct{}, 1), packed: map[packedKey]Packed{}}
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

// HeapBytes is the part of Bytes in formats of the backend's own; the rest is where the
// file is mapped.
func (s *WeightSet) HeapBytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var n int64
	for k, p := range s.packed {
		if k.format != nil {
			n += p.Bytes()
		}
	}
	return n
}

// bind returns the packed weights of a program by Value.ID. Packing takes long,
// so it ends between two weights where ctx does.
func (s *WeightSet) bind(ctx context.Context, prog *Program) ([]Packed, error) {
	g := prog.Graph
	out := make([]Packed, len(g.Values))
	us := uses(g, alive(g))
	for _, n := range g.Nodes {
		if n.Leaf == nil || n.Leaf.Kind != graph.WeightLeaf || len(us[n.Out[0].ID]) == 0 {
			continue
		}
		v := n.Out[0]
		p, err := s.get(ctx, v, prog.Packing(v), g.Max)
		if err != nil {
			return nil, err
		}
		out[v.ID] = p
	}
	return out, nil
}

func (s *WeightSet) find(key packedKey) Packed {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.packed[key]
}

// get packs a weight, unless that was done, or waits until another has.
func (s *WeightSet) get(ctx context.Context, v *graph.Value, f *Format, max tensor.Bind) (Packed, error) {
	key := packedKey{v.Node.Leaf.Key, f}
	if p := s.find(key); p != nil {
		return p, nil
	}
	select {
	case s.packing <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-s.packing }()
	if p := s.find(key); p != nil {
		return p, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	w, err := s.load(v, max)
	if err != nil {
		return nil, err
	}
	if w.DType != v.DType {
		return nil, fmt.Errorf("weight %s: stored as %s, the program was compiled for %s", key.key, w.DType, v.DType)
	}
	p, err := s.be.Pack(w, f)
	if err != nil {
		return nil, fmt.Errorf("pack %s: %w", v.Node.Name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.packed[key] = p
	return p, nil
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
