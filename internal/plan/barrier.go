package plan

import (
	"fmt"
	"slices"

	"hotpath/internal/graph"
)

// access is the memory that a step reads or writes.
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

// placeBarriers puts a barrier before each step that conflicts with a step since
// the last barrier: it touches memory that the earlier step wrote, or writes
// memory that the earlier step read.
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

// Check proves a plan safe, independently of the passes that made it:
//   - between two barriers, no step writes memory that another step touches;
//   - live buffers never overlap, and neither do the forms of one value;
//   - every value is written before it is read, in the format in which it is read, and
//     the step's rules accept that format;
//   - a value that each worker computes for itself stays inside its step, and depends
//     on no share of the step;
//   - state is read in the version that the graph requires;
//   - only steps of a chunk read that chunk's values.
func Check(p *Plan) error {
	if p.Commit != commit(slices.Clone(p.Steps)) || p.Commit < len(p.Steps) && !p.Steps[p.Commit].Barrier {
		return fmt.Errorf("step %d has no barrier, or is not the first step that commits: expected both", p.Commit)
	}
	version := make([]*graph.Value, len(p.Graph.Values)) // [ID of a buffer's owner] version that it holds
	var owners []*graph.Value                            // of buffers that hold something, but for weights, which overlap nothing
	for _, n := range p.Graph.Nodes {
		if n.Leaf != nil {
			version[n.Out[0].ID] = n.Out[0]
			if n.Leaf.Kind != graph.WeightLeaf {
				owners = append(owners, n.Out[0])
			}
		}
	}
	if err := checkChunks(p); err != nil {
		return err
	}
	lastRead := make([]int, len(p.Graph.Values)) // [ID of a buffer's owner]
	for i := range p.Steps {
		for _, v := range p.Steps[i].In {
			lastRead[buffer(v).ID] = i
		}
	}
	forms := formCheck{plan: p, holds: map[*graph.Value][]*Format{}}
	if err := forms.places(); err != nil {
		return err
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
			if version[buffer(v).ID] != v {
				return fmt.Errorf("step %d (%s) reads %s, but its buffer contains another value at that step", i, s.Name, v)
			}
		}
		if err := forms.step(i); err != nil {
			return err
		}
		if err := checkMerged(p, s); err != nil {
			return fmt.Errorf("step %d (%s) %w", i, s.Name, err)
		}
		for _, v := range s.Out {
			b := buffer(v)
			pl := p.Place(v)
			if pl.Bytes == 0 {
				return fmt.Errorf("step %d (%s) writes %s, which has no place", i, s.Name, v)
			}
			if pl.Offset%Align != 0 || pl.Offset+pl.Bytes > p.ArenaBytes[pl.Class] {
				return fmt.Errorf("%s is outside of its arena", v)
			}
			// Whatever else holds this memory must be dead, or be this step's
			// elementwise input.
			for k := 0; k < len(owners); k++ {
				o := owners[k]
				if o == b || !p.Place(o).overlaps(pl) {
					continue
				}
				held, last := version[o.ID], lastRead[o.ID]
				if p.chunkRows(o) > 0 {
					last = p.lastRead(o, i) // of this chunk
				}
				takeOver := last == i && p.Place(o) == pl && v == s.Root().Out[0] && s.takes() == held && !readTwice(s, held)
				if last >= i && !takeOver || p.Place(o).Class != Activations {
					return fmt.Errorf("step %d (%s) overwrites %s, which is still read by step %d", i, s.Name, o, last)
				}
				version[o.ID] = nil
				owners[k] = owners[len(owners)-1]
				owners = owners[:len(owners)-1]
				k--
			}
			if version[b.ID] == nil {
				owners = append(owners, b)
			}
			version[b.ID] = v
		}
	}
	for _, v := range p.Graph.Outputs {
		if version[buffer(v).ID] != v {
			return fmt.Errorf("output %s is overwritten before the run ends", v)
		}
	}
	return forms.end()
}

// checkMerged checks the nodes that merging moved into a step. Workers do not
// wait for each other within a step.
func checkMerged(p *Plan, s *Step) error {
	for _, n := range s.Nodes {
		for _, v := range n.In {
			if v == nil || !slices.Contains(s.Nodes, v.Node) {
				continue
			}
			own, reader := slices.Contains(s.Before, v.Node), slices.Contains(s.Before, n)
			switch {
			case reader && !own:
				return fmt.Errorf("computes %s in each worker from %s, which is complete only after all shares", n.Name, v)
			case own && !reader && p.Place(v).Bytes > 0:
				return fmt.Errorf("shares %s between workers, but each worker computes its own copy", v)
			case own && !reader && !slices.Contains(p.taken(s, v), s.Own):
				return fmt.Errorf("reads %s as %s, but does not take that format", v, s.Own)
			case slices.Contains(s.After, n) && p.Place(v).Bytes > 0:
				return fmt.Errorf("merges %s, but other steps read it", v)
			}
		}
	}
	return nil
}

// formCheck tracks which formats of each buffer contain its current version.
type formCheck struct {
	plan  *Plan
	holds map[*graph.Value][]*Format // by the owner of a buffer; absent: all of a leaf
}

func (c *formCheck) held(v *graph.Value) []*Format {
	owner := buffer(v)
	if fs, ok := c.holds[owner]; ok || owner.Node.Leaf == nil {
		return fs
	}
	var all []*Format
	for _, f := range c.plan.Forms[owner.ID] {
		all = append(all, f.Format)
	}
	return all
}

// places checks that the forms of a value are inside its buffer and do not
// overlap.
func (c *formCheck) places() error {
	for id, fs := range c.plan.Forms {
		all := c.plan.Places[id]
		for k, f := range fs {
			pl := f.Place
			if pl.Class != all.Class || pl.Offset < all.Offset || pl.Offset+pl.Bytes > all.Offset+all.Bytes {
				return fmt.Errorf("%s as %s is outside of its buffer", c.plan.Graph.Values[id], f.Format)
			}
			if slices.ContainsFunc(fs[:k], func(o Form) bool { return o.Place.overlaps(pl) }) {
				return fmt.Errorf("forms of %s overlap", c.plan.Graph.Values[id])
			}
		}
	}
	return nil
}

// step checks the reads of step i and records its writes.
func (c *formCheck) step(i int) error {
	s := &c.plan.Steps[i]
	for k, v := range s.In {
		if isWeight(v) {
			continue
		}
		if !slices.Contains(c.held(v), s.Reads[k]) {
			return fmt.Errorf("step %d (%s) reads %s as %s, which no step before it has written", i, s.Name, v, s.Reads[k])
		}
		if !slices.Contains(c.plan.taken(s, v), s.Reads[k]) {
			return fmt.Errorf("step %d (%s) reads %s as %s, but does not take that format", i, s.Name, v, s.Reads[k])
		}
	}
	for _, v := range s.Out {
		owner := buffer(v)
		if s.Convert != nil {
			c.holds[owner] = append(slices.Clone(c.held(v)), s.Convert)
			continue
		}
		c.holds[owner] = nil
		for _, f := range c.plan.Forms[owner.ID] {
			if f.Writer == s.origin() {
				c.holds[owner] = append(c.holds[owner], f.Format)
			}
		}
		if len(c.holds[owner]) == 0 && owner.Node.Leaf != nil { // a version before the last
			c.holds[owner] = []*Format{nil}
		}
	}
	return nil
}

// end checks that outputs are plain, and that state leaves the run in all of its
// formats.
func (c *formCheck) end() error {
	for _, v := range c.plan.Graph.Outputs {
		if !isWeight(v) && !slices.Contains(c.held(v), nil) {
			return fmt.Errorf("output %s is not plain", v)
		}
	}
	for _, n := range c.plan.Graph.Nodes {
		if n.Leaf == nil || n.Leaf.Kind != graph.StateLeaf {
			continue
		}
		for _, f := range c.plan.Forms[n.Out[0].ID] {
			if !slices.Contains(c.held(n.Out[0]), f.Format) {
				return fmt.Errorf("%s is stale as %s after the run", n.Out[0], f.Format)
			}
		}
	}
	return nil
}
