package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"runtime/trace"

	"hotpath/internal/atomicfile"
	steps "hotpath/internal/backend/cpu"
)

// Files of --pprof.
const (
	cpuProfile  = "cpu.pprof"
	heapProfile = "heap.pprof"
	execTrace   = "trace.out"
)

// goProfiles takes Go's own profiles into a folder while work runs: where the
// processor was, with the step as labels, what was allocated, and what the
// scheduler did. heap has the memory at its peak. Without a folder it only does the
// work.
func goProfiles(ctx context.Context, folder string, heap *heapAtPeak, work func() error) (err error) {
	if folder == "" {
		return work()
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return fmt.Errorf("--pprof: %w", err)
	}
	// All files are created before the work begins: what cannot be written is
	// said now.
	var files []*atomicfile.File
	defer func() {
		for _, f := range files {
			err = errors.Join(err, f.Close())
		}
	}()
	for _, name := range []string{cpuProfile, heapProfile, execTrace} {
		f, err := createOutput(ctx, filepath.Join(folder, name))
		if err != nil {
			return fmt.Errorf("--pprof: %w", err)
		}
		files = append(files, f)
	}
	steps.LabelSteps(true)
	defer steps.LabelSteps(false)
	if err := trace.Start(files[2]); err != nil {
		return fmt.Errorf("--pprof: %w", err)
	}
	if err := pprof.StartCPUProfile(files[0]); err != nil {
		trace.Stop()
		return fmt.Errorf("--pprof: %w", err)
	}
	err = work()
	pprof.StopCPUProfile()
	trace.Stop()
	errs := []error{err, heap.write(files[1])}
	for _, f := range files {
		errs = append(errs, f.Commit())
	}
	return errors.Join(errs...)
}
