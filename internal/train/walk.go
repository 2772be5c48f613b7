package train

import (
	"math/bits"
	"math/rand/v2"
)

// walk is the order of examples, which a seed decides anew for each epoch.
type walk struct {
	seed     uint64
	order    []int32
	shuffled int // epoch that order is of, -1 for none
	pcg      rand.PCG
}

func newWalk(n int, seed uint64) walk { return walk{seed: seed, order: make([]int32, n), shuffled: -1} }

// at is the example at a position.
func (w *walk) at(p Position) int {
	if w.shuffled != p.Epoch {
		w.shuffle(p.Epoch)
	}
	return int(w.order[p.Next])
}

// after is the position that follows.
func (w *walk) after(p Position) Position {
	if p.Next++; p.Next == len(w.order) {
		return Position{Epoch: p.Epoch + 1}
	}
	return p
}

// shuffle depends on nothing but the seed and the epoch, so that a position
// needs no memory of what came before.
func (w *walk) shuffle(epoch int) {
	w.pcg.Seed(w.seed, uint64(epoch))
	for i := range w.order {
		w.order[i] = int32(i)
	}
	for i := len(w.order) - 1; i > 0; i-- {
		j, _ := bits.Mul64(w.pcg.Uint64(), uint64(i+1))
		w.order[i], w.order[j] = w.order[j], w.order[i]
	}
	w.shuffled = epoch
}
