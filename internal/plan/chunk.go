package plan

import (
	"fmt"
	"slices"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// Without this pass a training step needs memory for the logits of all rows at
// once: rows x vocabulary, often the largest value of the plan. This pass computes
// the head, the loss and their gradients in chunks of rows. For each chunk it
// repeats the steps from the product that computes logits to the gradients of its
// operands. Values in between need the memory of one chunk. Gradients of weights
// are summed over the chunks in order.
//
// The gradient of a row's loss must be known before the losses of all rows are. This
// holds if the loss is a mean. It does not hold if the weight of a row depends on
// the losses of other rows, as in preferences (DPO). Such plans keep all logits.

// Chunk is the part of the rows R that a step computes; the zero value: all.
type Chunk struct {
	First, Rows int // the last chunk of a run may have fewer rows, or none
	Index, Of   int
	origin      int // index of the same step in the first chunk
}

// String names the chunk for people.
func (c Chunk) String() string { return fmt.Sprintf("%d/%d", c.Index+1, c.Of) }

// Part is the part of a value that a step touches.
type Part struct {
	Chunk
	At int // the row of the value's memory where the part begins
}

// Part is the part of v that step s touches; the zero value: all of it.
func (p *Plan) Part(s *Step, v *graph.Value) Part {
	switch {
	case s.Chunk.Rows == 0 || v.Shape.Outer != chunkedRows:
		return Part{}
	case p.chunkRows(v) > 0:
		return Part{Chunk: s.Chunk}
	}
	return Part{Chunk: s.Chunk, At: s.Chunk.First}
}

// Size is the number of rows of the part, for a value with d rows.
func (c Part) Size(d tensor.Dim, b tensor.Bind) int {
	if c.Rows == 0 {
		return d.Size(b)
	}
	return min(max(d.Size(b)-c.First, 0), c.Rows)
}

// Sums reports whether the step adds to the sum of the earlier chunks in v.
func (s *Step) Sums(v *graph.Value) bool {
	return s.Chunk.Index > 0 && v.Node.Op.ByRow == graph.RowSum && slices.Contains(s.Nodes, v.Node)
}

// origin is the index of the step in Forms.
func (s *Step) origin() int {
	if s.Chunk.Index > 0 {
		return s.Chunk.origin
	}
	return s.Index
}

var chunkedRows = tensor.Of(tensor.R, 1)

// chunkRows is the number of rows that v has memory for, if that is one chunk's; 0:
// all rows.
func (p *Plan) chunkRows(v *graph.Value) int {
	if p.narrow == nil {
		return 0
	}
	return p.narrow[v.ID]
}

// sizes is the largest binding that v has memory for.
func (p *Plan) sizes(v *graph.Value) tensor.Bind {
	b := p.Max
	if n := p.chunkRows(v); n > 0 {
		b.R = n
	}
	return b
}

// chunk cuts the rows of logits into chunks of most(rowBytes) rows. Only training
// computes gradients of logits; the plans of other programs stay unchanged.
func (p *Plan) chunk(most func(rowBytes int64) int) {
	trains := slices.ContainsFunc(p.Graph.Nodes, func(n *graph.Node) bool { return n.Op.Commits })
	if most == nil || !trains {
		return
	}
	for i := range p.Steps {
		for _, v := range p.Steps[i].Out {
			if v.Node.Op.ByRow != graph.SameRow || v.Node.Op.Matrix == 0 || v.Shape.Outer != chunkedRows {
				continue
			}
			if rows := most(int64(v.Shape.RowLen()) * 4); rows < p.Max.R {
				if r, ok := p.regionOf(v); ok {
					p.repeat(r, rows)
					return
				}
			}
		}
	}
}

// region is the steps that make and read logits.
type region struct {
	steps  []int // indices, rising
	narrow []*graph.Value
}

// regionOf is the region of logits v; ok is false if it cannot be cut into
// chunks.
func (p *Plan) regionOf(v *graph.Value) (r region, ok bool) {
	r.narrow = []*graph.Value{v}
	nodes := []*graph.Node{v.Node}
	for k := 0; k < len(r.narrow); k++ {
		v := r.narrow[k]
		if isOutput(p.Graph, v) {
			return r, false
		}
		for i := range p.Steps {
			for _, n := range p.Steps[i].Nodes {
				if !slices.Contains(n.In, v) || slices.Contains(nodes, n) {
					continue
				}
				if n.Op.ByRow == graph.AllRows {
					return r, false
				}
				nodes = append(nodes, n)
				for _, o := range n.Out {
					if n.Op.ByRow == graph.SameRow && o.Shape == v.Shape {
						r.narrow = append(r.narrow, o)
					}
				}
			}
		}
	}
	within := func(n *graph.Node) bool { return slices.Contains(nodes, n) }
	for i := range p.Steps {
		s := &p.Steps[i]
		if !slices.ContainsFunc(s.Nodes, within) {
			continue
		}
		if s.Host || s.Convert != nil || s.core != nil || slices.ContainsFunc(s.Nodes, func(n *graph.Node) bool { return !within(n) }) {
			return r, false
		}
		r.steps = append(r.steps, i)
	}
	return r, p.apart(r)
}

// apart reports whether each step between the steps of a region either does not
// depend on the region or is not needed by it.
func (p *Plan) apart(r region) bool {
	_, after := p.around(r)
	for _, i := range after {
		for _, v := range p.Steps[i].Out {
			if buffer(v) != v {
				return false // state has an order of its own
			}
			for _, k := range r.steps {
				if slices.Contains(p.Steps[k].In, v) {
					return false
				}
			}
		}
	}
	return true
}

// around divides the steps between the first and the last step of a region into
// steps that read nothing of the region and steps that do.
func (p *Plan) around(r region) (before, after []int) {
	late := map[*graph.Value]bool{} // made by the region, or of what it made
	for i := r.steps[0]; i <= r.steps[len(r.steps)-1]; i++ {
		s := &p.Steps[i]
		inside := slices.Contains(r.steps, i)
		needs := slices.ContainsFunc(s.In, func(v *graph.Value) bool { return late[buffer(v)] })
		if inside || needs {
			for _, v := range s.Out {
				late[buffer(v)] = true
			}
		}
		switch {
		case inside:
		case needs:
			after = append(after, i)
		default:
			before = append(before, i)
		}
	}
	return before, after
}

// repeat replaces the steps of a region by one copy per chunk of rows rows.
func (p *Plan) repeat(r region, rows int) {
	n := (p.Max.R + rows - 1) / rows
	before, after := p.around(r)
	order := make([]Step, 0, len(p.Steps)+(n-1)*len(r.steps))
	add := func(steps []int, c Chunk) {
		for _, i := range steps {
			s := p.Steps[i]
			if s.Chunk = c; c.Rows > 0 {
				s.Name += " " + c.String()
				s.Chunk.origin = i
			}
			order = append(order, s)
		}
	}
	from, to := r.steps[0], r.steps[len(r.steps)-1]
	order = append(order, p.Steps[:from]...)
	add(before, Chunk{})
	for k := range n {
		add(r.steps, Chunk{First: k * rows, Rows: rows, Index: k, Of: n})
	}
	add(after, Chunk{})
	order = append(order, p.Steps[to+1:]...)
	p.reorder(order)
	p.narrow = make([]int, len(p.Graph.Values))
	for _, v := range r.narrow {
		p.narrow[v.ID] = rows
	}
}

// reorder replaces the plan's steps. Each new step is a copy of an old one,
// identified by its origin. An old step may occur once per chunk, or not at all.
func (p *Plan) reorder(steps []Step) {
	moved := map[int]int{} // old index -> new, of the first chunk
	for i := range steps {
		s := &steps[i]
		was := s.origin()
		if _, ok := moved[was]; !ok {
			moved[was] = i
		}
		s.Index, s.Chunk.origin = i, moved[was]
	}
	forms := make([][]Form, len(p.Forms))
	for id, fs := range p.Forms {
		forms[id] = slices.Clone(fs)
		for k := range forms[id] {
			f := &forms[id][k]
			if to, ok := moved[f.Writer]; ok {
				f.Writer = to
			} else if f.Writer >= 0 {
				f.Writer = len(steps) // by nobody
			}
		}
	}
	p.Steps, p.Forms = steps, forms
}

// checkChunks checks that values of one chunk are read by the steps of that chunk
// alone, and others once all of their chunks are there.
func checkChunks(p *Plan) error {
	written := map[*graph.Value]Chunk{} // by the last step so far
	for i := range p.Steps {
		s := &p.Steps[i]
		for _, v := range s.In {
			w, ok := written[v]
			switch {
			case !ok || w.Rows == 0:
			case w.Index == s.Chunk.Index && s.Chunk.Rows == w.Rows:
			case p.chunkRows(v) > 0 || s.Chunk.Rows > 0 || w.Index+1 < w.Of:
				return fmt.Errorf("step %d (%s) reads %s while its buffer contains chunk %s", i, s.Name, v, w)
			}
		}
		for _, v := range s.Out {
			written[v] = s.Chunk
		}
	}
	return nil
}
