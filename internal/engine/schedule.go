package engine

import (
	"fmt"
	"sync/atomic"

	"hotpath/internal/model"
)

// Mode is how embedding uses several workers.
type Mode uint8

const (
	// Auto picks for each batch.
	Auto Mode = iota
	// Fine lets all workers share each step of one run.
	Fine
	// Coarse gives every worker runs of its own, over whole texts.
	Coarse
)

var modeNames = [...]string{"auto", "fine", "coarse"}

func (m Mode) String() string { return modeNames[m] }

// ParseMode reads auto, fine or coarse; "" is auto.
func ParseMode(s string) (Mode, error) {
	for i, name := range modeNames {
		if s == name || s == "" {
			return Mode(i), nil
		}
	}
	return Auto, fmt.Errorf("%w: parallel mode %q, expected auto, fine or coarse", ErrInput, s)
}

// Thresholds of the choice between fine and coarse runs. Coarse has no
// barriers but leaves workers idle at the end, so it wants several texts a
// worker, and texts whose serial run is short.
const (
	coarseSeqsPerWorker = 2
	// Below this a worker's own products have so few rows that sharing one
	// larger run is faster, barriers and all: 8 to 16 short texts ran up to 1.2
	// times as fast so.
	coarseTokensPerWorker = 128
	coarseLongest         = 256 // tokens of the longest text
	coarseRunTokens       = 256 // of one run, at most
	coarseRunsPerWorker   = 2   // runs that a batch is cut into, so that the end is even
	// smallFLOPs is the work up to which it depends on the machine and on what
	// else runs there whether a second worker pays: 16 tokens of MiniLM (0.34
	// GFLOP) ran 1.4 times as fast on two quiet processors as on one, and half
	// as fast where another program had one of them. Such loads are measured as
	// they come.
	smallFLOPs = 2e9
)

// load is what waits to be embedded.
type load struct{ seqs, tokens, longest int }

// flops is about what a load costs: the products of its layers.
func (l load) flops(c *model.Config) float64 {
	return 24 * float64(c.Layers) * float64(c.Dim) * float64(c.Dim) * float64(l.tokens)
}

// trial chooses between one worker and all of them for small loads, by what
// each took lately. Results are the same either way.
type trial struct {
	cost  [2]float64 // [one, all] seconds a FLOP, smoothed; 0 before the first
	calls int
}

const (
	trialOne = iota
	trialAll
	trialWarm   = 4   // calls: each way twice, and the second replaces the first, which was cold
	trialEvery  = 32  // the loser gets every so manieth call, in case things changed
	trialWeight = 0.2 // of a new measurement
)

// next says which way to run.
func (t *trial) next() int {
	t.calls++
	better := trialOne
	if t.cost[trialAll] < t.cost[trialOne] {
		better = trialAll
	}
	switch {
	case t.calls <= trialWarm:
		return t.calls % 2
	case t.calls%trialEvery == 0:
		return 1 - better
	}
	return better
}

// took tells how long a load ran one way.
func (t *trial) took(way int, seconds, flops float64) {
	c := seconds / max(flops, 1)
	if t.calls > trialWarm && t.cost[way] > 0 {
		c = (1-trialWeight)*t.cost[way] + trialWeight*c
	}
	t.cost[way] = c
}

// pick chooses how a load is run. Coarse falls back to fine where the backend
// has no use for it or a text does not fit a coarse run.
func pick(m Mode, workers int, hasCoarse bool, l load) Mode {
	if !hasCoarse || l.longest > coarseLongest || m == Fine {
		return Fine
	}
	if m == Coarse {
		return Coarse
	}
	if workers >= 2 && l.seqs >= coarseSeqsPerWorker*workers && l.tokens >= coarseTokensPerWorker*workers {
		return Coarse
	}
	return Fine
}

// coarseShape is how many workers a load is worth, and the size of one run.
func coarseShape(workers int, l load) (n, tokens int) {
	even := (l.tokens + workers*coarseRunsPerWorker - 1) / (workers * coarseRunsPerWorker)
	if workers == 1 {
		even = l.tokens
	}
	tokens = min(max(1, even, l.longest), coarseRunTokens)
	return min(workers, (l.tokens+tokens-1)/tokens), tokens
}

// Stats say what the engine has done so far.
type Stats struct {
	FineRuns, CoarseRuns int64 // of embedding
	MergedRuns           int64 // that served more than one call
	EmbedTokens          int64
	Steps                int64 // of generation
	PromptTokens         int64 // run for prompts
	CachedTokens         int64 // of prompts, found in the KV cache
	GeneratedTokens      int64
	Preemptions          int64 // sequences that gave their blocks to another
	ScoreTokens          int64
}

// counters is Stats while it is counted.
type counters struct {
	fine, coarse, merged, embedTokens          atomic.Int64
	steps, prompt, cached, generated, preempts atomic.Int64
	score                                      atomic.Int64
	streams                                    atomic.Int64 // that a profile named
}

// Stats reads the counters.
func (e *Engine) Stats() Stats {
	c := &e.stats
	return Stats{
		FineRuns: c.fine.Load(), CoarseRuns: c.coarse.Load(), MergedRuns: c.merged.Load(), EmbedTokens: c.embedTokens.Load(),
		Steps: c.steps.Load(), PromptTokens: c.prompt.Load(), CachedTokens: c.cached.Load(), GeneratedTokens: c.generated.Load(),
		Preemptions: c.preempts.Load(), ScoreTokens: c.score.Load(),
	}
}
