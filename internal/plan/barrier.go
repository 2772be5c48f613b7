package plan

import (
	"fmt"
	"slices"

	"hotpath/internal/graph"
)

// access is what a step touches in memory.
type access struct {
	place Place
	write bool
}

func accesses(p *Plan, s *Step) []access {
	var as []access
	for _, v := range s.In {
		as = append(as, access{p.Place(v), false})
	}
	for _, v := range s.Out {
		as = append(as, access{p.Place(v), true})
	}
	if s.Scratch.Bytes > 0 {
		as = append(as, access{s.Scratch, true})
	}
	return as
}

func conflict(a, b access) bool { return (a.write || b.write) && a.place.overlaps(b.place) }

// placeBarriers asks for a barrier before each step that touches what a step
// since the last barrier wrote, or writes what one read.
func placeBarriers(p *Plan) {
	var open []access
	for i := range p.Steps {
		s := &p.Steps[i]
		as := accesses(p, s)
		s.Barrier = false
	search:
		for _, a := range as {
			for _, b := range open {
				if conflict(a, b) {
					s.Barrier = true
					open = open[:0]
					break search
				}
			}
		}
		open = append(open, as...)
	}
}

// Check proves a plan safe, independently of the passes that made it: steps
// between two barriers never write what another of them touches, live buffers
// never overlap, everything read was written before, and state is read in the
// version that the graph says.
func Check(p *Plan) error {
	if p.Commit != commit(slices.Clone(p.Steps)) || p.Commit < len(p.Steps) && !p.Steps[p.Commit].Barrier {
		return fmt.Errorf("step %d, where a run cannot be cancelled any more, is another one or has no barrier", p.Commit)
	}
	version := map[*graph.Value]*graph.Value{} // buffer owner -> version it holds
	for _, n := range p.Graph.Nodes {
		if n.Leaf != nil {
			version[n.Out[0]] = n.Out[0]
		}
	}
	lastRead := map[*graph.Value]int{}
	for i := range p.Steps {
		for _, v := range p.Steps[i].In {
			lastRead[buffer(v)] = i
		}
	}
	var group []int // steps since the last barrier
	for i := range p.Steps {
		s := &p.Steps[i]
		if s.Barrier {
			group = group[:0]
		}
		mine := accesses(p, s)
		for _, j := range group {
			for _, a := range mine {
				for _, b := range accesses(p, &p.Steps[j]) {
					if conflict(a, b) {
						return fmt.Errorf("steps %d (%s) and %d (%s) touch the same memory without a barrier", j, p.Steps[j].Name, i, s.Name)
					}
				}
			}
		}
		group = append(group, i)
		for _, v := range s.In {
			if version[buffer(v)] != v {
				return fmt.Errorf("step %d (%s) reads %s, which its buffer does not hold then", i, s.Name, v)
			}
		}
		for _, v := range s.Out {
			b := buffer(v)
			pl := p.Place(v)
			if pl.Bytes == 0 {
				return fmt.Errorf("step %d (%s) writes %s, which has no place", i, s.Name, v)
			}
			if pl.Offset%Align != 0 || pl.Offset+pl.Bytes > p.ArenaBytes[pl.Class] {
				return fmt.Errorf("%s lies outside of its arena", v)
			}
			// Whatever else holds this memory must be dead, or be this step's
			// elementwise input.
			for o := range version {
				if o == b || !p.Place(o).overlaps(pl) {
					continue
				}
				takeOver := lastRead[o] == i && p.Place(o) == pl && v == s.Root().Out[0] && s.takes() == version[o] && !readTwice(s, version[o])
				if lastRead[o] >= i && !takeOver || p.Place(o).Class != Activations {
					return fmt.Errorf("step %d (%s) overwrites %s, which is still read by step %d", i, s.Name, o, lastRead[o])
				}
				delete(version, o)
			}
			version[b] = v
		}
	}
	for _, v := range p.Graph.Outputs {
		if version[buffer(v)] != v {
			return fmt.Errorf("output %s is overwritten before the run ends", v)
		}
	}
	return nil
}
