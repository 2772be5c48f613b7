package hotpath

import (
	"fmt"
	"time"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/backend/null"
	"hotpath/internal/backend/ref"
	"hotpath/internal/engine"
	"hotpath/internal/plan"
)

// defaultDevice is where a model runs unless Options say otherwise.
const defaultDevice = "cpu"

// nullDelay is how late the null device is at most.
const nullDelay = 100 * time.Microsecond

// Devices that need nothing but Go. The others register themselves when their
// package is imported.
func init() {
	engine.Register("cpu", func(o engine.BackendOptions) (plan.Backend, error) {
		p, err := cpu.ParsePrecision(o.Precision)
		if cpu.Precision(o.Precision) == cpu.I8G32 { // nobody asks for it but calibration
			p, err = cpu.I8G32, nil
		}
		if err != nil {
			return nil, err
		}
		b, err := cpu.New(cpu.Options{Workers: o.Threads, Precision: p, InPlace: o.InPlace})
		if err != nil {
			return nil, err // not a nil *cpu.Backend inside the interface
		}
		return b, nil
	})
	engine.Register("ref", func(engine.BackendOptions) (plan.Backend, error) { return ref.New(), nil })
	engine.Register("null", func(engine.BackendOptions) (plan.Backend, error) { return null.New(nullDelay), nil })
}

// inPlace reports whether a model of so many bytes is read where it is mapped: if
// its weights and as much again do not fit the free memory. free is 0 if nobody
// knows.
func inPlace(size, free int64) bool { return free > 0 && size > free/2 }

// checkThreads holds a number of threads against what a team can have.
func checkThreads(n int) error {
	if n < 0 || n > cpu.MaxWorkers {
		return fmt.Errorf("%w: %d threads, expected 0 to %d", ErrInput, n, cpu.MaxWorkers)
	}
	return nil
}

// Devices lists the names that Options.Device can have, sorted.
func Devices() []string { return engine.Backends() }

// Cards lists the graphics cards that this build can use, "cuda:0: NVIDIA H200,
// ...", and the kinds of which it found none, with the reason.
func Cards() (cards, none []string) { return engine.AllCards() }
