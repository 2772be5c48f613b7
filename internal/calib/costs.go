// Package calib says what parallel work costs on this machine: a few measured
// coefficients, the function that estimates from them how long a batch of texts
// takes run one way or another, and the file that keeps them.
//
// It imports graph, plan, tensor, weights and kernel/cpu; the engine decides by
// it, the public package loads it and `hotpath info` prints it. Nothing here
// has to succeed: where a measurement or a file is not to be had, Default
// stands in, and errors say why for whoever wants to know.
package calib

import (
	"fmt"
	"math"
)

// Costs are what parallel work costs with a number of workers. Times are in
// seconds.
type Costs struct {
	Workers int `json:"workers"`
	// Cores are the processors that the workers have, at most Workers.
	Cores int `json:"cores"`
	// Fork is what it takes to wake the team for nothing and to wait for it.
	Fork float64 `json:"fork_s"`
	// Barrier is what one barrier costs a step that all workers share.
	Barrier float64 `json:"barrier_s"`
	// FLOP is the time of one FLOP of products, with the attention, norms and
	// activations between them, on one worker.
	FLOP float64 `json:"flop_s"`
	// Packed and Stored are the times of fetching one element of a weight for a
	// run, whatever its rows: from panels, and decoded from the file's blocks.
	Packed float64 `json:"packed_s"`
	Stored float64 `json:"stored_s"`
	// Fine and Coarse are how many times the work of one worker all do in the
	// same time: sharing steps, barriers not counted, and side by side.
	Fine   float64 `json:"fine_speedup"`
	Coarse float64 `json:"coarse_speedup"`
	// Measured is false for figures that were built in.
	Measured bool `json:"measured"`
}

// Default are figures of a usual machine: what a server of 2025 measured, and
// barriers that grow with the workers that must meet.
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

// slowest is the most seconds that workers take to wake or to meet.
const slowest = 0.1

// bounds are what no machine is outside of: figures beyond are a broken
// measurement, or a file that somebody else wrote.
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

// check says what is impossible about the figures.
func (c *Costs) check() error {
	if c.Workers < 1 || c.Cores < 1 || c.Cores > c.Workers {
		return fmt.Errorf("%d workers on %d cores, expected at least one core and no more of them than workers", c.Workers, c.Cores)
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
