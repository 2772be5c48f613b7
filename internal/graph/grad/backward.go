// Package grad turns a forward graph into a training graph: gradients of a
// loss by reverse mode (Backward) and the optimizer's step (AdamW). Both add
// nodes to the same Builder, before any fusion; nothing here computes.
//
// train imports it; it imports graph only. An op on the way to the loss that
// has no gradient rule is an error of Backward, hence of building, never of a
// run; other mistakes are kept by the Builder and come out of Freeze too.
package grad

import (
	"errors"
	"fmt"
	"slices"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// Pair is a trainable leaf and d(loss)/d(leaf), of the same shape.
type Pair struct{ Param, Grad *graph.Value }

// ErrNothing reports a loss that no leaf with a gradient has a part in.
var ErrNothing = errors.New("depends on no trainable leaf")

// Backward adds the gradient of loss, of shape [1], and returns it
// for the trainable leaves that loss depends on, in order of declaration.
// Nodes with no trainable leaf upstream get no gradient. Contributions to one
// value are added in descending order of the nodes that read it, so equal
// graphs give equal bits.
func Backward(b *graph.Builder, loss *graph.Value) ([]Pair, error) {
	return backward(b, loss, false)
}

// Recomputing is Backward with less memory and more time: what a layer computed is
// computed once more before its gradients, from what the layer before it gave, and
// not kept until then.
func Recomputing(b *graph.Builder, loss *graph.Value) ([]Pair, error) {
	return backward(b, loss, true)
}

func backward(b *graph.Builder, loss *graph.Value, recompute bool) ([]Pair, error) {
	if err := b.Err(); err != nil {
		return nil, err
	}
	if loss == nil || loss.Shape != tensor.Static(1) {
		return nil, fmt.Errorf("grad: loss is %v, expected a value of shape [1]", loss)
	}
	if !loss.NeedsGrad {
		return nil, fmt.Errorf("grad: loss %s %w", loss.Node.Name, ErrNothing)
	}
	forward := b.Nodes()[:loss.Node.ID+1]
	graph.SetStages(forward, loss)
	b.Stage = graph.StageBackward
	w := walk{b: b, into: make(map[*graph.Value][]*graph.Value), layer: -1}
	end := b.Named(loss.Node, "grad")
	w.into[loss] = []*graph.Value{b.Fill("one", loss.Shape, 1)}
	end()
	for i := len(forward) - 1; i >= 0; i-- {
		if n := forward[i]; n.Leaf == nil {
			if recompute && n.Layer >= 0 && n.Layer != w.layer {
				w.again(forward, n.Layer)
			}
			if err := w.node(n); err != nil {
				return nil, err
			}
		}
	}
	var pairs []Pair
	for _, n := range forward {
		if n.Leaf == nil || !n.Leaf.Trainable {
			continue
		}
		if g := w.sum(n.Out[0]); g != nil {
			pairs = append(pairs, Pair{n.Out[0], g})
		}
	}
	return pairs, b.Err()
}

// walk is the state of one reverse pass.
type walk struct {
	b    *graph.Builder
	into map[*graph.Value][]*graph.Value // contributions to d(loss)/d(value)
	// Of recomputation: the layer that the walk is in, -1 before the first, and the
	// copies of its nodes, by ID.
	layer  int
	copies map[int]*graph.Node
}

// again copies the nodes of a layer. What nobody reads of them is dead code.
func (w *walk) again(forward []*graph.Node, layer int) {
	w.layer, w.copies, w.b.Stage = layer, map[int]*graph.Node{}, graph.StageRecompute
	defer func() { w.b.Stage = graph.StageBackward }()
	for _, n := range forward {
		if n.Leaf != nil || n.Layer != layer {
			continue
		}
		in := slices.Clone(n.In)
		for i, v := range in {
			if v == nil {
				continue
			}
			if c := w.copies[v.Node.ID]; c != nil {
				in[i] = c.Out[v.Index]
			}
		}
		end := w.b.Named(n, "recompute")
		n.Again = w.b.Apply(n.Op, "again", n.Attr, in...)
		w.copies[n.ID] = n.Again
		end()
	}
}

// read is n as gradient rules see it: its copy where there is one.
func (w *walk) read(n *graph.Node) *graph.Node {
	if c := w.copies[n.ID]; c != nil {
		return c
	}
	return n
}

// node applies the rule of n if a gradient reaches it.
func (w *walk) node(n *graph.Node) error {
	dOut, reached := make([]*graph.Value, len(n.Out)), false
	for i, v := range n.Out {
		dOut[i] = w.sum(v)
		reached = reached || dOut[i] != nil
	}
	if !reached {
		return nil
	}
	if n.Op.Grad == nil {
		return fmt.Errorf("grad: %s: op %s has no gradient: %s", n.Name, n.Op.Name, n.Op.NoGrad)
	}
	end := w.b.Named(n, "grad")
	dIn := n.Op.Grad(w.b, w.read(n), dOut)
	end()
	if err := w.b.Err(); err != nil {
		return fmt.Errorf("grad: gradient of %s (%s): %w", n.Name, n.Op.Name, err)
	}
	for i, v := range n.In {
		if v == nil || !v.NeedsGrad {
			continue
		}
		d := dIn[i]
		if d == nil {
			return fmt.Errorf("grad: %s: op %s gives no gradient of operand %d (%s)", n.Name, n.Op.Name, i, v)
		}
		if d.Shape != v.Shape {
			return fmt.Errorf("grad: %s: op %s gives a gradient %s of operand %d (%s)", n.Name, n.Op.Name, d.Shape, i, v)
		}
		w.into[v] = append(w.into[v], d)
	}
	return nil
}

// sum adds up what flows into v; nil where nothing does. All readers of v
// have been walked when it is called.
func (w *walk) sum(v *graph.Value) *graph.Value {
	parts := w.into[v]
	if len(parts) == 0 {
		return nil
	}
	end := w.b.Named(v.Node, "grad")
	defer end()
	total := parts[0]
	for _, p := range parts[1:] {
		total = w.b.Add("sum", total, p)
	}
	return total
}
