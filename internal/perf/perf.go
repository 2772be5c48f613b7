// Package perf reads hardware and software event counters of this process:
// cycles, instructions, cache and branch misses, context switches and page
// faults, by Linux's perf_event_open.
//
// It imports nothing of ours; studies and deep profiles import it. Nothing here
// is an error to stop for: an event that the kernel or the machine refuses is
// listed in Missing with the reason, and its value is absent from every
// Reading.
package perf

import (
	"fmt"
	"strings"
)

// Event is one thing that is counted.
type Event struct {
	Name     string
	Hardware bool
	kind     uint32 // perf_event_attr.type
	config   uint64
}

// The types and configurations of perf_event_attr that events are made of.
const (
	typeHardware, typeSoftware, typeCache = 0, 1, 3

	cacheL1D, cacheLL      = 0, 2
	cacheRead              = 0 << 8
	cacheAccess, cacheMiss = 0 << 16, 1 << 16

	hwCycles, hwInstructions, hwReferences, hwMisses, hwBranches, hwBranchMisses = 0, 1, 2, 3, 4, 5
	swPageFaults, swContextSwitches, swMigrations                                = 2, 3, 4
)

// The names of events, for who asks a Reading.
const (
	Cycles          = "cycles"
	Instructions    = "instructions"
	CacheReferences = "cache-references"
	CacheMisses     = "cache-misses"
	Branches        = "branches"
	BranchMisses    = "branch-misses"
	L1DLoads        = "L1d-loads"
	L1DMisses       = "L1d-load-misses"
	LLCLoads        = "LLC-loads"
	LLCMisses       = "LLC-load-misses"
	ContextSwitches = "context-switches"
	Migrations      = "cpu-migrations"
	PageFaults      = "page-faults"
)

// Events is the table of what is counted.
var Events = []Event{
	{Cycles, true, typeHardware, hwCycles},
	{Instructions, true, typeHardware, hwInstructions},
	{CacheReferences, true, typeHardware, hwReferences},
	{CacheMisses, true, typeHardware, hwMisses},
	{Branches, true, typeHardware, hwBranches},
	{BranchMisses, true, typeHardware, hwBranchMisses},
	{L1DLoads, true, typeCache, cacheL1D | cacheRead | cacheAccess},
	{L1DMisses, true, typeCache, cacheL1D | cacheRead | cacheMiss},
	{LLCLoads, true, typeCache, cacheLL | cacheRead | cacheAccess},
	{LLCMisses, true, typeCache, cacheLL | cacheRead | cacheMiss},
	{ContextSwitches, false, typeSoftware, swContextSwitches},
	{Migrations, false, typeSoftware, swMigrations},
	{PageFaults, false, typeSoftware, swPageFaults},
}

// Missing is an event that cannot be counted here, and why.
type Missing struct {
	Event string
	Why   string
}

// Reading is what was counted, by the name of the event. Events that are
// missing are absent.
type Reading map[string]float64

// Ratio is one event over another; false where one of them is missing or the
// second is 0.
func (r Reading) Ratio(a, b string) (float64, bool) {
	x, ok := r[a]
	y, also := r[b]
	if !ok || !also || y == 0 {
		return 0, false
	}
	return x / y, true
}

// Counters count the events of all threads of this process.
type Counters struct {
	fds     []counter
	missing []Missing
}

// Open starts counters for every thread that the process has and for those that
// they start. Where nothing can be counted it gives counters that count
// nothing.
func Open() *Counters {
	c := &Counters{}
	c.open()
	return c
}

// Hardware reports whether any event of the processor is counted.
func (c *Counters) Hardware() bool {
	missing := map[string]bool{}
	for _, m := range c.missing {
		missing[m.Event] = true
	}
	for _, e := range Events {
		if e.Hardware && !missing[e.Name] {
			return true
		}
	}
	return false
}

// Explain says in one sentence what is not counted and why, "" where all is.
func (c *Counters) Explain() string {
	by := map[string][]string{}
	var reasons []string
	for _, m := range c.missing {
		if by[m.Why] == nil {
			reasons = append(reasons, m.Why)
		}
		by[m.Why] = append(by[m.Why], m.Event)
	}
	var parts []string
	for _, why := range reasons {
		parts = append(parts, fmt.Sprintf("%s: %s", strings.Join(by[why], ", "), why))
	}
	if len(parts) == 0 {
		return ""
	}
	return "not counted here: " + strings.Join(parts, "; ")
}
