// Package calib estimates the cost of parallel work on this machine. It has the
// measured coefficients, the functions that estimate the time of a batch per mode,
// and the file that keeps the coefficients.
//
// It imports graph, plan, tensor, weights and kernel/isa; the engine decides by
// it, the public package loads it and `hotpath info` prints it. Nothing here has to
// succeed: without a measurement or a file Default applies, and the error says why.
package calib

import (
	"fmt"
	"math"
)

// Costs are the coefficients for a number of workers. Times are in seconds.
type Costs struct {
	Workers int `json:"workers"`
	// Cores is the number of processors that the workers have, at most Workers.
	Cores int `json:"cores"`
	// Fork is the time to wake all workers for an empty job and to wait for them.
	Fork float64 `json:"fork_s"`
	// Barrier is the time of one barrier between steps that all workers share.
	Barrier float64 `json:"barrier_s"`
	// FLOP is the time per FLOP of products on one worker. It includes the
	// attention, norms and activations between them.
	FLOP float64 `json:"flop_s"`
	// Packed and Stored are the times per run to fetch one element of a weight,
	// independent of the rows: from panels, and decoded from the file's blocks.
	Packed float64 `json:"packed_s"`
	Stored float64 `json:"stored_s"`
	// Fine and Coarse are the speedups of all workers over one: sharing steps,
	// without barriers, and with runs of their own.
	Fine   float64 `json:"fine_speedup"`
	Coarse float64 `json:"coarse_speedup"`
	// Measured is false for built-in figures.
	Measured bool `json:"measured"`
}

// Default are the figures of a usual machine: measured on a server of 2025, with
// barriers that grow with the number of workers.
func Default(workers, cores int) Costs {
	cores = max(1, min(workers, cores))
	c := Costs{Workers: max(1, workers), Cores: cores,
		Fork: 8e-6, Barrier: 0.6e-6 + 0.1e-6*float64(workers),
		FLOP: 1 / 300e9, Packed: 0.07e-9, Stored: 0.15e-9,
		Fine: 1, Coarse: 1}
	if workers > cores { // who waits for another sleeps first
		c.Barrier += 5e-6 * float64(workers-cores)
	}
	if cores > 1 {
		c.Fine, c.Coarse = 0.86*float64(cores), 0.95*float64(cores)
	}
	return c
}

// slowest is the longest plausible time to wake workers or for a barrier, in
// seconds.
const slowest = 0.1

// bounds are the plausible ranges. Figures outside come from a broken measurement
// or from a damaged file.
var bounds = []struct {
	name     string
	of       func(*Costs) float64
	min, max float64
}{
	{"fork_s", func(c *Costs) float64 { return c.Fork }, 0, slowest},
	{"barrier_s", func(c *Costs) float64 { return c.Barrier }, 0, slowest},
	{"flop_s", func(c *Costs) float64 { return c.FLOP }, 1e-15, 1e-7},
	{"packed_s", func(c *Costs) float64 { return c.Packed }, 0, 1e-6},
	{"stored_s", func(c *Costs) float64 { return c.Stored }, 0, 1e-6},
	{"fine_speedup", func(c *Costs) float64 { return c.Fine }, 0.05, math.Inf(1)},
	{"coarse_speedup", func(c *Costs) float64 { return c.Coarse }, 0.05, math.Inf(1)},
}

// check reports figures that are not plausible.
func (c *Costs) check() error {
	if c.Workers < 1 || c.Cores < 1 || c.Cores > c.Workers {
		return fmt.Errorf("%d workers on %d cores, expected at least one core and at most as many cores as workers", c.Workers, c.Cores)
	}
	for _, b := range bounds {
		v, most := b.of(c), b.max
		if math.IsInf(most, 1) {
			most = 1.25 * float64(c.Cores) // a little more than there is: clocks differ
		}
		if !(v >= b.min && v <= most) { // also a NaN
			return fmt.Errorf("%s is %g, expected %g to %g", b.name, v, b.min, most)
		}
	}
	return nil
}
