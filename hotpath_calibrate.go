package hotpath

import (
	"context"

	"hotpath/internal/calib"
	"hotpath/internal/engine"
	"hotpath/internal/machine"
	"hotpath/internal/plan"
)

// Calibrate measures what it costs on this machine to share work among threads
// (0 means all cores), in under a second, and keeps it in the user's cache for
// models that are opened after it: with Options.Parallel "auto", Embed decides
// by it whether threads share each text or have texts of their own. Without it
// built-in figures of a usual machine decide, so nobody has to call it. Besides it
// only Options.Device "auto" measures by itself, if the machine has a card. `hotpath info` calls it and shows the figures.
//
// The string says what came of it, as `hotpath info` does: a busy machine is not
// measured, and a folder that cannot be written keeps nothing.
func Calibrate(ctx context.Context, threads int) (_ string, err error) {
	defer engine.Guard(&err)
	if err := needContext(ctx); err != nil {
		return "", err
	}
	if err := machine.CheckThreads(threads); err != nil {
		return "", err
	}
	if threads == 0 {
		threads = machine.Threads()
	}
	f, err := calib.Find(ctx, threads, true, func() (plan.Backend, error) {
		return engine.NewBackend(machine.CPU, engine.BackendOptions{Threads: threads})
	})
	if err != nil {
		return "", err
	}
	return f.String(), nil
}
