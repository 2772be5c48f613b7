package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"hotpath/internal/kv"
	"hotpath/profile"
)

// generator runs the steps of all generations: each step is one ragged run of
// one token for every sequence that decodes, and as much of prompts as fits
// beside them. A goroutine lives while there is work.
type generator struct {
	eng    *Engine
	prog   program
	runner *runner
	pool   *kv.Pool
	// uniform says that a token's bits do not depend on the tokens that are run
	// beside it.
	uniform bool

	mu      sync.Mutex
	arrived []*Stream // new ones, for the loop to take in
	looping bool

	// The loop's own.
	shares  []profile.Share
	asked   int       // tokens of the longest prompt that the step has a part of
	waiting []*Stream // in order; preempted ones in front
	active  []*Stream // by admission
	spare   []*kv.Sequence
	draws   *draws
}

// submit hands a stream to the loop, and starts one if none runs.
func (g *generator) submit(s *Stream) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.arrived = append(g.arrived, s)
	if !g.looping {
		g.looping = true
		go g.loop()
	}
}

// loop steps until nobody wants a token, or a panic ends all streams.
func (g *generator) loop() {
	defer func() {
		if p := recover(); p != nil {
			g.abort(panicked(p))
		}
	}()
	for g.gather() {
		g.step()
	}
}

// gather takes in new streams, lets go of those that ended and admits waiting
// ones. It reports false when nothing is left; the loop must end then.
func (g *generator) gather() bool {
	if !g.collect() {
		return false
	}
	g.admit()
	return true
}

func (g *generator) collect() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, g.arrived...)
	clear(g.arrived)
	g.arrived = g.arrived[:0]
	g.sweep()
	g.looping = len(g.active)+len(g.waiting) > 0
	return g.looping
}

// sweep drops streams that are over.
func (g *generator) sweep() {
	closing := g.eng.closing.Load()
	over := func(s *Stream) bool {
		if closing {
			s.finish(Running, ErrClosed)
		}
		if !s.over() {
			return false
		}
		g.retire(s)
		s.record()
		s.leave()
		return true
	}
	g.active = slices.DeleteFunc(g.active, over)
	g.waiting = slices.DeleteFunc(g.waiting, over)
}

// retire takes a stream's blocks away.
func (g *generator) retire(s *Stream) {
	if s.seq != nil {
		s.seq.Release()
		g.spare = append(g.spare, s.seq)
		s.seq = nil
	}
}

// admit makes waiting streams active while there is room for their prompts.
func (g *generator) admit() {
	for len(g.waiting) > 0 && len(g.active) < g.eng.opts.MaxSeqs {
		s := g.waiting[0]
		if n := len(g.spare); n > 0 {
			s.seq, g.spare = g.spare[n-1], g.spare[:n-1]
		} else {
			s.seq = g.pool.NewSequence(g.runner.maxBlocks)
		}
		cached := 0
		if !g.eng.opts.NoPrefix && !g.long(s) {
			cached = s.seq.Match(s.tokens, s.classes[:len(s.tokens)])
			if cached == s.prefill-1 && cached > 0 && !g.uniform {
				cached = s.seq.Truncate(cached - kv.BlockTokens) // see feed
			}
		}
		// One block beyond the prompt lets it begin to answer; the oldest
		// stream can always take blocks from younger ones.
		if len(g.active) > 0 && s.seq.Missing(len(s.tokens)-cached+1) > g.pool.Available() {
			g.retire(s)
			return
		}
		g.eng.stats.cached.Add(int64(cached))
		s.mu.Lock()
		if s.timing.Started == 0 {
			s.timing.Started = profile.Now()
			s.timing.Cached = cached
		}
		s.mu.Unlock()
		g.waiting = slices.Delete(g.waiting, 0, 1)
		g.active = append(g.active, s)
	}
}

// step composes a batch, runs it and hands out tokens.
func (g *generator) step() {
	_, end := profile.Scope(g.eng.base, "batch")
	g.runner.sess.SetPhase(g.compose())
	if g.eng.opts.Recorder != nil {
		g.share()
	}
	end()
	g.eng.stats.steps.Add(1)
	tokens := g.runner.bind.T
	if !g.uniform {
		tokens = max(tokens, g.asked)
		g.runner.sess.AtLeast(tokens)
	}
	if err := g.runner.run(g.context()); err != nil {
		for _, s := range g.active {
			if s.composed {
				s.finish(Running, err)
			}
		}
		return
	}
	_, end = profile.Scope(g.eng.base, "sample")
	defer end()
	g.draws.streams = g.draws.streams[:0]
	for _, s := range g.active {
		if !s.composed {
			continue
		}
		class := g.class(tokens, s.fed == 1)
		for i := s.seq.Len() - s.fed; i < s.seq.Len(); i++ {
			s.classes[i] = class
		}
		if !g.long(s) {
			s.seq.Commit(class)
		}
		if s.row >= 0 {
			g.draws.streams = append(g.draws.streams, s)
		}
	}
	g.draws.run(g.eng.caps.Coarse)
	for _, s := range g.draws.streams {
		if s.drawn.err != nil {
			s.finish(Running, fmt.Errorf("token %d: %w", len(s.tokens), s.drawn.err))
			continue
		}
		s.push(s.drawn.id)
		g.outgrown(s)
	}
	clear(g.draws.streams)
}

// context is that of the step: where it serves one stream alone it ends with
// that stream's, since a piece of a long prompt takes long; others do not suffer
// from who leaves.
func (g *generator) context() context.Context {
	var only *Stream
	for _, s := range g.active {
		switch {
		case !s.composed:
		case only != nil:
			return g.eng.base
		default:
			only = s
		}
	}
	if only == nil {
		return g.eng.base
	}
	return only.ctx
}

// compose fills the batch: first the streams that decode, so that a long
// prompt delays nobody by more than its share of a step, then prompts. It
// returns the phase that this makes the step.
func (g *generator) compose() int {
	g.runner.reset()
	g.asked = 0
	for _, s := range g.active {
		s.composed, s.row = false, -1
	}
	decoding := 0
	for _, prompts := range [2]bool{false, true} {
		// Preemption shortens the list under way.
		for i := 0; i < len(g.active); i++ {
			if s := g.active[i]; (s.seq.Len() < s.prefill) == prompts {
				g.feed(s)
			}
		}
		if !prompts {
			decoding = g.runner.bind.T
		}
	}
	switch {
	case decoding == g.runner.bind.T:
		return phaseDecode
	case decoding == 0:
		return phasePrefill
	}
	return phaseMixed
}

// long reports whether a stream's text is beyond the length up to which all
// texts rotate alike: what the cache holds of it serves no other.
func (g *generator) long(s *Stream) bool {
	limit := g.eng.cfg.RopeContext
	return limit > 0 && len(s.tokens) > limit
}

// outgrown lets go of what was computed of a text that has just become long,
// where all of it rotates otherwise now.
func (g *generator) outgrown(s *Stream) {
	if g.eng.cfg.RopeRestarts && len(s.tokens) == g.eng.cfg.RopeContext+1 {
		s.seq.Release()
		s.prefill = len(s.tokens)
	}
}

// class is that of tokens in a step of the kernels for so many tokens. The only
// token of its sequence in the step is single: attention has other kernels for
// it.
func (g *generator) class(tokens int, single bool) kv.Class {
	if g.uniform {
		return 0
	}
	class := kv.Class(2 * g.runner.sess.Class(tokens))
	if single {
		class++
	}
	return class
}

// feed puts the next tokens of a stream into the batch.
func (g *generator) feed(s *Stream) {
	r, from := g.runner, s.seq.Len()
	room := r.max.T - r.bind.T
	if room == 0 || r.bind.S == r.max.S {
		return
	}
	n, length := 1, from+1 // of what was generated, one token as it was then
	if from < s.prefill {
		n, length = min(s.prefill-from, room), s.prefill
		if n == s.prefill-from-1 && n > 1 {
			n-- // the last token alone would meet other kernels of attention
		}
	}
	err := r.addCached(s.seq, s.tokens[from:from+n], length)
	for errors.Is(err, kv.ErrNoBlocks) && g.preempt(s) {
		err = r.addCached(s.seq, s.tokens[from:from+n], length)
	}
	if err != nil {
		return // it waits until others end
	}
	s.composed, s.fed = true, n
	if from < s.prefill {
		g.asked = max(g.asked, s.prefill)
		g.eng.stats.prompt.Add(int64(n))
	}
	if from+n == len(s.tokens) {
		s.row = r.bind.R
		r.want(r.bind.T - 1)
	}
}

// preempt sends the youngest stream besides s that is not in the batch back to
// the queue. Its tokens come out of the cache later or are run again, those that
// it generated one at a time, as before: together they would get other bits.
func (g *generator) preempt(s *Stream) bool {
	for i := len(g.active) - 1; i >= 0; i-- {
		v := g.active[i]
		if v == s {
			return false // s is younger than all that could yield
		}
		if v.composed {
			continue
		}
		if g.uniform && (!g.long(v) || g.eng.cfg.RopeRestarts) { // rotation may depend on the length too
			v.prefill = len(v.tokens)
		}
		g.retire(v)
		g.active = slices.Delete(g.active, i, i+1)
		g.waiting = slices.Insert(g.waiting, 0, v)
		g.eng.stats.preempts.Add(1)
		return true
	}
	return false
}

// share tells the profile whose tokens are in the batch.
func (g *generator) share() {
	g.shares = g.shares[:0]
	for _, s := range g.active {
		if s.composed {
			// A token attends to those before it and to itself.
			context, fed := s.seq.Len(), s.fed
			share := profile.Share{Request: s.name, Tokens: fed, Context: context, Pairs: int64(fed)*int64(context-fed) + int64(fed)*int64(fed+1)/2}
			if s.row >= 0 {
				share.Rows = 1
			}
			g.shares = append(g.shares, share)
		}
	}
	g.runner.sess.SetShares(g.shares)
}

// record tells the profile how long a generation took that is over.
func (s *Stream) record() {
	rec := s.gen.eng.opts.Recorder
	if rec == nil {
		return
	}
	s.mu.Lock()
	t := s.timing
	q := profile.Request{ID: s.name, Name: "generate", Start: t.Called, FirstToken: t.FirstToken, End: t.End, PromptTokens: len(s.req.Prompt), OutputTokens: len(s.ids),
		Tokenize: t.Tokenized - t.Called, Compile: t.Queued - t.Tokenized, Queue: max(0, t.Started-t.Queued)}
	if t.Read > 0 { // its reader has the token only then
		q.FirstToken, q.Hand = t.Read, t.Read-t.FirstToken
		q.End = max(q.End, t.Read)
	}
	s.mu.Unlock()
	if q.End == 0 { // its reader left
		q.End = profile.Now()
	}
	_ = rec.Request(q) // its times are readings of one clock, in order
}
