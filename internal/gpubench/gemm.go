package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// chain is the number of pairs of products in one run: a run is much longer than its
// launch.
const chain = 16

// gemm times products of m rows with a matrix [n,k] and back with one of [k,n], many
// in one run, so that values stay on the device between them.
func (b *bench) gemm(work string, m, n, k int) (err error) {
	be, err := b.backend()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, be.Close()) }()
	g := graph.NewBuilder(tensor.Bind{T: m, S: 1, R: 1})
	g.WeightType = func(string) (tensor.DType, error) { return tensor.BF16, nil }
	ids := g.Input("ids", tensor.I32, tensor.Rows(tensor.Of(tensor.T, 1)))
	x := g.Embed("x", g.Weight("table", graph.RoleOther, tensor.Static(64, k)), ids, 1)
	up, down := g.Weight("up", graph.RoleOther, tensor.Static(n, k)), g.Weight("down", graph.RoleOther, tensor.Static(k, n))
	for range chain {
		x = g.Linear("down", g.Linear("up", x, up, nil), down, nil)
	}
	frozen, err := g.Freeze(g.SumSquares("sum", x))
	if err != nil {
		return err
	}
	prog, err := plan.Compile("gemm", frozen, be, plan.Buckets(be, frozen.Max), plan.CompileOptions{})
	if err != nil {
		return err
	}
	s, err := plan.NewSession(context.Background(), prog, plan.NewWeightSet(be, randomly{"table": {64, k}, "up": {n, k}, "down": {k, n}}), plan.BindOptions{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return b.measure(work, 4*chain*float64(m)*float64(n)*float64(k)/1e12, func() ([]float64, error) {
		var times []float64
		for end := time.Now().Add(b.budget); len(times) < b.rounds+3 && (len(times) < 6 || time.Now().Before(end)); {
			begin := time.Now()
			if err := s.Run(context.Background(), frozen.Max); err != nil {
				return nil, err
			}
			times = append(times, time.Since(begin).Seconds())
		}
		return times[3:], nil
	})
}

// randomly is a source of random matrices in bf16, by rows and columns.
type randomly map[string][2]int

func (r randomly) Weight(name string) (weights.Tensor, error) {
	size, ok := r[name]
	if !ok {
		return weights.Tensor{}, fmt.Errorf("no matrix %s", name)
	}
	rng, values := rand.New(rand.NewPCG(1, 2)), make([]float32, size[0]*size[1])
	for i := range values {
		values[i] = float32(rng.NormFloat64()) / float32(size[1])
	}
	data := make([]byte, 2*len(values))
	return weights.Tensor{DType: tensor.BF16, Data: data}, tensor.Quantize(data, tensor.BF16, values)
}
func (randomly) Drop(weights.Tensor) {}
