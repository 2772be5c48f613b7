package opencl

import "fmt"

// Rates are what a device was measured to do at most.
type Rates struct {
	FLOPs float64 // f32 products and sums per second, from registers
	Bytes float64 // read from its memory per second
}

var rateCode = code{files: []string{"common", "rate"}}

// Rates measures the device for some milliseconds.
func (b *Backend) Rates() (r Rates, err error) {
	const lanes, rounds, perRound = itemsOf, 512, 2 * 16
	many := 64 * b.about.Units
	bytes := min(b.about.Largest, b.about.Memory/8, 1<<28)
	y, err := b.pool.Take(int64(4*lanes*many), "rates")
	if err != nil {
		return r, err
	}
	defer b.pool.Give(y)
	x, err := b.pool.Take(bytes, "rates")
	if err != nil {
		return r, err
	}
	defer b.pool.Give(x)
	took, err := b.fastest(many, "k_fma", y, rounds)
	if err != nil {
		return r, err
	}
	r.FLOPs = float64(many) * lanes * rounds * perRound / took
	took, err = b.fastest(many, "k_read", y, x, uint64(bytes/16))
	r.Bytes = float64(bytes/16*16) / took
	return r, err
}

// fastest is the least time of some launches of a kernel, in seconds.
func (b *Backend) fastest(many int, name string, arguments ...any) (seconds float64, err error) {
	k := newBinder(b, b.newExec(), 1)
	k.launchOf(rateCode, name, [2]extent{groups(many), groups(1)}, itemsOf, arguments...)
	ns, err := b.timed(k)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return float64(ns) / 1e9, nil
}
