package train

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"

	"hotpath/internal/batch"
	"hotpath/internal/graph"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// Position is how far training has come in its data. Together with the seed it
// determines every later batch.
type Position struct {
	Epoch int `json:"epoch"` // passes over the data that are complete
	Next  int `json:"next"`  // examples of this epoch that were used
}

// batches puts examples together in an order that a seed decides anew for each
// epoch. A step is one run of the graph, or several that accumulate.
type batches struct {
	source Source
	obj    objective
	n      int // examples of an epoch
	seed   uint64
	at     Position

	run      tensor.Bind // the most of one run
	tokens   int         // the most of a step
	examples int         // the most of a step
	split    bool        // whether a step may have several runs
	runs     []part      // of the step that plan was called for
	terms    int         // of all runs

	walk    walk
	ahead   *prefetcher // nil where the data are in memory
	example Example
	pcg     rand.PCG
	rng     *rand.Rand // on pcg
}

// part is one run of a step.
type part struct {
	from     Position
	examples int
	terms    int // of the loss
}

// newBatches is for steps of at most so many tokens, in one run of at most run.
func newBatches(s Source, o objective, run tensor.Bind, tokens int, seed uint64) *batches {
	b := &batches{source: s, obj: o, n: s.Stats().Examples, seed: seed, run: run, tokens: tokens}
	b.examples = b.n
	b.walk = newWalk(b.n, seed)
	b.rng = rand.New(&b.pcg)
	return b
}

// next reads the example to come.
func (b *batches) next() error {
	i := b.walk.at(b.at)
	if err := b.source.Example(i, &b.example); err != nil {
		return fmt.Errorf("example %d: %w", i, err)
	}
	return nil
}

func (b *batches) advance() { b.at = b.walk.after(b.at) }

// plan takes examples for the next step as long as they fit, and assigns them to
// runs. A step may continue into the next epoch, but never has more examples than the
// data.
func (b *batches) plan() error {
	b.runs, b.terms = b.runs[:0], 0
	var all, run tensor.Bind
	taken := 0
	for range b.examples {
		if err := b.next(); err != nil {
			return err
		}
		if err := b.obj.check(&b.example); err != nil {
			return fmt.Errorf("example %d: %w", b.walk.at(b.at), err)
		}
		size, terms := b.obj.size(&b.example)
		if !size.Fits(b.run) {
			return fmt.Errorf("example %d: %d tokens, %d sequences and %d targets, expected at most %d, %d and %d for one run: %w",
				b.walk.at(b.at), size.T, size.S, size.R, b.run.T, b.run.S, b.run.R, ErrData)
		}
		if all.T+size.T > b.tokens {
			break
		}
		if next := plus(run, size); len(b.runs) == 0 || !next.Fits(b.run) {
			if len(b.runs) > 0 && !b.split {
				break
			}
			b.runs, run = append(b.runs, part{from: b.at}), tensor.Bind{}
		}
		last := &b.runs[len(b.runs)-1]
		last.examples, last.terms = last.examples+1, last.terms+terms
		run, all, b.terms = plus(run, size), plus(all, size), b.terms+terms
		b.advance()
		taken++
	}
	b.ahead.ahead(b.at, min(2*taken, b.n)) // two steps like this one
	return nil
}

func plus(a, b tensor.Bind) tensor.Bind { return tensor.Bind{T: a.T + b.T, S: a.S + b.S, R: a.R + b.R} }

// masks separates the random numbers of examples from those of the order.
const masks = 0x6d61736b73

// fill writes the examples of a run that plan found.
func (b *batches) fill(ctx context.Context, in *inputs, run part) error {
	in.Reset()
	end := b.at
	b.at = run.from
	defer func() { b.at = end }()
	for range run.examples {
		if err := b.next(); err != nil {
			return err
		}
		b.pcg.Seed(b.seed^masks, uint64(b.at.Epoch)<<32|uint64(b.at.Next))
		b.obj.put(in, &b.example, b.rng)
		b.advance()
	}
	if in.Bind.R == 0 { // a run has at least one row
		in.Target(0, -1)
	}
	return b.obj.ready(ctx, in)
}

// share is the part of a run in the mean over the terms of the step.
func (b *batches) share(run part) float32 {
	if b.terms == 0 {
		return 0
	}
	return float32(float64(run.terms) / float64(b.terms))
}

// inputs are a batch, and beside it what training alone feeds a run. What a graph
// does not ask for is nil.
type inputs struct {
	*batch.Batch
	dropout, smoothing []int32   // [DropoutLen], [1]
	hyper              []float32 // [HyperLen]
	weight, keep       []float32 // [1], [1]
}

func newInputs(s *plan.Session, p *model.Ports) *inputs {
	in := &inputs{Batch: batch.New(s.Slot(0), p)}
	if p.Dropout != nil {
		in.dropout = s.I32(p.Dropout)
	}
	if p.Smoothing != nil {
		in.smoothing = s.I32(p.Smoothing)
	}
	if p.Hyper != nil {
		in.hyper = s.F32(p.Hyper)[:graph.HyperLen]
	}
	if p.Weight != nil {
		in.weight, in.keep = s.F32(p.Weight)[:1], s.F32(p.Keep)[:1]
	}
	return in
}

// regularize sets dropout and label smoothing for a run of a step; step 0 is
// for an evaluation, which has neither.
func (in *inputs) regularize(c *Config, step, run int) {
	share, smoothing := c.Dropout, c.LabelSmoothing
	if step == 0 {
		share, smoothing = 0, 0
	}
	if in.dropout != nil {
		graph.PutDropout(in.dropout, bits.RotateLeft64(c.Seed, 32)+uint64(step)<<16+uint64(run), float32(share))
	}
	if in.smoothing != nil {
		in.smoothing[0] = int32(math.Float32bits(float32(smoothing)))
	}
}

// sequence adds the first n tokens of s as a sequence, and returns the row of the
// first token.
func (in *inputs) sequence(s *Sequence, n int) int {
	if s.Segments == nil {
		return in.AddPair(s.IDs[:n], nil)
	}
	return in.AddPair(s.IDs[:n], s.Segments[:n])
}
