package optest

import (
	"math/rand/v2"
	"slices"
	"sync"

	"hotpath/internal/tensor"
)

// kept, if not nil, has the operands of all benches so far; see KeepOperands.
var kept *operands

// KeepOperands makes all later benches share random numbers and quantized weights,
// for as long as the process runs. Tests that build the cases many times call it at
// their start: drawing and quantizing would take most of their time.
func KeepOperands() {
	if kept == nil {
		kept = &operands{rng: newNumbers(), stored: map[storedKey][]byte{}}
	}
}

// newNumbers starts the sequence of random numbers that every bench draws from.
func newNumbers() *rand.Rand { return rand.New(rand.NewPCG(7, 11)) }

// operands are what benches drew. All of them draw from the same sequence, so a
// position in it says which numbers these are.
type operands struct {
	mu      sync.Mutex
	rng     *rand.Rand
	numbers []float32 // the sequence as far as it was drawn
	stored  map[storedKey][]byte
}

// storedKey names a weight: its type, its shape and the position of its first number.
type storedKey struct {
	d              tensor.DType
	rows, cols, at int
}

// draw is n numbers of the sequence, from position at. Nobody writes into them.
func (o *operands) draw(at, n int) []float32 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if more := at + n - len(o.numbers); more > 0 {
		o.numbers = append(o.numbers, normal(o.rng, more)...)
	}
	return o.numbers[at : at+n : at+n]
}

// quantized is the storage of a weight. Nobody writes into it.
func (o *operands) quantized(key storedKey) ([]byte, error) {
	o.mu.Lock()
	data, ok := o.stored[key]
	o.mu.Unlock()
	if ok {
		return data, nil
	}
	data, err := quantized(key.d, key.rows, key.cols, o.draw(key.at, key.rows*key.cols))
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stored[key] = data
	return data, nil
}

// normal draws n numbers of mean 0 and deviation 1.
func normal(rng *rand.Rand, n int) []float32 {
	f := make([]float32, n)
	for i := range f {
		f[i] = float32(rng.NormFloat64())
	}
	return f
}

func quantized(d tensor.DType, rows, cols int, values []float32) ([]byte, error) {
	data := make([]byte, rows*d.RowBytes(cols))
	return data, tensor.Quantize(data, d, values)
}

// random is the next n numbers of the bench, for the caller to change.
func (b *Bench) random(n int) []float32 {
	if b.rng != nil {
		return normal(b.rng, n)
	}
	b.drawn += n
	return slices.Clone(kept.draw(b.drawn-n, n))
}

// randomWeight is the storage of a weight of the next numbers of the bench.
func (b *Bench) randomWeight(d tensor.DType, rows, cols int) ([]byte, error) {
	if b.rng != nil {
		return quantized(d, rows, cols, normal(b.rng, rows*cols))
	}
	b.drawn += rows * cols
	return kept.quantized(storedKey{d, rows, cols, b.drawn - rows*cols})
}
