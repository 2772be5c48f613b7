// Package sample picks a token from logits: greedy, or drawn after penalties,
// top-k, top-p, min-p and temperature.
//
// The order is llama.cpp's: penalties change the logits (penalties.go); top-k,
// then top-p, then min-p look at the distribution that this gives, and
// temperature shapes the draw among what they left.
// (Hugging Face applies temperature first, so at another temperature than 1
// its top-p keeps other tokens.)
//
// No pass sorts the vocabulary. If few candidates are wanted, the logits above a
// threshold are listed and sorted (candidates.go). Otherwise a histogram of the
// logits says in which bin top-k or top-p ends, or the drawn token lies, and only
// the tokens of that bin are ordered (threshold.go). Sums over many tokens come from
// kernels with a known error. If a decision falls within that error, a more exact
// sum is made, in the end one in order and without a kernel (draw.go). So the token
// depends on logits, parameters and seed, not on the tier.
//
// It imports kernel/vec; engine imports it. Logits that are not numbers
// give an error, never a token.
package sample

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
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
	Penalties
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
	return p.Penalties.check()
}

// byTopP reports whether top-p drops anything.
func (p Params) byTopP() bool { return p.TopP > 0 && p.TopP < 1 }

// Sampler draws the tokens of one sequence. It is reused through Reset.
type Sampler struct {
	params  Params
	rng     rand.PCG
	history history // of penalties
}

// Scratch is the workspace of one Sample at a time. Samplers share it.
type Scratch struct {
	ids    [scanned]int32  // of one piece of the logits
	keys   []uint64        // of candidates
	values []float32       // logits of candidates
	weight []float64       // of candidates, or of all logits
	sums   []float64       // of the weights of each piece
	bin    [scanned]uint16 // of one piece of the logits

	// Of countBins: the largest logit, and the tokens per bin (in count[0]).
	top   float32
	count [2][bins]uint32
}

// reserve makes room for n logits.
func (w *Scratch) reserve(n int) {
	if cap(w.keys) < n {
		w.keys, w.values = make([]uint64, 0, n), make([]float32, n)
		w.weight, w.sums = make([]float64, n), make([]float64, 0, n/scanned+1)
	}
}

// Reset starts a sequence.
func (s *Sampler) Reset(p Params) error {
	if err := p.Check(); err != nil {
		return err
	}
	s.params = p
	s.rng.Seed(p.Seed, 0x9e3779b97f4a7c15)
	s.history = history{tokens: s.history.tokens[:0]}
	return nil
}

// Sample picks a token. It allocates only until w has seen a vocabulary of
// that size. Among equals the lowest id comes first.
func (s *Sampler) Sample(logits []float32, w *Scratch) (int32, error) {
	return s.SampleBelow(Scan(logits, 0, len(logits)), logits, w)
}

// SampleBelow is Sample of logits whose peak is known.
func (s *Sampler) SampleBelow(peak Peak, logits []float32, w *Scratch) (int32, error) {
	best, err := peak.first(logits)
	p := s.params
	if err != nil || p.Greedy() {
		return best, err
	}
	w.reserve(len(logits))
	r := float64(s.Random()) / (1 << 53)
	top := float64(logits[best])
	if p.TopK == 0 && !p.byTopP() && p.MinP == 0 {
		return w.drawAny(logits, top, float64(p.Temperature), r), nil
	}
	return w.draw(logits, top, p, r), nil
}

// Random is the next random number of the sequence: 53 bits, which make a float64
// in [0, 1). Sample takes one for each token that it draws, and none for a greedy
// one.
func (s *Sampler) Random() uint64 { return s.rng.Uint64() >> 11 }

// Params are those of the sequence.
func (s *Sampler) Params() Params { return s.params }

// Greedy reports whether the largest logit is always taken.
func (p Params) Greedy() bool { return p.Temperature == 0 || p.TopK == 1 }
