package calib

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// The program that measures rates is a chain of products, width to 2 width and back.
// Its weights, 64 MiB each, do not fit into the cache of a card. Its input is an id per
// row and its output one row, so that nothing but the products takes time.
const (
	width    = 4096
	products = 4
	tableIDs = 16   // rows of the table that the input is looked up in
	wideMost = 4096 // rows of a run

	productElements = 2 * width * width
	cardTurns       = 9    // of each figure; the fastest counts
	cardLong        = 2e-3 // seconds of a run from which more rows are not needed
	cardBudget      = 0.3  // seconds for the turns of one figure
	moreLayers      = 4    // by which the two blocks differ
	mostRate        = 1e13 // bytes per second; a device may take weights without a copy
)

// MeasureCard times a card. open opens it to compute in a precision, f32 or bf16. On
// a fast card the runs take some milliseconds; opening it and copying a quarter of a
// gigabyte take longer.
func MeasureCard(ctx context.Context, open func(precision string) (plan.Backend, error)) (c Card, err error) {
	c = Card{FLOPs: map[string]float64{}, Measured: true}
	for _, precision := range []string{"bf16", "f32"} {
		began := time.Now()
		be, err := open(precision)
		if err != nil {
			return c, err
		}
		started := time.Since(began).Seconds()
		first := len(c.FLOPs) == 0
		if first {
			c.Start = started
		}
		if err := errors.Join(c.measureOn(ctx, be, precision, first), be.Close()); err != nil {
			return c, fmt.Errorf("measuring the card: %w", err)
		}
	}
	return c, c.check()
}

// measureOn measures products in a precision, and with all also what does not depend on
// it.
func (c *Card) measureOn(ctx context.Context, be plan.Backend, precision string, all bool) (err error) {
	p := &programs{ctx: ctx, be: be}
	defer func() { err = errors.Join(err, p.close()) }()
	if all {
		few := blockWeights(be, tensor.F32)
		short, long := p.session(block(fewRows, layers, tensor.F32), few, plan.BindOptions{}), p.session(block(fewRows, layers+moreLayers, tensor.F32), few, plan.BindOptions{})
		if p.err != nil {
			return nil // close tells
		}
		less, more := p.fastest(short, fewRows), p.fastest(long, fewRows)
		c.Layer = max(0, more-less) / moreLayers
		c.Run = max(less/8, less-layers*c.Layer)
	}
	g, from := chainOf(products), newLarge()
	wide := p.bind(g, plan.NewWeightSet(be, from), plan.BindOptions{})
	if p.err != nil {
		return nil
	}
	if all {
		if c.Copy, err = copyRate(be, g, from); err != nil {
			return err
		}
		c.Read = products * 2 * productElements / rest(p.fastest(wide, 1), c.Run)
	}
	rows, took := 16, 0.0
	for took < cardLong && rows < wideMost && p.err == nil && ctx.Err() == nil {
		rows *= 2
		took = p.fastest(wide, rows)
	}
	c.FLOPs[precision] = float64(rows) * products * 2 * productElements / rest(took, c.Run)
	return context.Cause(ctx)
}

// rest is a time without that of an empty run.
func rest(took, run float64) float64 { return max(took-run, took/2) }

// fastest is the least time of some runs of so many rows, at least one behind the first.
// The first run does not count: it meets cold memory, and some drivers compile then,
// which takes seconds.
func (p *programs) fastest(s *plan.Session, rows int) (least float64) {
	p.timeRun(s, rows)
	for i, spent := 0, 0.0; i < cardTurns && spent < cardBudget && p.err == nil && p.ctx.Err() == nil; i++ {
		t := p.timeRun(s, rows)
		if spent += t; i == 0 || t < least {
			least = t
		}
	}
	return least
}

// chainOf is the graph of a chain of products.
func chainOf(n int) *graph.Graph {
	b := graph.NewBuilder(tensor.Bind{T: wideMost, S: 1, R: 1})
	b.WeightType = func(string) (tensor.DType, error) { return tensor.BF16, nil }
	ids := b.Input("ids", tensor.I32, tensor.Rows(tensor.Of(tensor.T, 1)))
	rows := b.Input("rows", tensor.I32, tensor.Rows(tensor.Of(tensor.R, 1)))
	x := b.Embed("embed", b.Weight("table", graph.RoleEmbedding, tensor.Static(tableIDs, width)), ids, 1)
	for i := range n {
		done := b.LayerScope(i)
		rows, cols := 2*width, width
		if i%2 == 1 {
			rows, cols = cols, rows
		}
		x = b.Linear("product", x, b.Weight(fmt.Sprintf("product.%d", i), graph.RoleUp, tensor.Static(rows, cols)), nil)
		done()
	}
	return freeze(b, b.Gather("row", x, rows))
}

// copyRate is the rate at which the card takes weights.
func copyRate(be plan.Backend, g *graph.Graph, from large) (float64, error) {
	var w plan.Weight
	for _, n := range g.Nodes {
		if n.Leaf != nil && n.Leaf.Key == "product.0" {
			w = plan.Weight{Value: n.Out[0], DType: tensor.BF16, Data: from.data}
		}
	}
	least := 0.0
	for i := range cardTurns / 3 {
		began := time.Now()
		packed, err := be.Pack(w, nil)
		if err != nil {
			return 0, err
		}
		if t := time.Since(began).Seconds(); i == 0 || t < least {
			least = t
		}
		if f, ok := packed.(plan.Freer); ok {
			if err := f.Free(); err != nil {
				return 0, err
			}
		}
	}
	return min(float64(len(from.data))/least, mostRate), nil
}

// large is the source of the chain's weights: all have the same values.
type large struct{ data []byte }

func newLarge() large {
	data := make([]byte, 2*productElements)
	r := rand.New(rand.NewPCG(3, 4))
	n := 2 * someValues
	for i := 0; i < n; i += 2 {
		binary.LittleEndian.PutUint16(data[i:], tensor.F32ToBF16((r.Float32()-0.5)/32))
	}
	for ; n < len(data); n *= 2 {
		copy(data[n:], data[:n])
	}
	return large{data}
}

func (l large) Weight(key string) (weights.Tensor, error) {
	t := weights.Tensor{Name: key, DType: tensor.BF16, Dims: []int{2 * width, width}}
	switch {
	case key == "table":
		t.Dims = []int{tableIDs, width}
	case (key[len(key)-1]-'0')%2 == 1:
		t.Dims = []int{width, 2 * width}
	}
	t.Data = l.data[:2*t.Dims[0]*t.Dims[1]]
	return t, nil
}

func (large) Drop(weights.Tensor) {}
