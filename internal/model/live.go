package model

import (
	"maps"

	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// With is the same model with other weights: live gives the elements of a weight
// by canonical key; the file's stay where it has none. The model shares the
// Store, and lasts as long as it does.
func (m *Model) With(live map[string]func() ([]float32, error)) *Model {
	c := *m.cfg
	return &Model{store: m.store, cfg: &c, desc: m.desc, places: maps.Clone(m.places), want: m.want, made: map[string]*madeTensor{}, live: live}
}

// liveWeight is a weight that With gave.
func (m *Model) liveWeight(key string, shape tensor.Shape) (weights.Tensor, error) {
	f, err := m.live[key]()
	if err != nil {
		return weights.Tensor{}, err
	}
	dims := []int{shape.NumRows(tensor.Bind{})}
	if shape.Rank() > 1 {
		dims = append(dims, shape.RowLen())
	}
	return vector(key, f, dims...)
}
