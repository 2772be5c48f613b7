package engine

import (
	"fmt"

	"hotpath/internal/calib"
	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
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

const (
	// FineRunTokens and CoarseRunTokens are the default maximum tokens per fine
	// and per coarse run.
	FineRunTokens   = defaultBatchTokens
	CoarseRunTokens = 256
	coarseLongest   = CoarseRunTokens // tokens of the longest text of a coarse run
	// coarseTokens is the least number of tokens of a batch that coarse runs share:
	// half of fewer tokens does not fill a tile, and costs as much as the whole.
	coarseTokens = 64
)

// load is the total of the texts that wait to be embedded.
type load struct{ seqs, tokens, longest int }

func (l load) batch() calib.Batch {
	return calib.Batch{Seqs: l.seqs, Tokens: l.tokens, Longest: l.longest}
}

// scheduler chooses the mode of a load: the one that the options ask for, or with
// Auto the one that the machine's measured costs predict to be faster for this
// model. The choice depends on the load alone, so the same batch is always cut into
// the same runs.
type scheduler struct {
	mode   Mode
	coarse bool // there are serial sessions
	costs  calib.Costs
	work   calib.Work
	most   int // tokens of a fine run
}

// pick chooses Fine or Coarse. It chooses Fine if the backend has no coarse mode
// or a text does not fit into a coarse run.
func (s *scheduler) pick(l load) Mode {
	switch {
	case !s.coarse || l.longest > coarseLongest || s.mode == Fine:
		return Fine
	case s.mode == Coarse:
		return Coarse
	case s.costs.Workers > 1 && l.seqs > 1 && l.tokens >= coarseTokens && s.costs.PreferCoarse(s.work, l.batch(), s.most, CoarseRunTokens):
		return Coarse
	}
	return Fine
}

// workOf sums up the work of a run for the cost model: FLOPs per token of products,
// the weights that they read, and the number of barriers.
func workOf(s *plan.Session) calib.Work {
	var w calib.Work
	p := s.Program()
	largest := p.Plans[len(p.Plans)-1]
	for i := range largest.Steps {
		if largest.Steps[i].Barrier {
			w.Barriers++
		}
		for _, n := range largest.Steps[i].Nodes {
			if n.Op != graph.OpLinear || n.In[1].Node.Leaf == nil {
				continue
			}
			elements := float64(n.In[1].Shape.Len(tensor.Bind{}))
			if n.In[0].Shape.Outer.Sym == tensor.T {
				w.FLOPs += 2 * elements
			}
			if f := p.Packing(n.In[1]); f == nil || f.Stored {
				w.Stored += elements
			} else {
				w.Packed += elements
			}
		}
	}
	return w
}
