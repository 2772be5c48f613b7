package train

import (
	"math/bits"
	"math/rand/v2"

	"hotpath/internal/graph"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// Position is how far training has come in its data. Together with the seed it
// determines every later batch.
type Position struct {
	Epoch int `json:"epoch"` // passes over the data that are complete
	Next  int `json:"next"`  // pieces of this epoch that were used
}

// batches puts pieces together in an order that a seed decides anew for each
// epoch.
type batches struct {
	ids    []int32
	pieces []piece
	seed   uint64
	at     Position

	order    []int32 // of pieces
	shuffled int     // epoch that order is of, -1 for none
	rng      rand.PCG
}

func newBatches(c *corpus, seqLen int, seed uint64) *batches {
	b := &batches{ids: c.ids, pieces: c.pieces(seqLen), seed: seed, shuffled: -1}
	b.order = make([]int32, len(b.pieces))
	return b
}

// next is the piece to come.
func (b *batches) next() piece {
	if b.shuffled != b.at.Epoch {
		b.shuffle()
	}
	return b.pieces[b.order[b.at.Next]]
}

func (b *batches) advance() {
	if b.at.Next++; b.at.Next == len(b.pieces) {
		b.at = Position{Epoch: b.at.Epoch + 1}
	}
}

// shuffle depends on nothing but the seed and the epoch, so that a position
// needs no memory of what came before.
func (b *batches) shuffle() {
	b.rng.Seed(b.seed, uint64(b.at.Epoch))
	for i := range b.order {
		b.order[i] = int32(i)
	}
	for i := len(b.order) - 1; i > 0; i-- {
		j, _ := bits.Mul64(b.rng.Uint64(), uint64(i+1))
		b.order[i], b.order[j] = b.order[j], b.order[i]
	}
	b.shuffled = b.at.Epoch
}

// fill takes pieces as long as they fit. A batch goes on into the next epoch,
// but never has more pieces than there are.
func (b *batches) fill(in *inputs) {
	in.reset()
	for range b.pieces {
		p := b.next()
		if !in.add(b.ids[p.start : p.start+p.n+1]) {
			return
		}
		b.advance()
	}
}

// inputs are a session's input memory and the batch in it.
type inputs struct {
	tokens, pos, qStart, rows, targets []int32   // [T], [T], [S+1], [R], [R]
	length                             []int32   // [T]; nil where the model does not ask
	hyper                              []float32 // [8]
	max, bind                          tensor.Bind
}

func newInputs(s *plan.Session, p *model.Ports) *inputs {
	in := &inputs{
		tokens: s.I32(p.Tokens), pos: s.I32(p.Pos), qStart: s.I32(p.QStart),
		rows: s.I32(p.Rows), targets: s.I32(p.Targets), hyper: s.F32(p.Hyper)[:graph.HyperLen],
		max: s.Program().Graph.Max,
	}
	if p.Length != nil {
		in.length = s.I32(p.Length)
	}
	return in
}

func (in *inputs) reset() {
	in.bind = tensor.Bind{}
	in.qStart[0] = 0
}

// add is one sequence more, of which every id but the first is predicted and
// the last is not read; false where there is no room for it.
func (in *inputs) add(ids []int32) bool {
	n, t := len(ids)-1, in.bind.T
	if t+n > in.max.T || in.bind.S == in.max.S {
		return false
	}
	copy(in.tokens[t:], ids[:n])
	copy(in.targets[t:], ids[1:])
	for i := range n {
		in.pos[t+i], in.rows[t+i] = int32(i), int32(t+i)
	}
	if in.length != nil {
		for i := range n {
			in.length[t+i] = int32(n)
		}
	}
	in.bind.T, in.bind.R, in.bind.S = t+n, t+n, in.bind.S+1
	in.qStart[in.bind.S] = int32(in.bind.T)
	return true
}
