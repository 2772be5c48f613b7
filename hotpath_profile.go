package hotpath

import (
	"context"

	"hotpath/internal/engine"
	"hotpath/internal/machine"
	"hotpath/profile"
)

// MeasureCeilings measures what this machine can do at most: FLOP/s of each
// compute class and bytes/s from memory, with so many threads at once (0 means
// all cores) and with one. [profile.Recorder.SetCeilings] holds every step
// against them; without them a report has neither rooflines nor lost time. It
// takes about half a second and wants the machine for itself, so call it before
// the work. Where ctx ends it returns its error.
func MeasureCeilings(ctx context.Context, threads int) (c profile.Ceilings, err error) {
	defer engine.Guard(&err)
	if err := needContext(ctx); err != nil {
		return c, err
	}
	if err := machine.CheckThreads(threads); err != nil {
		return c, err
	}
	return machine.MeasureCeilings(ctx, threads)
}
