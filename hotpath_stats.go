package hotpath

// Stats say what a model does now and has done since it was opened: what a server
// needs for its metrics and to refuse work.
type Stats struct {
	// Now.
	Waiting int // calls that no run has taken all of, and generations that have not begun
	Running int // calls and generations that have not ended, those that wait included
	// Blocks of 64 tokens of the KV cache of generations: all, those of generations
	// under way, and those kept because another prompt may begin alike. All are 0
	// before the first generation.
	KVBlocks, KVUsed, KVCached int

	// So far.
	FineRuns, CoarseRuns int64 // of Embed: on all threads together, and on one thread each
	MergedRuns           int64 // of Embed, Rerank and Score: that served more than one call
	EmbedTokens          int64
	RerankTokens         int64
	ScoreTokens          int64
	Steps                int64 // of generation
	PromptTokens         int64 // run for prompts
	CachedTokens         int64 // of prompts, found in the KV cache
	GeneratedTokens      int64
	Preemptions          int64 // generations that gave their blocks to another and go on later
}

// Stats tells what the model does. It waits for no run, and may be called at any
// time, after Close too.
func (m *Model) Stats() Stats {
	if m.eng == nil {
		return Stats{}
	}
	return Stats(m.eng.Stats())
}
