package model

import (
	"errors"
	"fmt"
	"slices"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// LoRA adds to chosen projections a product of two small matrices, which are
// trained while the model's own weights stay as the file has them, in any
// encoding.
type LoRA struct {
	Roles []graph.Role // of projections that get one
	Rank  int
	Alpha float64 // the product counts Alpha/Rank times
}

func (l *LoRA) scale() float32 { return float32(l.Alpha / float64(l.Rank)) }

// Adapter is what LoRA adds to one projection. Both matrices are also among
// the parameters.
type Adapter struct {
	Key   string       // of the projection's weight [out,in]
	A     *graph.Value // [rank,in]
	B     *graph.Value // [out,rank]
	Scale float32
}

// ErrRank reports adapters of a rank that a projection cannot have.
var ErrRank = errors.New("no such rank")

// adapted is a projection y of x with what LoRA adds to it.
func (c *Context) adapted(name string, x, y *graph.Value, key string, role graph.Role) *graph.Value {
	if c.lora == nil || !slices.Contains(c.lora.Roles, role) || c.Err() != nil || c.isFresh(key) {
		return y
	}
	in, out, rank := x.Shape.RowLen(), y.Shape.RowLen(), c.lora.Rank
	if rank > min(in, out) {
		c.wrong = fmt.Errorf("%s: a rank of %d for %s [%d,%d], expected at most %d: %w", c.m.store.Path(), rank, key, out, in, min(in, out), ErrRank)
		c.Fail("%w", c.wrong)
		return y
	}
	d := Adapter{Key: key, Scale: c.lora.scale()}
	d.A = c.Fresh(key+".lora_a", role, tensor.Static(rank, in))
	d.B = c.Fresh(key+".lora_b", role, tensor.Static(out, rank))
	c.adapters = append(c.adapters, d)
	part := c.Linear(name+"_lora_b", c.Linear(name+"_lora_a", x, d.A, nil), d.B, nil)
	return c.Add(name+"_lora", y, c.Scale(name+"_lora_scale", part, d.Scale))
}

// Merged is the weight of a projection with an adapter of elements a and b.
func (m *Model) Merged(d Adapter, a, b []float32) ([]float32, error) {
	t, err := m.Weight(d.Key)
	if err != nil {
		return nil, err
	}
	w, err := t.F32()
	m.Drop(t)
	if err != nil {
		return nil, err
	}
	rank := d.A.Shape.Outer.Add
	in := len(a) / rank
	if len(w)*rank != len(b)*in {
		return nil, fmt.Errorf("%s: weight %s has %d elements, expected %d for its adapter", m.store.Path(), d.Key, len(w), len(b)/rank*in)
	}
	w = slices.Clone(w)
	sum := make([]float64, in)
	for o := range len(b) / rank {
		clear(sum)
		for r, f := range b[o*rank : (o+1)*rank] {
			for i, v := range a[r*in : (r+1)*in] {
				sum[i] += float64(f) * float64(v)
			}
		}
		for i, v := range sum {
			w[o*in+i] += float32(v * float64(d.Scale))
		}
	}
	return w, nil
}
