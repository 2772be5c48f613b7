package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// WeightSet packs each weight of a model once for a backend. Programs of the same
// model share it and may be bound concurrently: while one weight is packed,
// others can be packed or found. The set knows which programs read a weight. When
// the last session that reads a weight closes, the weight is freed.
type WeightSet struct {
	be     Backend
	source Source

	mu       sync.Mutex
	resident map[packedKey]*residentWeight
	shared   int // calls of Share whose Close is still to come
}

// packedKey is a tensor in one format. Programs that read a tensor in different
// formats hold it twice.
type packedKey struct {
	key    string
	format *Format
}

// residentWeight is a packed weight and who reads it.
type residentWeight struct {
	packed  Packed           // nil while it is packed
	ready   chan struct{}    // closed when packing has ended, well or not
	readers map[*Program]int // open sessions of each program
}

// NewWeightSet starts an empty set over a model's weights.
func NewWeightSet(be Backend, source Source) *WeightSet {
	return &WeightSet{be: be, source: source, resident: map[packedKey]*residentWeight{}}
}

// Share lets one more owner use the set. Each owner closes it, in any order.
func (s *WeightSet) Share() *WeightSet {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shared++
	return s
}

// Bytes is the resident size of all packed weights.
func (s *WeightSet) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var n int64
	for _, r := range s.resident {
		if r.packed != nil {
			n += r.packed.Bytes()
		}
	}
	return n
}

// HeapBytes is the part of Bytes that a backend packed on the Go heap. The rest is in
// the mapped file or in the memory of a device.
func (s *WeightSet) HeapBytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var n int64
	for k, r := range s.resident {
		if _, device := r.packed.(Freer); k.format != nil && r.packed != nil && !device {
			n += r.packed.Bytes()
		}
	}
	return n
}

// Readers are the names of the programs whose sessions read a weight, sorted, in
// any format.
func (s *WeightSet) Readers(key string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for k, r := range s.resident {
		for p := range r.readers {
			if k.key == key && !slices.Contains(names, p.Name) {
				names = append(names, p.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// boundWeights are the weights of one session.
type boundWeights struct {
	packed []Packed                // by Value.ID, nil for others
	host   map[*graph.Value]Weight // read by steps of the host, as the file has them
	keys   []packedKey             // of packed, to be released
}

// bind packs the weights of a program, or finds them packed. It packs as many at
// a time as the backend has workers. Packing takes long, so bind stops between
// two weights if ctx ends. The weights packed so far stay in the set.
func (s *WeightSet) bind(ctx context.Context, prog *Program) (*boundWeights, error) {
	g := prog.Graph
	w := &boundWeights{packed: make([]Packed, len(g.Values)), host: map[*graph.Value]Weight{}}
	us, whole := uses(g, alive(g)), false
	defer func() {
		if !whole { // after a panic too
			_ = s.release(prog, w.keys, false)
		}
	}()
	var read []*graph.Value // by the backend
	for _, n := range g.Nodes {
		if n.Leaf == nil || n.Leaf.Kind != graph.WeightLeaf {
			continue
		}
		v := n.Out[0]
		backend, host := prog.reads(us, v)
		if host {
			var err error
			if w.host[v], err = s.load(v, g.Max); err != nil {
				return nil, err
			}
		}
		if backend {
			read = append(read, v)
		}
	}
	var mu sync.Mutex // guards w.keys
	err := parallel(s.be.Caps().Workers, len(read), func(i int) error {
		v := read[i]
		key := packedKey{v.Node.Leaf.Key, prog.Packing(v)}
		p, err := s.get(ctx, prog, v, key)
		if err != nil {
			return err
		}
		w.packed[v.ID] = p
		mu.Lock()
		w.keys = append(w.keys, key)
		mu.Unlock()
		return nil
	})
	if err != nil {
		return nil, err
	}
	whole = true
	return w, nil
}

// release records that a session of prog no longer reads these weights. Weights
// without a reader are freed if free is set.
func (s *WeightSet) release(prog *Program, keys []packedKey, free bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, key := range keys {
		r := s.resident[key]
		if r.readers[prog]--; r.readers[prog] == 0 {
			delete(r.readers, prog)
		}
		if free && len(r.readers) == 0 {
			errs = append(errs, s.free(key))
		}
	}
	return errors.Join(errs...)
}

// free frees a weight's memory. The caller holds mu.
func (s *WeightSet) free(key packedKey) error {
	r := s.resident[key]
	delete(s.resident, key)
	if f, ok := r.packed.(Freer); ok {
		return f.Free()
	}
	return nil
}

// Close frees the weights that failed compilations left, if this is the last owner. Sessions
// must be closed before.
func (s *WeightSet) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared > 0 {
		s.shared--
		return nil
	}
	var errs []error
	for key, r := range s.resident {
		if len(r.readers) > 0 {
			errs = append(errs, fmt.Errorf("plan: weight %s is freed while %d programs read it", key.key, len(r.readers)))
		}
		errs = append(errs, s.free(key))
	}
	return errors.Join(errs...)
}

// get packs a weight for a session of prog. If it is already packed, get returns
// it; if another call is packing it, get waits.
func (s *WeightSet) get(ctx context.Context, prog *Program, v *graph.Value, key packedKey) (Packed, error) {
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		s.mu.Lock()
		r := s.resident[key]
		if r == nil {
			r = &residentWeight{ready: make(chan struct{}), readers: map[*Program]int{prog: 1}}
			s.resident[key] = r
			s.mu.Unlock()
			return s.pack(prog, v, key, r)
		}
		if r.packed != nil {
			r.readers[prog]++
			s.mu.Unlock()
			return r.packed, nil
		}
		s.mu.Unlock()
		select {
		case <-r.ready: // and if that failed, this call tries
		case <-ctx.Done():
		}
	}
}

// pack packs the weight of a new entry. If packing fails, it removes the entry.
func (s *WeightSet) pack(prog *Program, v *graph.Value, key packedKey, r *residentWeight) (p Packed, err error) {
	defer func() { // after a panic too
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.packed = p; p == nil {
			delete(s.resident, key)
		}
		close(r.ready)
	}()
	w, err := s.load(v, prog.Graph.Max)
	if err != nil {
		return nil, err
	}
	if w.DType != v.DType {
		return nil, fmt.Errorf("weight %s: stored as %s, the program was compiled for %s", key.key, w.DType, v.DType)
	}
	got, err := s.be.Pack(w, key.format)
	if err != nil {
		return nil, fmt.Errorf("pack %s: %w", v.Node.Name, err)
	}
	return got, nil
}

// load returns a leaf's tensor after checking it against the graph's shape. Only
// leaves of tests have symbolic sizes.
func (s *WeightSet) load(v *graph.Value, most tensor.Bind) (Weight, error) {
	t, err := s.source.Weight(v.Node.Leaf.Key)
	if err != nil {
		return Weight{}, err
	}
	w := Weight{Value: v, DType: t.DType, Data: t.Data, Drop: func() { s.source.Drop(t) }}
	rows, cols := v.Shape.NumRows(most), v.Shape.RowLen()
	if v.Shape.Rank() == 1 {
		rows, cols = 1, rows
	}
	if want := rows * w.DType.RowBytes(cols); len(w.Data) != want {
		return w, fmt.Errorf("weight %s: %d bytes of %s, expected %d for shape %s", v.Node.Leaf.Key, len(w.Data), w.DType, want, v.Shape)
	}
	return w, nil
}
