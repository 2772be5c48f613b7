package engine

import "sync/atomic"

// Stats are counters of the engine's current and past work.
type Stats struct {
	// Now.
	Waiting int // calls that no run has taken all of, and generations that have not begun
	Running int // calls and generations that have begun, or wait: all that have not returned
	// Blocks of the KV cache: all, those of running generations, and those kept
	// for later prompts with the same prefix. 0 before the first generation.
	KVBlocks, KVUsed, KVCached int

	// So far.
	FineRuns, CoarseRuns int64 // of embedding, on all workers and on one
	MergedRuns           int64 // of embedding, ranking and scoring, that served more than one call
	EmbedTokens          int64
	RerankTokens         int64
	ScoreTokens          int64
	Steps                int64 // of generation
	PromptTokens         int64 // run for prompts
	CachedTokens         int64 // of prompts, found in the KV cache
	GeneratedTokens      int64
	Preemptions          int64 // sequences that gave their blocks to another
}

// counters is Stats while it is counted.
type counters struct {
	fine, coarse, merged, embedTokens          atomic.Int64
	steps, prompt, cached, generated, preempts atomic.Int64
	score, rerank                              atomic.Int64
	streams                                    atomic.Int64 // that a profile named
	// What the step loop last saw.
	queued, kvBlocks, kvUsed, kvCached atomic.Int64
}

// Stats reads the counters. It waits for no run.
func (e *Engine) Stats() Stats {
	c := &e.stats
	s := Stats{
		KVBlocks: int(c.kvBlocks.Load()), KVUsed: int(c.kvUsed.Load()), KVCached: int(c.kvCached.Load()),
		FineRuns: c.fine.Load(), CoarseRuns: c.coarse.Load(), MergedRuns: c.merged.Load(), EmbedTokens: c.embedTokens.Load(),
		Steps: c.steps.Load(), PromptTokens: c.prompt.Load(), CachedTokens: c.cached.Load(), GeneratedTokens: c.generated.Load(),
		Preemptions: c.preempts.Load(), ScoreTokens: c.score.Load(), RerankTokens: c.rerank.Load(),
	}
	s.Waiting = int(c.queued.Load()) + e.generator.new() + e.scorer.waiting() + e.rerank.waiting()
	e.progs.Lock()
	for _, m := range e.embedders {
		s.Waiting += m.waiting()
	}
	e.progs.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	for k, n := range e.calls {
		if kind(k) != inspecting {
			s.Running += n
		}
	}
	return s
}

// new is the number of streams that the step loop has not seen.
func (g *generator) new() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.arrived)
}

// count updates the queue and KV figures of Stats. Only the step loop calls it.
func (g *generator) count() {
	c := &g.eng.stats
	c.queued.Store(int64(len(g.waiting)))
	c.kvBlocks.Store(int64(g.pool.Size()))
	c.kvUsed.Store(int64(g.pool.Size() - g.pool.Available()))
	c.kvCached.Store(int64(g.pool.Cached()))
}
