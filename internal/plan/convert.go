package plan

import (
	"slices"

	"hotpath/internal/graph"
)

// addConverts adds a convert step after the writer of a value, for each format
// that a reader needs and the writer cannot write.
func (p *Plan) addConverts() {
	type convert struct {
		after int
		value *graph.Value
		to    *Format
	}
	var missing []convert
	for i := range p.Steps {
		for _, v := range p.Steps[i].In {
			taken := p.taken(&p.Steps[i], v)
			if isWeight(v) || len(taken) == 0 || slices.ContainsFunc(taken, func(f *Format) bool { return p.has(v, f) }) {
				continue
			}
			owner := buffer(v)
			writer := p.Forms[owner.ID][0].Writer
			p.Forms[owner.ID] = append(p.Forms[owner.ID], Form{Format: taken[0], Writer: writer})
			missing = append(missing, convert{writer, v, taken[0]})
		}
	}
	for _, n := range p.Graph.Nodes { // forms of state that its writer does not write
		if n.Leaf == nil || n.Leaf.Kind != graph.StateLeaf {
			continue
		}
		for _, f := range p.Forms[n.Out[0].ID] {
			if f.Format == nil || f.Writer < 0 {
				continue
			}
			s := &p.Steps[f.Writer]
			if writes, together := s.writes(); !together || !slices.Contains(writes, f.Format) {
				i := slices.IndexFunc(s.Out, func(v *graph.Value) bool { return buffer(v) == n.Out[0] })
				missing = append(missing, convert{f.Writer, s.Out[i], f.Format})
			}
		}
	}
	if len(missing) == 0 {
		return
	}
	var steps []Step
	moved := make([]int, len(p.Steps)) // old index -> new
	at := map[convert]int{}
	for i, s := range append([]Step{{}}, p.Steps...) { // before the first: what leaves hold
		if i > 0 {
			s.Index = len(steps)
			moved[i-1] = s.Index
			steps = append(steps, s)
		}
		for _, c := range missing {
			if _, ok := at[c]; ok || c.after != i-1 {
				continue
			}
			at[c] = len(steps)
			steps = append(steps, convertStep(len(steps), c.value, c.to))
		}
	}
	for id := range p.Forms {
		for k := range p.Forms[id] {
			if f := &p.Forms[id][k]; f.Writer >= 0 {
				f.Writer = moved[f.Writer]
			}
		}
	}
	for c, i := range at {
		fs := p.Forms[buffer(c.value).ID]
		for k := range fs {
			if fs[k].Format == c.to {
				fs[k].Writer = i
			}
		}
	}
	p.Steps = steps
}

// convertStep writes v in another format in addition to its plain one.
func convertStep(index int, v *graph.Value, to *Format) Step {
	n := &graph.Node{Op: graph.OpConvert, Name: v.Node.Name + " as " + to.Name, Layer: v.Node.Layer, In: []*graph.Value{v}, Out: []*graph.Value{v}}
	return Step{Index: index, Name: n.Name, Kind: n.Op.Name, Nodes: []*graph.Node{n}, In: n.In, Out: n.Out, Choices: [][]Choice{nil}, Convert: to}
}
