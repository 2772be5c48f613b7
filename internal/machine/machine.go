// Package machine is what the public package knows of the computer that it runs
// on: the devices that need nothing but Go, the number of threads, free memory,
// and what a profile says of the processor.
//
// It imports backends, kernels and engine, where it registers the devices; hotpath
// and study import it. So neither names a kernel or the CPU's backend.
package machine

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/backend/null"
	"hotpath/internal/backend/ref"
	"hotpath/internal/engine"
	"hotpath/internal/kernel/ceiling"
	"hotpath/internal/kernel/int8"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// CPU is the device where a model runs unless it is told otherwise.
const CPU = "cpu"

// Precisions of the CPU that have a meaning beyond it.
const (
	Auto  = string(cpu.Auto)
	F32   = string(cpu.F32)
	I8G32 = string(cpu.I8G32) // only calibration asks for it
)

// nullDelay is how late the null device is at most.
const nullDelay = 100 * time.Microsecond

// Devices that need nothing but Go. The others register themselves when their
// package is imported.
func init() {
	engine.Register(CPU, openCPU)
	engine.Register("ref", func(engine.BackendOptions) (plan.Backend, error) { return ref.New(), nil })
	engine.Register("null", func(engine.BackendOptions) (plan.Backend, error) { return null.New(nullDelay), nil })
}

func openCPU(o engine.BackendOptions) (plan.Backend, error) {
	p, err := cpu.ParsePrecision(o.Precision)
	if o.Precision == I8G32 {
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
}

// CheckThreads holds a number of threads against what a team can have; 0 means
// all cores.
func CheckThreads(n int) error {
	if n < 0 || n > cpu.MaxWorkers {
		return fmt.Errorf("%w: %d threads, expected 0 to %d", engine.ErrInput, n, cpu.MaxWorkers)
	}
	return nil
}

// Threads is the number of cores that the process may use.
func Threads() int { return isa.Threads() }

// FreeMemory is the bytes that this process can still take without swapping.
func FreeMemory() int64 { return isa.FreeMemory() }

// InPlace reports whether a model of so many bytes is read where it is mapped: if
// its weights and as much again do not fit the free memory.
func InPlace(size int64) bool { return inPlace(size, isa.FreeMemory()) }

// inPlace is InPlace for so many free bytes, 0 if nobody knows.
func inPlace(size, free int64) bool { return free > 0 && size > free/2 }

// Facts are what a profile says of the machine and of how a backend uses it.
func Facts(be plan.Backend, precision string) profile.Facts {
	c := be.Caps()
	return profile.Facts{CPU: isa.Host().Brand, Tier: isa.Active().String(), Device: c.Name, Threads: c.Workers, Precision: cmp.Or(precision, Auto)}
}

// TrainingPrecision is what a precision means for training on the CPU: auto is
// bf16 where there are tiles for it, else f32.
func TrainingPrecision(p string) string { return string(cpu.Precision(p).Training()) }

// PeakFLOPs measures what so many threads can do in a precision, in FLOP/s.
func PeakFLOPs(ctx context.Context, threads int, precision string) float64 {
	return ceiling.Compute(ctx, threads, precision)
}

// TakesInt8 reports whether the CPU multiplies the codes of a type as integers.
func TakesInt8(d tensor.DType) bool { return int8.Takes(d) }
