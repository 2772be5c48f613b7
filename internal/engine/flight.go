package engine

import (
	"errors"
	"fmt"
	"slices"

	"hotpath/internal/sample"
	"hotpath/profile"
)

// flight is a step that was enqueued. A device computes it while the loop composes
// the next one: ids stay on the device as the next step's tokens (graph.OpResume), and
// the loop sees them one step later. So a text that a token ends has one step too many,
// whose token nobody reads.
type flight struct {
	at     *worker
	runner *runner
	tokens int // that choose kernels
	parts  []flown
}

// flown is a stream's part in a flight.
type flown struct {
	s    *Stream
	row  int // of its id, -1: none
	from int // its first token in the step
	n    int // tokens
	// follows says that an earlier step with the stream was in flight when this one
	// was enqueued: where that one ended the text, this one computed nothing.
	follows bool
}

// over reports whether a stream of the flight has ended.
func (f *flight) over() bool {
	return slices.ContainsFunc(f.parts, func(p flown) bool { return p.s.over() })
}

// step composes a batch, runs it and hands out tokens. A batch that the device can
// resume is left in flight, and the one before it is waited for in its place.
func (g *generator) step() {
	r := g.pick()
	if g.flying != nil && !g.follows(r) {
		g.land(g.flying)
	}
	before := g.flying
	f := g.launch(r)
	if before != nil {
		g.land(before)
	}
	if f == nil {
		return
	}
	if g.flying = f; !g.follows(r) || g.short {
		g.land(f)
	}
}

// follows reports whether a step of a runner may be composed before the ids of the
// step in flight are known.
func (g *generator) follows(r *runner) bool { return g.layout.Resumes && r == g.sampled }

// launch composes a step and enqueues it. It returns nil if the step failed, or if
// all streams wait for the step in flight.
func (g *generator) launch(r *runner) *flight {
	_, end := profile.Scope(g.eng.hosted(), "batch")
	f := &g.flights[0]
	if f == g.flying {
		f = &g.flights[1]
	}
	f.runner, f.at, f.parts, g.short = r, r.workers[0], f.parts[:0], false
	if g.flying != nil && g.flying.at == f.at {
		f.at = r.workers[1]
	}
	g.at = f.at
	r.sess.SetPhase(g.compose())
	if g.at.Bind.T == 0 && g.flying != nil {
		end()
		return nil
	}
	g.count()
	if g.eng.opts.Recorder != nil {
		g.share(r.sess)
	}
	for _, s := range g.active {
		if s.composed {
			f.parts = append(f.parts, flown{s, s.row, s.seq.Len() - s.fed, s.fed, s.aloft > 0})
		}
	}
	end()
	g.eng.stats.steps.Add(1)
	f.tokens = g.at.Bind.T
	if !g.uniform {
		f.tokens = max(f.tokens, g.asked)
		r.sess.AtLeast(f.tokens)
	}
	if err := f.at.enqueue(g.context()); err != nil {
		f.fail(err)
		return nil
	}
	for _, p := range f.parts {
		p.s.aloft++
		if p.row >= 0 {
			p.s.pending, p.s.last = p.s.pending+1, p.row
		}
	}
	return f
}

// fail ends the streams of a flight.
func (f *flight) fail(err error) {
	for _, p := range f.parts {
		p.s.finish(Running, err)
	}
}

// land waits for a flight and hands out its tokens.
func (g *generator) land(f *flight) {
	if g.flying == f {
		g.flying = nil
	}
	err := f.at.wait()
	for _, p := range f.parts {
		p.s.aloft--
		if p.row >= 0 {
			p.s.pending--
		}
	}
	if err != nil {
		f.fail(err)
		return
	}
	_, end := profile.Scope(g.eng.hosted(), "sample")
	defer end()
	g.draws.streams = g.draws.streams[:0]
	for _, p := range f.parts {
		s := p.s
		if p.follows && s.ends() {
			continue
		}
		class := g.class(f.tokens, p.n == 1)
		for i := p.from; i < p.from+p.n; i++ {
			s.classes[i] = class
		}
		if !g.long(s) {
			s.seq.CommitTo(p.from+p.n, class)
		}
		if s.row = p.row; s.row >= 0 {
			g.draws.streams = append(g.draws.streams, s)
		}
	}
	if f.runner == g.sampled {
		g.draws.collect(f.at.ids)
	} else {
		g.draws.drawAll(f.runner.sess.Active(), g.eng.caps.Coarse)
	}
	for _, s := range g.draws.streams {
		if s.drawn.err != nil {
			err := s.drawn.err
			if errors.Is(err, sample.ErrLogits) {
				err = fmt.Errorf("%w (%w)", errNumbers, err)
			}
			s.finish(Running, fmt.Errorf("token %d: %w", len(s.tokens), err))
			continue
		}
		s.push(s.drawn.id)
		if i := len(s.tokens) - 1; i < s.seq.Len() { // the step in flight has it already
			s.seq.Name(i, s.drawn.id)
		}
		g.outgrown(s)
	}
	clear(g.draws.streams)
}
