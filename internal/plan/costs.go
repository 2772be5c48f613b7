package plan

import (
	"reflect"
	"slices"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// costing evaluates the cost of every step of a plan.
//
// Computing costs right after a run would be slow, because the run has evicted
// this data from the processor's caches. Therefore a run only stores the integers
// that costs depend on, and the recorder asks for the costs of many runs at once.
// Layers repeat the same steps, so each kind of step is evaluated once. Most
// costs are linear in T, S and R; their factors are computed when the plan is
// bound.
type costing struct {
	steps []stepCost
	reads []reading

	kinds  []costKind
	kind   []int32        // [step]
	bind   tensor.Bind    // of the last run
	inputs []int32        // the same
	cached []profile.Cost // [kind], of both
}

// reading is an input whose integers some cost depends on.
type reading struct {
	value *graph.Value
	shape tensor.Shape // of value
	host  []int32
	taken []int32 // of the run at hand
}

// costKind is steps that cost the same in every run.
type costKind struct {
	flops, bytes sizeSum // where exact
	exact        bool    // they are the costs for any sizes
	reads        bool    // the cost depends on the integers of inputs too
	step         int     // one of them
}

// sizeSum is fixed + t*T + s*S + r*R.
type sizeSum struct{ fixed, t, s, r int64 }

func (f *sizeSum) at(b tensor.Bind) int64 {
	return f.fixed + f.t*int64(b.T) + f.s*int64(b.S) + f.r*int64(b.R)
}

// stepCost is the input of a step's cost function.
type stepCost struct {
	calls []costCall // [node]
	reads bool       // the integers of inputs too
	// inner are values of the step that fusion keeps out of memory.
	inner []tensor.Shape
	// again are operands that an earlier node of the step has read or written, or
	// that the same node has twice.
	again []again
	// sums are results that the step adds to, so that it reads them too.
	sums []again
}

// operandSize is the input for computing the bytes of an operand.
type operandSize struct {
	outer  tensor.Dim
	part   Part
	packed int64 // bytes of a weight as the backend holds it; 0: no weight
	// forms are the formats in which the step reads or writes it; none: the
	// plain one alone, or a weight.
	forms []*Format
}

// bind sets the rows and the bytes of an operand.
func (o *operandSize) bind(t *graph.Tensor, b tensor.Bind) {
	t.Rows, t.Resident = o.part.Size(o.outer, b), o.packed
	plain := t.Bytes()
	for _, f := range o.forms {
		if f == nil {
			t.Resident += plain
		} else {
			t.Resident += f.Bytes(t.Rows, t.Cols)
		}
	}
}

// costCall is a node's Call that keeps its operands from run to run: only the
// outermost dimension of some changes.
type costCall struct {
	call  graph.Call
	sizes []operandSize // of call.In, then of call.Out
	reads []int         // of call.In: which of costing.reads, or -1
}

// again corrects the count of reads of an operand: one more or one fewer than its
// op declares.
type again struct {
	size   operandSize
	tensor graph.Tensor // but for its rows
}

// newCosting prepares the costs of a plan. io is the memory of its inputs;
// weights are the packed weights.
func newCosting(p *Plan, io []byte, weights []Packed) *costing {
	c := &costing{steps: make([]stepCost, len(p.Steps)), kind: make([]int32, len(p.Steps))}
	for i := range p.Steps {
		c.steps[i] = newStepCost(p, &p.Steps[i], weights)
		c.bindReadings(p, &c.steps[i], io)
		k := slices.IndexFunc(c.kinds, func(k costKind) bool { return c.steps[k.step].same(&c.steps[i]) })
		if k < 0 {
			k = len(c.kinds)
			c.kinds = append(c.kinds, c.newKind(i, p.Max))
		}
		c.kind[i] = int32(k)
	}
	c.cached = make([]profile.Cost, len(c.kinds))
	return c
}

// newStepCost prepares the cost of a step as a function of its sizes.
func newStepCost(p *Plan, s *Step, weights []Packed) stepCost {
	var sc stepCost
	read := map[*graph.Value]bool{}
	for _, n := range s.Nodes {
		operands := make([]graph.Tensor, len(n.In)+len(n.Out))
		cc := costCall{call: graph.Call{Node: n, In: operands[:len(n.In)], Out: operands[len(n.In):]},
			sizes: make([]operandSize, len(operands)), reads: slices.Repeat([]int{-1}, len(n.In))}
		for k, v := range slices.Concat(n.In, n.Out) {
			if v == nil {
				continue
			}
			if k >= len(n.In) && p.Place(v).Bytes == 0 {
				if len(s.Nodes) == 1 {
					continue // nobody wants it
				}
				sc.inner = append(sc.inner, v.Shape)
			}
			t := &operands[k]
			t.DType, t.Cols = v.DType, v.Shape.RowLen()
			cc.sizes[k] = operandSize{outer: v.Shape.Outer, part: p.Part(s, v), forms: p.touched(s, v, k >= len(n.In))}
			if weights != nil && weights[v.ID] != nil {
				cc.sizes[k].packed = weights[v.ID].Bytes()
			}
			if k >= len(n.In) && s.Sums(v) {
				sc.sums = append(sc.sums, again{cc.sizes[k], *t})
			}
			if k < len(n.In) && (read[v] || s.skips(n, k) || slices.Contains(n.In[:k], v)) {
				sc.again = append(sc.again, again{cc.sizes[k], *t})
			}
		}
		for _, v := range n.In {
			read[v] = true
		}
		for _, v := range n.Out { // what the step has just written is at hand; inner has its first read
			read[v] = p.Place(v).Bytes > 0
		}
		sc.calls = append(sc.calls, cc)
	}
	return sc
}

// skips reports whether no rule by which node n of the step runs reads operand k.
func (s *Step) skips(n *graph.Node, k int) bool {
	i := slices.Index(s.Nodes, n)
	if i >= len(s.Choices) || len(s.Choices[i]) == 0 {
		return false
	}
	return !slices.ContainsFunc(s.Choices[i], func(c Choice) bool { return !slices.Contains(c.Rule.Skips, k) })
}

// touched are the formats in which step s reads or writes v; empty if only the
// plain format.
func (p *Plan) touched(s *Step, v *graph.Value, written bool) []*Format {
	if isWeight(v) || p.Place(v).Bytes == 0 {
		return nil
	}
	var out []*Format
	switch {
	case !written:
		out = []*Format{s.ReadAs(v)}
	case s.Convert != nil:
		out = []*Format{s.Convert}
	default:
		for _, f := range p.Forms[buffer(v).ID] {
			if f.Writer == s.origin() {
				out = append(out, f.Format)
			}
		}
	}
	if len(out) == 1 && out[0] == nil {
		return nil
	}
	return out
}

// bindReadings finds the inputs with integers that the cost of a step depends on.
func (c *costing) bindReadings(p *Plan, s *stepCost, io []byte) {
	for i := range s.calls {
		n := s.calls[i].call.Node
		for _, k := range n.Op.CostReads {
			v := n.In[k]
			if v == nil || v.Node.Leaf == nil || v.Node.Leaf.Kind != graph.InputLeaf {
				continue
			}
			r := slices.IndexFunc(c.reads, func(r reading) bool { return r.value == v })
			if r < 0 {
				r = len(c.reads)
				pl := p.Place(v)
				c.reads = append(c.reads, reading{value: v, shape: v.Shape, host: asI32(io[pl.Offset : pl.Offset+pl.Bytes])})
			}
			s.calls[i].reads[k], s.reads = r, true
		}
	}
}

// at is the cost of the step under a binding. taken are the integers of the
// inputs that it depends on, if any. Each fused op counts its operands in full,
// so traffic that fusion avoids is subtracted: one write and one read per
// intermediate value, and all reads but one of a value that several nodes read.
func (s *stepCost) at(b tensor.Bind, taken []reading) profile.Cost {
	var sum profile.Cost
	for k := range s.calls {
		cost := s.calls[k].at(b, taken)
		sum.FLOPs += cost.FLOPs
		sum.Bytes += cost.Bytes
	}
	for _, v := range s.inner {
		sum.Bytes -= 2 * int64(v.Len(b)) * 4
	}
	for i := range s.again {
		sum.Bytes -= s.again[i].bytes(b)
	}
	for i := range s.sums {
		sum.Bytes += s.sums[i].bytes(b)
	}
	return sum
}

func (a *again) bytes(b tensor.Bind) int64 {
	t := a.tensor
	a.size.bind(&t, b)
	return t.Bytes()
}

func (cc *costCall) at(b tensor.Bind, taken []reading) graph.Cost {
	cc.call.Bind = b
	in := len(cc.call.In)
	for k := range cc.call.In {
		t := &cc.call.In[k]
		cc.sizes[k].bind(t, b)
		if r := cc.reads[k]; r >= 0 {
			t.I32 = taken[r].taken
		}
	}
	for k := range cc.call.Out {
		cc.sizes[in+k].bind(&cc.call.Out[k], b)
	}
	return cc.call.Node.Op.Cost(&cc.call)
}

// same reports whether two steps cost the same in every run: all that a cost
// is computed from is equal.
func (s *stepCost) same(o *stepCost) bool {
	operand := func(a, b graph.Tensor) bool { return a.DType == b.DType && a.Cols == b.Cols }
	size := func(a, b operandSize) bool {
		return a.outer == b.outer && a.part == b.part && a.packed == b.packed && slices.Equal(a.forms, b.forms)
	}
	twice := func(a, b again) bool { return size(a.size, b.size) && operand(a.tensor, b.tensor) }
	return slices.Equal(s.inner, o.inner) && slices.EqualFunc(s.again, o.again, twice) && slices.EqualFunc(s.sums, o.sums, twice) && slices.EqualFunc(s.calls, o.calls, func(a, b costCall) bool {
		return a.call.Node.Op == b.call.Node.Op && slices.EqualFunc(a.sizes, b.sizes, size) && slices.Equal(a.reads, b.reads) &&
			slices.EqualFunc(a.call.In, b.call.In, operand) && slices.EqualFunc(a.call.Out, b.call.Out, operand) &&
			reflect.DeepEqual(a.call.Node.Attr, b.call.Node.Attr)
	})
}

// newKind determines how the cost of a step depends on the sizes. It fits four
// sizes and verifies the fit at others, up to the largest.
func (c *costing) newKind(step int, most tensor.Bind) costKind {
	k := costKind{step: step, reads: c.steps[step].reads}
	if k.reads {
		return k
	}
	cost := func(t, s, r int) profile.Cost { return c.steps[step].at(tensor.Bind{T: t, S: s, R: r}, nil) }
	one, t, s, r := cost(1, 1, 1), cost(2, 1, 1), cost(1, 2, 1), cost(1, 1, 2)
	through := func(one, t, s, r int64) sizeSum {
		return sizeSum{fixed: 4*one - t - s - r, t: t - one, s: s - one, r: r - one}
	}
	k.flops = through(one.FLOPs, t.FLOPs, s.FLOPs, r.FLOPs)
	k.bytes = through(one.Bytes, t.Bytes, s.Bytes, r.Bytes)
	k.exact = true
	for _, b := range []tensor.Bind{most, {T: most.T, S: 1, R: 1}, {T: 1, S: most.S, R: 1}, {T: 1, S: 1, R: most.R},
		{T: 3, S: 3, R: 3}, {T: most.T/2 + 1, S: most.S/2 + 1, R: most.R/2 + 1}, {T: most.T/4 + 1, S: most.S/3 + 1, R: most.R/5 + 1}} {
		k.exact = k.exact && cost(b.T, b.S, b.R) == k.at(b)
	}
	return k
}

func (k *costKind) at(b tensor.Bind) profile.Cost {
	return profile.Cost{FLOPs: k.flops.at(b), Bytes: k.bytes.at(b)}
}

// room is the maximum number of integers that a run stores.
func (c *costing) room() int {
	n := 0
	for i := range c.reads {
		n += len(c.reads[i].host)
	}
	return n
}

// take copies the integers that costs depend on, because the next run overwrites
// them.
func take(reads []reading, b tensor.Bind, dst []int32) []int32 {
	for i := range reads {
		r := &reads[i]
		dst = append(dst, r.host[:r.shape.Len(b)]...)
	}
	return dst
}

// Costs computes the costs of the steps of a run. Runs of equal sizes and inputs cost
// the same.
func (c *costing) Costs(run *profile.Run, costs []profile.Cost) (steps int) {
	b := tensor.Bind{T: run.Tokens, S: run.Sequences, R: run.Rows}
	if b != c.bind || !slices.Equal(run.Inputs, c.inputs) {
		c.compute(b, run)
	}
	for i, k := range c.kind {
		costs[i] = c.cached[k]
	}
	return len(c.kind)
}

// compute fills cached for a run.
func (c *costing) compute(b tensor.Bind, run *profile.Run) {
	c.inputs = append(c.inputs[:0], run.Inputs...)
	at := 0
	for i := range c.reads {
		r := &c.reads[i]
		n := r.shape.Len(b)
		r.taken, at = run.Inputs[at:at+n], at+n
	}
	same := b == c.bind
	c.bind = b
	for i := range c.kinds {
		switch k := &c.kinds[i]; {
		case k.reads || !same && !k.exact:
			c.cached[i] = c.steps[k.step].at(b, c.reads)
		case !same:
			c.cached[i] = k.at(b)
		}
	}
}
