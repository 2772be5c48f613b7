package device

import "hotpath/internal/plan"

// About is what a machine knows of a device without opening it.
type About struct {
	Name   string
	Driver string // its version
	Units  int
	Runs   plan.RunSizes
	Words  string // all of it, for people
	CPU    bool   // it computes on the processor
	// Skip is the reason why nobody gets the device who does not name it; nil: none.
	Skip error
}

// Counts is what a pool has, with so many calls of the driver.
func Counts(allocations int, held int64, p *Pool) plan.MemoryCounts {
	m := plan.MemoryCounts{Allocations: allocations, Held: held, ByClass: p.Used()}
	for _, n := range m.ByClass {
		m.Used += n
	}
	return m
}
