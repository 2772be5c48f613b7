package calib

// Work describes a model's work as far as the choice of a mode depends on it.
type Work struct {
	FLOPs    float64 // of products with weights, a token
	Packed   float64 // elements of weights that a run fetches as they are
	Stored   float64 // elements that a run decodes
	Barriers int     // of a run on all workers
}

// Batch is the texts of a call.
type Batch struct{ Seqs, Tokens, Longest int }

const (
	// grain is the number of rows that a kernel multiplies at once on most
	// machines: the last rows of a run cost as much as a full group.
	grain = 16
	// shortRun is the number of tokens below which a run is not cut for an even
	// end: fetching the weights again would cost more than waiting. The slowest of
	// many workers is slower than that of a few, so more than fewWorkers cut runs
	// of shortOfMany tokens too if the weights are at most fewWeights: with a model
	// of 11 million weights, 16 uneven cores embedded 32 texts of 128 tokens 7 and 22
	// per cent faster in two comparisons.
	shortRun    = 128
	shortOfMany = 64
	fewWorkers  = 4
	fewWeights  = 1 << 26
	// Sure is by how much one mode must be faster by the figures of this machine.
	// If the difference is smaller, the built-in figures decide, so that noise
	// changes no decision: within a minute the speedups of fine and coarse were
	// measured as 1.76 and 1.87, and as 1.97 and 1.92.
	Sure = 0.1
)

func whole(tokens float64) float64 {
	return float64((int(tokens+0.999) + grain - 1) / grain * grain)
}

// weights is the time to fetch all weights once.
func (c *Costs) weights(w Work) float64 { return w.Packed*c.Packed + w.Stored*c.Stored }

// One is the time of a batch on one worker, in runs of at most most tokens.
func (c *Costs) One(w Work, l Batch, most int) float64 {
	runs := (l.Tokens + most - 1) / most
	return float64(runs)*c.weights(w) + whole(float64(l.Tokens))*w.FLOPs*c.FLOP
}

// OnFine is the time of a batch in fine mode, in runs of at most most tokens: each
// worker fetches its part of the weights.
func (c *Costs) OnFine(w Work, l Batch, most int) float64 {
	runs := float64((l.Tokens + most - 1) / most)
	return runs*(c.Fork+float64(w.Barriers)*c.Barrier+c.weights(w)/float64(c.Cores)) +
		whole(float64(l.Tokens))*w.FLOPs*c.FLOP/c.Fine
}

// OnCoarse is the time of a batch in coarse mode, in runs of at most most tokens:
// each worker fetches all weights for each of its runs, and the worker with most
// texts ends last.
func (c *Costs) OnCoarse(w Work, l Batch, most int) float64 {
	n := min(c.Workers, l.Seqs)
	// The busiest worker has one text more if texts do not divide evenly.
	each := float64((l.Seqs+n-1)/n) * float64(l.Tokens) / float64(l.Seqs)
	each = max(each, float64(l.Longest))
	// Workers beyond the cores take turns on them.
	turns := max(1, float64(n)/float64(c.Cores))
	runs, tokens := 0, 0.0
	for s := w.Split(int(each+0.999)*n, n, most); s.Left() > 0 && runs < 1<<16; runs++ {
		part := s.Next()
		s.Take(part)
		tokens += whole(float64(part))
		for range n - 1 { // the others of this round
			s.Take(s.Next())
		}
	}
	slower := 1.0 // than alone, because the others run too
	if n > 1 {
		slower = float64(c.Cores) / c.Coarse
	}
	return c.Fork + turns*slower*(float64(runs)*c.weights(w)+tokens*w.FLOPs*c.FLOP)
}

// Split cuts a batch into runs for coarse mode, in rounds of one run per worker: half
// of the remaining tokens while those are many, so that the last runs are short and
// end together, then the rest in equal parts. The runs depend on the texts, the model and
// the number of configured workers, never on their speed.
type Split struct {
	left, workers, most int
	short               int // tokens of a run that is not cut
	turn                int // runs left in this round
	limit               int
	last                bool
}

// Split cuts tokens of a model with this work for workers into runs of at most most.
func (w Work) Split(tokens, workers, most int) Split {
	short := shortRun
	if workers > fewWorkers && w.Packed+w.Stored <= fewWeights {
		short = shortOfMany
	}
	return Split{left: tokens, workers: workers, most: most, short: short}
}

// Left is the number of tokens that are in no run yet.
func (s *Split) Left() int { return s.left }

// Next is the number of tokens that the next run should have.
func (s *Split) Next() int {
	if s.workers == 1 {
		return s.most // nobody to end together with
	}
	if s.turn == 0 {
		s.turn = s.workers
		s.last = s.left <= 2*s.workers*s.short
		s.limit = int(whole(float64(s.left) / float64(2*s.workers))) // no row of a tile for nothing
	}
	if s.last {
		s.limit = (s.left + s.turn - 1) / s.turn
	}
	return max(1, min(s.limit, s.most))
}

// Last reports whether this round is the last: its runs should be even.
func (s *Split) Last() bool { return s.last }

// Whole reports whether a run of so many tokens should take a text of n more tokens
// although that exceeds its limit: in the last round, where another worker would
// have to take it.
func (s *Split) Whole(tokens, n, limit int) bool { return s.last && tokens+n/2 <= limit }

// Take records the tokens of a run.
func (s *Split) Take(tokens int) {
	s.left -= tokens
	s.turn = max(0, s.turn-1)
}

// PreferCoarse reports whether coarse is faster than fine. If this machine's figures
// do not differ clearly, the built-in ones decide.
func (c *Costs) PreferCoarse(w Work, l Batch, fineMost, coarseMost int) bool {
	if r := c.OnCoarse(w, l, coarseMost) / c.OnFine(w, l, fineMost); r < 1-Sure || r > 1+Sure {
		return r < 1
	}
	d := Default(c.Workers, c.Cores)
	return d.OnCoarse(w, l, coarseMost) < d.OnFine(w, l, fineMost)
}

// mostTexts bounds the search for thresholds.
const mostTexts = 1024

// ThreadsFrom is the length of a text from which all workers are faster than one;
// 0: never.
func (c *Costs) ThreadsFrom(w Work, most int) int {
	for n := 1; n <= most && c.Workers > 1; n++ {
		l := Batch{Seqs: 1, Tokens: n, Longest: n}
		if c.OnFine(w, l, most) < c.One(w, l, most) {
			return n
		}
	}
	return 0
}

// CoarseFrom is the number of texts of a length from which coarse is preferred, if
// they divide evenly; 0: never.
func (c *Costs) CoarseFrom(w Work, length, fineMost, coarseMost int) int {
	from := 0
	for n := max(1, mostTexts/c.Workers) * c.Workers; n >= 2 && c.Workers > 1; n -= c.Workers {
		if !c.PreferCoarse(w, Batch{Seqs: n, Tokens: n * length, Longest: length}, fineMost, coarseMost) {
			break
		}
		from = n
	}
	return from
}
