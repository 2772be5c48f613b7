package plan

import (
	"hotpath/internal/graph"
	"hotpath/profile"
)

// describeBuffers lists the plan's buffers and the steps during which they are
// live. The profile attributes every byte of memory to one of them.
func describeBuffers(p *Plan, weights []Packed) []profile.Buffer {
	end := len(p.Steps) - 1
	var out []profile.Buffer
	held := map[*graph.Value]int{} // owner of a buffer -> its place in out
	taken := map[*graph.Value]bool{}
	hold := func(v *graph.Value, bytes int64, first, last int) {
		held[v] = len(out)
		out = append(out, profile.Buffer{Name: v.Node.Name, Class: p.Place(v).Class.String(), Layer: v.Node.Layer, Bytes: bytes, First: first, Last: last})
	}
	for _, n := range p.Graph.Nodes {
		if n.Leaf == nil {
			continue
		}
		v := n.Out[0]
		bytes := p.Place(v).Bytes
		if n.Leaf.Kind == graph.WeightLeaf {
			if v.ID >= len(weights) || weights[v.ID] == nil {
				continue // nobody reads it
			}
			bytes = weights[v.ID].Bytes()
		}
		hold(v, bytes, 0, end)
	}
	for _, v := range p.Graph.Outputs {
		if _, ok := held[buffer(v)]; !ok {
			hold(buffer(v), p.Place(buffer(v)).Bytes, 0, end)
		}
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		for _, v := range s.In {
			if k, ok := held[buffer(v)]; ok && !taken[buffer(v)] { // whose chunks are counted as those of the result
				out[k].Last = max(out[k].Last, i)
			}
		}
		for _, v := range s.Out {
			o := buffer(v)
			if _, ok := held[o]; ok {
				continue
			}
			// An elementwise step may write over its input, whose memory is
			// then counted as the result's.
			for _, in := range s.In {
				if k, ok := held[buffer(in)]; ok && p.Place(o).overlaps(p.Place(in)) {
					out[k].Last, taken[buffer(in)] = i-1, true
				}
			}
			hold(o, p.Place(o).Bytes, i, i)
		}
		if s.Scratch.Bytes > 0 {
			out = append(out, profile.Buffer{Name: s.Name, Class: Scratch.String(), Layer: s.Root().Layer, Bytes: s.Scratch.Bytes, First: i, Last: i})
		}
	}
	return out
}
