// Package sample picks a token from logits: greedy, or drawn after top-k,
// top-p, min-p and temperature.
//
// The order is llama.cpp's: top-k, then top-p, then min-p look at the model's
// own distribution, and temperature shapes the draw among what they left.
// (Hugging Face applies temperature first, so at another temperature than 1
// its top-p keeps other tokens.)
//
// It imports kernel/vec; engine imports it. Logits that are not numbers
// give an error, never a token.
package sample

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"hotpath/internal/kernel/vec"
)

// ErrLogits reports logits that no token can be picked from.
var ErrLogits = errors.New("sample: logits")

// Params say how a token is drawn. The zero value is greedy.
type Params struct {
	Temperature float32 // 0 is greedy
	TopK        int     // keep the k best; 0 keeps all
	TopP        float32 // keep the best that make up this share of the probability; 0 or 1 keep all
	MinP        float32 // drop what is less probable than this share of the best; 0 drops none
	Seed        uint64  // equal seeds draw equal tokens
}

// Check reports a parameter that makes no sense.
func (p Params) Check() error {
	switch {
	case !(p.Temperature >= 0) || math.IsInf(float64(p.Temperature), 0):
		return fmt.Errorf("sample: temperature %v, expected a number of 0 or more", p.Temperature)
	case p.TopK < 0:
		return fmt.Errorf("sample: top-k %d, expected 0 or more", p.TopK)
	case !(p.TopP >= 0 && p.TopP <= 1):
		return fmt.Errorf("sample: top-p %v, expected 0 to 1", p.TopP)
	case !(p.MinP >= 0 && p.MinP <= 1):
		return fmt.Errorf("sample: min-p %v, expected 0 to 1", p.MinP)
	}
	return nil
}

// Sampler draws the tokens of one sequence. It is reused through Reset.
type Sampler struct {
	params Params
	rng    rand.PCG
	heap   []int32   // token ids in heap order, behind it those that were popped
	weight []float64 // of the candidates that are drawn from
}

// Reset starts a sequence.
func (s *Sampler) Reset(p Params) error {
	if err := p.Check(); err != nil {
		return err
	}
	s.params = p
	s.rng.Seed(p.Seed, 0x9e3779b97f4a7c15)
	return nil
}

// Sample picks a token. It allocates only until it has seen a vocabulary of
// that size. Among equals the lowest id comes first.
func (s *Sampler) Sample(logits []float32) (int32, error) {
	best, err := argmax(logits)
	if err != nil || s.params.Temperature == 0 || s.params.TopK == 1 {
		return best, err
	}
	return s.draw(logits, s.candidates(logits, best), logits[best]), nil
}

// scanned is how many logits are looked at together: they stay in L1.
const scanned = 1024

// argmax checks all logits and finds the first of the largest. It is on every
// token's way, over the whole vocabulary.
func argmax(logits []float32) (int32, error) {
	at, top := -1, float32(math.Inf(-1)) // the piece with the largest
	for i := 0; i < len(logits); i += scanned {
		part := logits[i:min(i+scanned, len(logits))]
		if v := vec.Dot(part, part); v != v { // a sum of squares is NaN for a NaN alone
			for j, v := range part {
				if v != v {
					return -1, fmt.Errorf("%w: NaN for token %d", ErrLogits, i+j)
				}
			}
		}
		if v := vec.Max(part); v > top {
			at, top = i, v
		}
	}
	if at < 0 {
		return -1, fmt.Errorf("%w: none of %d is above -Inf", ErrLogits, len(logits))
	}
	if top == 0 { // what the kernels take denormals for, so that none may be 0
		at, top = 0, slices.Max(logits)
	}
	best := int32(at + slices.Index(logits[at:], top))
	if math.IsInf(float64(top), 1) {
		return -1, fmt.Errorf("%w: +Inf for token %d", ErrLogits, best)
	}
	return best, nil
}

// candidates are the tokens that top-k, top-p and min-p leave, in an order
// that depends on the logits alone.
func (s *Sampler) candidates(logits []float32, best int32) []int32 {
	p, top := s.params, float64(logits[best])
	floor := math.Inf(-1) // of min-p, as a logit
	if p.MinP > 0 {
		floor = top + math.Log(float64(p.MinP))
	}
	all := s.heap[:0]
	if cap(all) < len(logits) {
		all = make([]int32, 0, len(logits))
	}
	byTopP := p.TopP > 0 && p.TopP < 1
	if p.TopK == 0 && !byTopP {
		for i, v := range logits {
			if float64(v) >= floor && !math.IsInf(float64(v), -1) {
				all = append(all, int32(i))
			}
		}
		s.heap = all
		return all
	}
	for i := range logits {
		all = append(all, int32(i))
	}
	s.heap = all
	h := heap{all, logits}
	h.build()
	keep := len(all)
	if p.TopK > 0 {
		keep = min(keep, p.TopK)
	}
	wanted := math.Inf(1) // mass to gather, the best token's being 1
	if byTopP {
		wanted = float64(p.TopP) * h.mass(keep, top)
	}
	// Popped tokens gather behind the heap, the best one last.
	sum, n := 0.0, 0
	for ; n < keep && sum < wanted; n++ {
		v := float64(logits[h.ids[0]])
		if v < floor || math.IsInf(v, -1) {
			break
		}
		sum += math.Exp(v - top)
		h.pop()
	}
	return all[len(all)-n:]
}

// draw picks one of the candidates by its probability at the temperature.
func (s *Sampler) draw(logits []float32, ids []int32, top float32) int32 {
	if cap(s.weight) < len(logits) {
		s.weight = make([]float64, len(logits))
	}
	w, sum := s.weight[:len(ids)], 0.0
	for i, id := range ids {
		w[i] = math.Exp((float64(logits[id]) - float64(top)) / float64(s.params.Temperature))
		sum += w[i]
	}
	// 53 random bits make a float64 in [0, 1).
	u := float64(s.rng.Uint64()>>11) / (1 << 53) * sum
	for i, id := range ids {
		if u -= w[i]; u < 0 {
			return id
		}
	}
	// Rounding left u at the very end: the last one that has any weight.
	for i := len(ids) - 1; i > 0; i-- {
		if w[i] > 0 {
			return ids[i]
		}
	}
	return ids[0]
}

// heap orders token ids by logit, the largest first, equals by lower id.
type heap struct {
	ids    []int32
	logits []float32
}

func (h *heap) before(a, b int32) bool {
	x, y := h.logits[a], h.logits[b]
	return x > y || x == y && a < b
}

func (h *heap) build() {
	for i := len(h.ids)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

// mass is the probability of the k best ids, in units of the best one's. Where
// that is not all of them they are popped once for it and put back.
func (h *heap) mass(k int, top float64) float64 {
	sum := 0.0
	if k == len(h.ids) {
		for _, v := range h.logits {
			sum += math.Exp(float64(v) - top)
		}
		return sum
	}
	all := h.ids
	for range k {
		sum += math.Exp(float64(h.logits[h.ids[0]]) - top)
		h.pop()
	}
	h.ids = all
	h.build()
	return sum
}

// pop moves the first id behind the end of the heap.
func (h *heap) pop() {
	n := len(h.ids) - 1
	h.ids[0], h.ids[n] = h.ids[n], h.ids[0]
	h.ids = h.ids[:n]
	h.down(0)
}

func (h *heap) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(h.ids) {
			return
		}
		if c+1 < len(h.ids) && h.before(h.ids[c+1], h.ids[c]) {
			c++
		}
		if !h.before(h.ids[c], h.ids[i]) {
			return
		}
		h.ids[i], h.ids[c] = h.ids[c], h.ids[i]
		i = c
	}
}
