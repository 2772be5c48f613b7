package plan

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// stateArena is the state of one session, or of several that share it.
type stateArena struct {
	arena Arena
	refs  atomic.Int32
}

func newStateArena(a Arena) *stateArena {
	s := &stateArena{arena: a}
	s.refs.Store(1)
	return s
}

// release frees the memory with the last session.
func (s *stateArena) release() error {
	if s.refs.Add(-1) > 0 {
		return nil
	}
	return s.arena.Free()
}

// states lists the state leaves of a program, in the order of their memory.
func (p *Program) states() []*graph.Value {
	var out []*graph.Value
	for _, n := range p.Graph.Nodes {
		if n.Leaf != nil && n.Leaf.Kind == graph.StateLeaf {
			out = append(out, n.Out[0])
		}
	}
	return out
}

// sameState reports how the state of two programs differs.
func sameState(a, b *Program) error {
	if a.Backend != b.Backend {
		return fmt.Errorf("plan: %s and %s share state, but run on two backends", a.Name, b.Name)
	}
	as, bs := a.states(), b.states()
	same := func(v, w *graph.Value) bool {
		return v.Node.Name == w.Node.Name && v.Shape == w.Shape && v.DType == w.DType &&
			slices.EqualFunc(a.Plans[0].Forms[v.ID], b.Plans[0].Forms[w.ID], sameForm)
	}
	for i := range max(len(as), len(bs)) {
		if i >= len(as) || i >= len(bs) || !same(as[i], bs[i]) {
			var v, w *graph.Value
			if i < len(as) {
				v = as[i]
			}
			if i < len(bs) {
				w = bs[i]
			}
			return fmt.Errorf("plan: %s and %s share state, but leaf %d is %s and %s", a.Name, b.Name, i, v, w)
		}
	}
	return nil
}

// loadState initialises trainable leaves from the file, as F32.
func (s *Session) loadState(ctx context.Context) error {
	for _, n := range s.prog.Graph.Nodes {
		if n.Leaf == nil || n.Leaf.Kind != graph.StateLeaf || n.Leaf.Key == "" || n.Leaf.Fresh {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		w, err := s.ws.load(n.Out[0], s.prog.Graph.Max)
		if err != nil {
			return err
		}
		f := s.State(n.Out[0])
		if f == nil {
			f = make([]float32, n.Out[0].Shape.Len(s.prog.Graph.Max))
		}
		if err := tensor.Dequantize(f, w.DType, w.Data); err != nil {
			return fmt.Errorf("weight %s: %w", n.Leaf.Key, err)
		}
		if err := s.WriteState(n.Out[0], f); err != nil {
			return err
		}
		w.Drop()
	}
	return nil
}

// State returns the memory of a state leaf; nil if the host cannot access it. It
// may be read while no run is in flight. Use WriteState to change it, because
// state may have other formats too.
func (s *Session) State(v *graph.Value) []float32 {
	host := s.state.arena.Host()
	if host == nil {
		return nil
	}
	return asF32(host[s.prog.Plans[0].Place(v).Offset:])[:v.Shape.Len(s.prog.Graph.Max)]
}

// ReadState copies a state leaf to dst.
func (s *Session) ReadState(v *graph.Value, dst []float32) error {
	return s.state.arena.Read(s.prog.Plans[0].Place(v).Offset, bytesOf(dst))
}

// ReadForm copies a state leaf in one of its formats to dst.
func (s *Session) ReadForm(v *graph.Value, f *Format, dst []byte) error {
	pl, ok := s.prog.Plans[0].Form(v, f)
	if !ok {
		return fmt.Errorf("plan: %s has no form %s", v, f)
	}
	return s.state.arena.Read(pl.Offset, dst)
}

// WriteState replaces a state leaf in all its formats.
func (s *Session) WriteState(v *graph.Value, src []float32) error {
	rows, cols := v.Shape.NumRows(s.prog.Graph.Max), v.Shape.RowLen() // of all buckets, not of the first
	for _, f := range s.prog.Plans[0].Forms[v.ID] {
		data, host := bytesOf(src), s.state.arena.Host()
		switch {
		case f.Format != nil && host != nil:
			f.Format.Encode(host[f.Place.Offset:][:f.Place.Bytes], src, rows, cols)
			continue
		case f.Format != nil:
			data = make([]byte, f.Place.Bytes)
			f.Format.Encode(data, src, rows, cols)
		case host != nil && unsafe.Pointer(&host[f.Place.Offset]) == unsafe.Pointer(unsafe.SliceData(data)):
			continue // it is there already
		}
		if err := s.state.arena.Write(f.Place.Offset, data); err != nil {
			return err
		}
	}
	return nil
}
