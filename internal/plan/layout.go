package plan

import (
	"slices"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// life is the range of steps in which a buffer is live.
type life struct {
	value *graph.Value // the owner of the buffer
	first int          // step that writes it
	last  int          // last step that reads it
	bytes int64
	reuse *graph.Value // owner of the buffer that this one takes over, or nil
}

// lines is n bytes rounded up to whole lines.
func lines(n int64) int64 { return (n + Align - 1) / Align * Align }

// valueBytes is the size of v under a binding, rounded up to whole lines.
func valueBytes(v *graph.Value, b tensor.Bind) int64 {
	rows, cols := v.Shape.NumRows(b), v.Shape.RowLen()
	if v.Shape.Rank() == 1 {
		rows, cols = 1, rows
	}
	return lines(int64(rows) * int64(v.DType.RowBytes(cols)))
}

// formBytes is the size of v in a format, rounded up to whole lines.
func formBytes(v *graph.Value, f *Format, b tensor.Bind) int64 {
	if f == nil || f.Bytes == nil {
		return valueBytes(v, b)
	}
	return lines(f.Bytes(v.Shape.NumRows(b), v.Shape.RowLen()))
}

// bytesOf is the size of all forms of v.
func (p *Plan) bytesOf(v *graph.Value, b tensor.Bind) int64 {
	var n int64
	for _, f := range p.Forms[v.ID] {
		n += formBytes(v, f.Format, b)
	}
	return n
}

// placeForms places the forms of v one after another in v's buffer.
func (p *Plan) placeForms(v *graph.Value, b tensor.Bind) {
	at := p.Places[v.ID]
	for i := range p.Forms[v.ID] {
		f := &p.Forms[v.ID][i]
		f.Place = Place{at.Class, at.Offset, formBytes(v, f.Format, b)}
		at.Offset += f.Place.Bytes
	}
}

// layout assigns memory to every buffer: leaves and outputs one after the other,
// activations by lifetime (largest first, at the lowest free offset). With
// NoReuse all activations live to the end.
func layout(p *Plan, caps Caps) {
	g := p.Graph
	bump := func(c Class, v *graph.Value, b tensor.Bind) {
		n := p.bytesOf(v, b)
		p.Places[v.ID] = Place{Class: c, Offset: p.ArenaBytes[c], Bytes: n}
		p.ArenaBytes[c] += n
		p.placeForms(v, b)
	}
	for _, n := range g.Nodes {
		if n.Leaf == nil {
			continue
		}
		switch v := n.Out[0]; n.Leaf.Kind {
		case graph.InputLeaf:
			bump(IO, v, g.Max)
		case graph.StateLeaf:
			bump(State, v, g.Max)
		case graph.WeightLeaf:
			p.Places[v.ID] = Place{Class: Weights, Bytes: valueBytes(v, g.Max)}
			p.ArenaBytes[Weights] += p.Places[v.ID].Bytes
		}
	}
	for _, v := range g.Outputs {
		if buffer(v) == v && v.Node.Leaf == nil {
			bump(IO, v, g.Max)
		}
	}
	lives := lifetimes(p)
	if caps.NoReuse {
		for _, l := range lives {
			l.last, l.reuse = len(p.Steps), nil
		}
	}
	placeActivations(p, lives)
	for _, l := range lives {
		p.placeForms(l.value, p.sizes(l.value))
	}
	for i := range p.Steps {
		for _, n := range p.Steps[i].Nodes {
			for _, v := range n.Out {
				if b := buffer(v); b != v {
					p.Places[v.ID] = p.Places[b.ID]
				}
			}
		}
	}
	// One scratch region serves all steps: barriers keep them apart.
	var scratch int64
	for i := range p.Steps {
		s := &p.Steps[i]
		if caps.OwnScratch != nil && caps.OwnScratch(s.Kind) && !s.Host {
			continue
		}
		for _, n := range s.Nodes {
			if n.Op.Scratch == nil {
				continue
			}
			bytes := lines(int64(n.Op.Scratch(n, p.Max)) * 4)
			s.Scratch = Place{Class: Scratch, Bytes: max(s.Scratch.Bytes, bytes)}
			scratch = max(scratch, s.Scratch.Bytes)
		}
	}
	p.ArenaBytes[Scratch] = scratch
}

// lifetimes lists activation buffers in order of their first step.
func lifetimes(p *Plan) []*life {
	byOwner := map[*graph.Value]*life{}
	var lives []*life
	for i := range p.Steps {
		s := &p.Steps[i]
		for _, v := range s.Out {
			o := buffer(v)
			if l := byOwner[o]; l != nil {
				l.last = i
				continue
			}
			if p.Places[o.ID].Bytes != 0 || o.Node.Leaf != nil {
				continue // placed already: leaf or output
			}
			l := &life{value: o, first: i, last: i, bytes: p.bytesOf(o, p.sizes(o))}
			byOwner[o] = l
			lives = append(lives, l)
		}
		for _, v := range s.In {
			if l := byOwner[buffer(v)]; l != nil {
				l.last = i
			}
		}
	}
	for _, l := range lives {
		s := &p.Steps[l.first]
		in := s.takes()
		if in == nil || l.value != s.Root().Out[0] {
			continue
		}
		o := buffer(in)
		if src := byOwner[o]; src != nil && p.lastRead(o, l.first) == l.first && src.bytes == l.bytes && p.plain(o) && p.plain(l.value) && !readTwice(s, in) {
			l.reuse = o
			src.last = l.first - 1 // its successor holds the memory from here on
		}
	}
	return lives
}

// lastRead is the last step from i on that reads the contents that the buffer of
// o has when step i begins; -1 if there is none.
func (p *Plan) lastRead(o *graph.Value, i int) int {
	last := -1
	reads := func(v *graph.Value) bool { return buffer(v) == o }
	for j := i; j < len(p.Steps); j++ {
		if slices.ContainsFunc(p.Steps[j].In, reads) {
			last = j
		}
		if p.chunkRows(o) > 0 && slices.Contains(p.Steps[j].Out, o) {
			break // the next chunk
		}
	}
	return last
}

// plain reports whether v has the plain format and no other.
func (p *Plan) plain(v *graph.Value) bool {
	return len(p.Forms[v.ID]) == 1 && p.Forms[v.ID][0].Format == nil
}

// readTwice reports whether v is more than one operand of the step: then its
// buffer must survive until the step has ended.
func readTwice(s *Step, v *graph.Value) bool {
	n := 0
	for _, node := range s.Nodes {
		for _, in := range node.In {
			if in == v {
				n++
			}
		}
	}
	return n > 1
}

// placeActivations solves the layout. A buffer that is reused in place forms one
// chain with its successor. A chain is placed once, for its whole lifetime.
func placeActivations(p *Plan, lives []*life) {
	byOwner := map[*graph.Value]*life{}
	head := map[*graph.Value]*life{}
	var chains []*life
	for _, l := range lives { // in order of first, so heads come before successors
		byOwner[l.value] = l
		if l.reuse == nil {
			c := *l
			head[l.value] = &c
			chains = append(chains, &c)
			continue
		}
		c := head[l.reuse]
		c.last = max(c.last, l.last)
		head[l.value] = c
	}
	slices.SortStableFunc(chains, func(a, b *life) int {
		switch {
		case a.bytes > b.bytes:
			return -1
		case a.bytes < b.bytes:
			return 1
		}
		return a.first - b.first
	})
	var placed []*life
	for _, c := range chains {
		var busy []Place
		for _, q := range placed {
			if q.first <= c.last && c.first <= q.last {
				busy = append(busy, p.Places[q.value.ID])
			}
		}
		slices.SortFunc(busy, func(a, b Place) int {
			switch {
			case a.Offset < b.Offset:
				return -1
			case a.Offset > b.Offset:
				return 1
			}
			return 0
		})
		var at int64
		for _, b := range busy {
			if at+c.bytes <= b.Offset {
				break
			}
			at = max(at, b.Offset+b.Bytes)
		}
		p.Places[c.value.ID] = Place{Activations, at, c.bytes}
		p.ArenaBytes[Activations] = max(p.ArenaBytes[Activations], at+c.bytes)
		placed = append(placed, c)
	}
	for _, l := range lives {
		if l.reuse != nil {
			p.Places[l.value.ID] = p.Places[head[l.value].value.ID]
		}
	}
}

// Deaths lists, per step, the activation places that nobody reads after it;
// test modes poison them.
func Deaths(p *Plan) [][]Place {
	dead := make([][]Place, len(p.Steps))
	for i := range p.Steps {
		for _, v := range p.Steps[i].In {
			pl := p.Place(v)
			if pl.Class != Activations || slices.Contains(dead[i], pl) || stillRead(p, i, v) {
				continue
			}
			dead[i] = append(dead[i], pl)
		}
	}
	return dead
}

// stillRead reports whether v's buffer is live after step i: as v itself, as a
// later version, or as the result of this step.
func stillRead(p *Plan, i int, v *graph.Value) bool {
	pl := p.Place(v)
	for _, o := range p.Steps[i].Out {
		if p.Place(o).overlaps(pl) {
			return true
		}
	}
	for _, steps := range [][]Step{p.Steps[i+1:], p.later} {
		for j := range steps {
			for _, in := range steps[j].In {
				if in == v || buffer(in) == buffer(v) {
					return true
				}
			}
		}
	}
	return false
}
