package calib

// Work is what a model does, as far as sharing it out depends on it.
type Work struct {
	FLOPs    float64 // of products with weights, a token
	Packed   float64 // elements of weights that a run fetches as they are
	Stored   float64 // elements that a run decodes
	Barriers int     // of a run on all workers
}

// Batch is texts that wait.
type Batch struct{ Seqs, Tokens, Longest int }

const (
	// grain is how many rows products take at once, on most machines: a run's
	// last rows cost as much as that many.
	grain = 16
	// ShortRun is the length in tokens below which a run on one worker is not
	// cut for an even end: fetching the weights would cost more than waiting.
	ShortRun = 128
	// Sure is by how much one way must be faster in the estimate of this
	// machine. Closer than that the built-in figures decide, so that a noisy
	// measurement turns nothing around: within a minute the speed-ups of fine and
	// coarse were measured as 1.76 and 1.87, and as 1.97 and 1.92.
	Sure = 0.1
)

func whole(tokens float64) float64 {
	return float64((int(tokens+0.999) + grain - 1) / grain * grain)
}

// weights is the time of fetching all of them once.
func (c *Costs) weights(w Work) float64 { return w.Packed*c.Packed + w.Stored*c.Stored }

// One is the time of a load on one worker, in runs of at most most tokens.
func (c *Costs) One(w Work, l Batch, most int) float64 {
	runs := (l.Tokens + most - 1) / most
	return float64(runs)*c.weights(w) + whole(float64(l.Tokens))*w.FLOPs*c.FLOP
}

// OnFine is the time of a load whose runs, of at most most tokens, are shared
// step by step: each worker fetches its part of the weights.
func (c *Costs) OnFine(w Work, l Batch, most int) float64 {
	runs := float64((l.Tokens + most - 1) / most)
	return runs*(c.Fork+float64(w.Barriers)*c.Barrier+c.weights(w)/float64(c.Cores)) +
		whole(float64(l.Tokens))*w.FLOPs*c.FLOP/c.Fine
}

// OnCoarse is the time of a load whose texts are shared out: each worker
// fetches all weights for each of its runs, of at most most tokens, and who has
// more texts is waited for.
func (c *Costs) OnCoarse(w Work, l Batch, most int) float64 {
	n := min(c.Workers, l.Seqs)
	// The busiest has a text more than the others where they do not divide.
	each := float64((l.Seqs+n-1)/n) * float64(l.Tokens) / float64(l.Seqs)
	each = max(each, float64(l.Longest))
	// Workers beyond the cores take turns on them.
	turns := max(1, float64(n)/float64(c.Cores))
	runs, tokens := 0, 0.0
	for s := NewSplit(int(each+0.999)*n, n, most); s.Left() > 0 && runs < 1<<16; runs++ {
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

// Split cuts a load into runs for workers side by side, in rounds of one run
// each: half of what is left while that is long, so that the last runs are
// short and end together, then all of it in equal parts. What a run is made of
// depends on the texts alone, never on who is faster.
type Split struct {
	left, workers, most int
	turn                int // runs left in this round
	limit               int
	last                bool
}

// NewSplit cuts tokens for workers into runs of at most most.
func NewSplit(tokens, workers, most int) Split {
	return Split{left: tokens, workers: workers, most: most}
}

// Left is how many tokens are in no run yet.
func (s *Split) Left() int { return s.left }

// Next is how many tokens the next run should have.
func (s *Split) Next() int {
	if s.workers == 1 {
		return s.most // nobody to end together with
	}
	if s.turn == 0 {
		s.turn = s.workers
		s.last = s.left <= 2*s.workers*ShortRun
		s.limit = int(whole(float64(s.left) / float64(2*s.workers))) // no row of a tile for nothing
	}
	if s.last {
		s.limit = (s.left + s.turn - 1) / s.turn
	}
	return max(1, min(s.limit, s.most))
}

// Last reports whether this round is the last one: its runs should be even.
func (s *Split) Last() bool { return s.last }

// Whole reports whether a run of so many tokens had better take a text of n
// more, although it is beyond its limit then: in the last round, where what it
// leaves is another's.
func (s *Split) Whole(tokens, n, limit int) bool { return s.last && tokens+n/2 <= limit }

// Take says how many tokens the run got.
func (s *Split) Take(tokens int) {
	s.left -= tokens
	s.turn = max(0, s.turn-1)
}

// PreferCoarse reports whether sharing out texts is faster than sharing steps.
// Where this machine's figures do not say it clearly, built-in ones do.
func (c *Costs) PreferCoarse(w Work, l Batch, fineMost, coarseMost int) bool {
	if r := c.OnCoarse(w, l, coarseMost) / c.OnFine(w, l, fineMost); r < 1-Sure || r > 1+Sure {
		return r < 1
	}
	d := Default(c.Workers, c.Cores)
	return d.OnCoarse(w, l, coarseMost) < d.OnFine(w, l, fineMost)
}

// mostTexts bounds the search for thresholds.
const mostTexts = 1024

// ThreadsFrom is the length of a text from which all workers are faster than
// one; 0 where they never are.
func (c *Costs) ThreadsFrom(w Work, most int) int {
	for n := 1; n <= most && c.Workers > 1; n++ {
		l := Batch{Seqs: 1, Tokens: n, Longest: n}
		if c.OnFine(w, l, most) < c.One(w, l, most) {
			return n
		}
	}
	return 0
}

// CoarseFrom is the number of texts of a length from which sharing out texts is
// preferred to sharing steps, where they divide evenly; 0 where it never is.
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
