package machine

import (
	"context"

	"hotpath/internal/kernel/ceiling"
	"hotpath/internal/kernel/isa"
	"hotpath/profile"
)

// MeasureCeilings is the roofline of this machine with so many threads at once,
// and with one: a run of one worker is held against what one can do. It takes
// about half a second, with the whole machine. Where ctx ends it is its error.
func MeasureCeilings(ctx context.Context, threads int) (profile.Ceilings, error) {
	if threads <= 0 {
		threads = isa.Threads()
	}
	threads = min(threads, isa.Host().Cores) // as it is measured
	c := ceilings(ctx, threads)
	if threads > 1 {
		one := ceilings(ctx, 1)
		c.One = &one
		// All lanes do no less than one: what says so was disturbed.
		c.FLOPs, c.Bytes = max(c.FLOPs, one.FLOPs), max(c.Bytes, one.Bytes)
		for class, v := range one.Class {
			c.Class[class] = max(c.Class[class], v)
		}
	}
	if ctx.Err() != nil {
		return profile.Ceilings{}, context.Cause(ctx)
	}
	c.Source = "measured before the run"
	return c, nil
}

func ceilings(ctx context.Context, threads int) profile.Ceilings {
	m := ceiling.Measure(ctx, threads)
	return profile.Ceilings{FLOPs: m.F32, Bytes: m.Read, Class: m.Class, Lanes: threads}
}
