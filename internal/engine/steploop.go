package engine

import (
	"context"
	"errors"
	"slices"
	"sync"

	"hotpath/internal/kv"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/profile"
)

// generator runs the steps of all generations. Each step is one ragged run: one
// token for every sequence that decodes, and as many prompt tokens as fit in
// addition. Its goroutine lives while there is work.
type generator struct {
	eng  *Engine
	prog program
	// sampled returns ids, logits returns logits; both share one KV cache.
	// sampled is nil if the host samples all tokens, logits is nil as long as it
	// has sampled none.
	sampled, logits *runner
	logitsProg      program
	sess            *plan.Session // of the first of them
	maxBlocks       int           // per sequence
	layout          model.KVLayout
	pool            *kv.Pool
	// uniform reports that the bits of a token do not depend on the other tokens
	// of its step.
	uniform bool

	mu      sync.Mutex
	arrived []*Stream // new ones, for the loop to take in
	looping bool
	held    int // callers of HoldGenerations: no loop starts while there are any

	// The loop's own.
	at      *worker // of the step
	shares  []profile.Share
	asked   int       // tokens of the longest prompt that the step has a part of
	waiting []*Stream // in order; preempted ones in front
	active  []*Stream // by admission
	spare   []*kv.Sequence
	draws   *draws
	flying  *flight   // the step that the device computes, if the loop has not waited for it yet
	flights [2]flight // see flight.go
	next    [1]int32  // token of a stream whose id has not come back yet
	short   bool      // a stream of the step has no block, and blocks of others may be in use
}

func newGenerator(e *Engine) *generator {
	return &generator{eng: e, prog: newProgram(), logitsProg: newProgram()}
}

// submit hands a stream to the loop, and starts one if none runs.
func (g *generator) submit(s *Stream) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.arrived = append(g.arrived, s)
	g.begin()
}

// begin starts the loop if there is work for one. The caller has the lock.
func (g *generator) begin() {
	if !g.looping && g.held == 0 && len(g.arrived) > 0 {
		g.looping = true
		go g.loop()
	}
}

// HoldGenerations lets generations that start from now on wait until release is
// called, so that their first step has all of them, in the order in which they
// started. Those that are under way go on. release may be called several times, and
// must be called before Close.
func (e *Engine) HoldGenerations() (release func()) {
	g := e.generator
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held++
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.held--
		g.begin()
	})
}

// loop runs steps until no stream wants a token, or a panic ends all streams.
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

// gather accepts new streams, removes ended ones and admits waiting ones. It
// returns false if no stream is left; the loop must then end.
func (g *generator) gather() bool {
	if g.flying != nil && (g.eng.closing.Load() || g.flying.over()) {
		g.land(g.flying)
	}
	if !g.collect() {
		return false
	}
	g.admit()
	g.count()
	return true
}

func (g *generator) collect() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held == 0 || g.eng.closing.Load() {
		g.waiting = append(g.waiting, g.arrived...)
		clear(g.arrived)
		g.arrived = g.arrived[:0]
	}
	g.sweep()
	g.looping = len(g.active)+len(g.waiting) > 0
	g.count() // while no other loop can have begun
	return g.looping
}

// sweep drops streams that are over.
func (g *generator) sweep() {
	closing := g.eng.closing.Load()
	over := func(s *Stream) bool {
		if closing {
			s.finish(Running, ErrClosed)
		}
		if s.aloft > 0 || !s.over() {
			return false // a run in flight still writes into its blocks
		}
		g.retire(s)
		s.record()
		s.leave()
		return true
	}
	g.active = slices.DeleteFunc(g.active, over)
	g.waiting = slices.DeleteFunc(g.waiting, over)
}

// retire frees a stream's blocks.
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
			s.seq = g.pool.NewSequence(g.maxBlocks)
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

// pick chooses the program of a step: the program that samples on the device,
// unless a stream has penalties.
func (g *generator) pick() *runner {
	if g.sampled == nil || slices.ContainsFunc(g.active, func(s *Stream) bool { return !s.req.Sample.Penalties.None() }) {
		return g.logits
	}
	return g.sampled
}

// context is the context of the step. A step for one stream ends with that stream's
// context, because a part of a long prompt takes long. A step for several streams
// does not end when one of them does.
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

// compose fills the batch: first the streams that decode, then prompts. So a long
// prompt delays other streams by no more than its share of a step. It returns the
// phase of the step.
func (g *generator) compose() int {
	g.at.Reset()
	g.asked = 0
	for _, s := range g.active {
		s.composed, s.row = false, -1
	}
	decoding := 0
	for _, prompts := range [2]bool{false, true} {
		// Preemption shortens the list during the loop.
		for i := 0; i < len(g.active); i++ {
			if s := g.active[i]; (s.seq.Len() < s.prefill) == prompts {
				g.feed(s)
			}
		}
		if !prompts {
			decoding = g.at.Bind.T
		}
	}
	switch {
	case decoding == g.at.Bind.T:
		return phaseDecode
	case decoding == 0:
		return phasePrefill
	}
	return phaseMixed
}

// long reports whether a stream's text is longer than RopeContext. Up to that length
// all texts have the same rotary positions; beyond it the cache of one text cannot
// serve another.
func (g *generator) long(s *Stream) bool {
	limit := g.eng.cfg.RopeContext
	return limit > 0 && len(s.tokens) > limit
}

// outgrown drops the cache of a text that has just become long, if the model then
// rotates all of its tokens differently.
func (g *generator) outgrown(s *Stream) {
	if g.eng.cfg.RopeRestarts && len(s.tokens) == g.eng.cfg.RopeContext+1 {
		s.seq.Release()
		s.prefill = len(s.tokens)
	}
}

// class identifies the kernels that compute a token in a step with this number of
// tokens. single: the step has only this token of its sequence. Attention has
// other kernels for a single query.
func (g *generator) class(tokens int, single bool) kv.Class {
	if g.uniform {
		return 0
	}
	class := kv.Class(2 * g.sess.Class(tokens))
	if single {
		class++
	}
	return class
}

// feed puts the next tokens of a stream into the batch.
func (g *generator) feed(s *Stream) {
	w, from := g.at, s.seq.Len()
	room := g.eng.opts.MaxBatchTokens - w.Bind.T
	if room == 0 || w.Bind.S == w.Max.S {
		return
	}
	n, length := 1, from+1 // of what was generated, one token as it was then
	if from < s.prefill {
		n, length = min(s.prefill-from, room), s.prefill
		if n == s.prefill-from-1 && n > 1 {
			n-- // leave two tokens for the next step: a single query takes other attention kernels
		}
	}
	tokens := g.next[:]
	if from == len(s.tokens) { // the id that a run in flight draws
		if from+1 >= s.limit {
			return // it ends the text
		}
		g.next[0] = int32(-1 - s.last)
	} else {
		tokens = s.tokens[from : from+n]
	}
	err := w.AddCached(s.seq, tokens, length)
	for errors.Is(err, kv.ErrNoBlocks) && g.preempt(s) {
		err = w.AddCached(s.seq, tokens, length)
	}
	if err != nil {
		return // it waits until others end
	}
	s.composed, s.fed = true, n
	if from < s.prefill {
		g.asked = max(g.asked, s.prefill)
		g.eng.stats.prompt.Add(int64(n))
	}
	if from+n == len(s.tokens)+s.pending {
		s.row = w.Want(w.Bind.T - 1)
		if w.Sampling != nil {
			s.asks(w)
		}
	}
}

// preempt returns the youngest stream that is neither s nor in the batch to the
// queue. Later its tokens are read from the cache or computed again. Its
// generated tokens are computed one at a time, as before: computing them together
// would give other bits. While a run is in flight no stream is returned: the step
// after it will be composed without one (short).
func (g *generator) preempt(s *Stream) bool {
	if g.flying != nil {
		g.short = true
		return false
	}
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

// share reports to the profile whose tokens are in the batch.
func (g *generator) share(sess *plan.Session) {
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
	sess.SetShares(g.shares)
}

// record reports the duration of a finished generation to the profile.
func (s *Stream) record() {
	rec := s.gen.eng.opts.Recorder
	if rec == nil || s.gen.eng.paused.Load() {
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
