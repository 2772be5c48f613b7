package bench

import (
	"context"

	"hotpath/internal/kernel/ceiling"
)

// floor is the least time in seconds that a case's steps can take. bytes are
// those that it goes over again and again.
func floor(roof *ceiling.Roof, c *Case, bytes float64) float64 {
	seconds := 0.0
	for _, cost := range c.cost {
		seconds += roof.Floor(cost.Class, c.Threads, cost.FLOPs, cost.Bytes, bytes)
	}
	return seconds
}

// ceilingCases show the ceilings themselves, by class and by size: one for each
// class of products, whatever instructions it has here.
func ceilingCases(e *Env) []*Case {
	var out []*Case
	rate := func(name string, threads int, unit string, f func(ctx context.Context) float64) {
		out = append(out, &Case{Name: name, Threads: threads, Open: func(ctx context.Context) (*Work, error) {
			return &Work{Rates: func() ([]Value, error) { return []Value{{f(ctx) / 1e9, unit}}, nil }}, nil
		}})
	}
	for _, threads := range e.threads() {
		for _, class := range classes() {
			rate("Ceiling/class="+class, threads, "GFLOP/s", func(ctx context.Context) float64 { return ceiling.NewRoof(ctx).FLOPs(class, threads) })
		}
		for _, size := range []struct {
			name  string
			bytes float64
		}{{"1MiB", 1 << 20}, {"16MiB", 16 << 20}, {"256MiB", 256 << 20}} {
			rate("Ceiling/read="+size.name, threads, "GB/s", func(ctx context.Context) float64 {
				return ceiling.NewRoof(ctx).Read(threads, size.bytes)
			})
		}
	}
	return out
}
