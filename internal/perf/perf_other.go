//go:build !linux

package perf

import "runtime"

// counter is an event that nobody counts.
type counter struct{}

func (c *Counters) open() {
	for _, e := range Events {
		c.missing = append(c.missing, Missing{e.Name, "counters are read on Linux only, this is " + runtime.GOOS})
	}
}

// Count runs f; there is nothing to count with.
func (c *Counters) Count(f func() error) (Reading, error) { return Reading{}, f() }

// Close does nothing.
func (c *Counters) Close() error { return nil }
