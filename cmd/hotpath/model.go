package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hotpath"
	"hotpath/internal/engine"
	"hotpath/internal/kernel/isa"
	"hotpath/profile"
	"hotpath/profile/export"
	"hotpath/profile/report"
)

// modelFlags are the flags of every command that opens a model.
type modelFlags struct {
	model     string
	threads   int
	precision string
	device    string
	profile   string
	pprof     string
	heap      bool // count allocations too
	canary    bool // burn time to measure the profiler
	invariant bool
	inPlace   bool
	verbose   bool
}

// memoryInterval is how often --profile-mem looks at the memory of the process.
const memoryInterval = 10 * time.Millisecond

// toReport is --profile without a file.
const toReport = "-"

// modelUsage is what -m takes, everywhere.
const modelUsage = "`MODEL`: a .gguf file, a Hugging Face directory, or a name that list shows"

// addModel adds -m; name is the model inside the program that is taken without
// it, "" where there is none for the command.
func (f *modelFlags) addModel(cmd *cobra.Command, name string) {
	cmd.Flags().VarP(modelFlag(&f.model, name), "model", "m", modelUsage)
}

// addRun adds the flags of commands that run the model.
func (f *modelFlags) addRun(cmd *cobra.Command) {
	addThreads(cmd, &f.threads, "use `N` threads; 0 for one a core")
	cmd.Flags().StringVar(&f.device, "device", "auto", "run on `DEVICE`: "+strings.Join(devices(), ", "))
	cmd.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "say which device --device auto takes, and why")
	cmd.Flags().Var(fileFlag(&f.profile), "profile", "record the run into `FILE`, by its ending; without FILE print a report at the end")
	cmd.Flags().Lookup("profile").NoOptDefVal = toReport
	cmd.Flags().Var(folderFlag(&f.pprof), "pprof", "take Go's own CPU and heap profiles and execution trace of the run into `FOLDER`; samples carry the step, and the heap has all memory by owner")
	cmd.Flags().BoolVar(&f.heap, "profile-mem", false, "with --profile, count heap allocations by scope, plan and step and draw memory over time; it slows steps, so the times mean nothing")
	cmd.Flags().BoolVar(&f.canary, "profile-canary", false, "with --profile, burn small random amounts of time in random steps; the report says how many of them the profiler finds, and how exactly it measures them")
}

// threadCount is the value of --threads.
type threadCount struct{ n *int }

func (t threadCount) String() string {
	if t.n == nil { // pflag asks a zero value for its default
		return "0"
	}
	return strconv.Itoa(*t.n)
}
func (threadCount) Type() string { return "threads" }
func (t threadCount) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > isa.MaxThreads {
		return fmt.Errorf("expected 0 to %d", isa.MaxThreads)
	}
	*t.n = n
	return nil
}

// addThreads adds --threads, which means the same everywhere.
func addThreads(cmd *cobra.Command, n *int, usage string) {
	cmd.Flags().Var(threadCount{n}, "threads", usage)
}

// addCompute adds the flags of commands that choose how the model computes.
func (f *modelFlags) addCompute(cmd *cobra.Command) {
	f.addRun(cmd)
	cmd.Flags().StringVar(&f.precision, "precision", "auto", "compute in `f32|bf16|auto`")
	cmd.Flags().BoolVar(&f.invariant, "invariant", false, invariantUsage)
	cmd.Flags().BoolVar(&f.inPlace, "in-place", false, "read quantized weights from the file's pages, which the system can take back, in place of packing them: generating is slower; a model larger than half of the free memory is always read so")
}

// invariantUsage is what --invariant does, where it does something.
const invariantUsage = "answers do not depend on what else is in the batch"

// fixInvariant says of --invariant that the command's answers are so without.
func fixInvariant(cmd *cobra.Command) {
	cmd.Flags().Lookup("invariant").Usage = invariantUsage + ", which always holds here"
}

// measureFlags are the flags of commands that measure the CPU's own backend,
// with a model or without.
type measureFlags struct{ device string }

func (f *measureFlags) addFlags(cmd *cobra.Command, model, precision *string, invariant *bool) {
	cmd.Flags().VarP(modelFlag(model, ""), "model", "m", modelUsage+"; default: one inside the program, if it is needed")
	cmd.Flags().StringVar(precision, "precision", "auto", "compute in `f32|bf16|auto`")
	cmd.Flags().BoolVar(invariant, "invariant", false, invariantUsage)
	cmd.Flags().StringVar(&f.device, "device", "auto", "measure `DEVICE`: auto, cpu")
}

func (f *measureFlags) check(precision string) error {
	switch {
	case !slices.Contains([]string{"auto", "f32", "bf16"}, precision):
		return usagef("--precision %q, expected f32, bf16 or auto", precision)
	case f.device != "auto" && f.device != "cpu":
		return usagef("--device %q, expected auto or cpu, which is what this command measures", f.device)
	}
	return isa.Err()
}

// devices are the values of --device.
func devices() []string { return append([]string{"auto"}, hotpath.Devices()...) }

// checkDevice reports a value of --device that no machine has.
func checkDevice(device string) error {
	if device == "" || device == "auto" {
		return nil
	}
	if !slices.Contains(devices(), deviceName(device)) {
		return usagef("--device %q, this build has %s", device, strings.Join(devices(), ", "))
	}
	if deviceName(device) == "auto" {
		return usagef("--device %q, expected auto without a number", device)
	}
	if want := engine.ExpectedDevice(device); want != "" {
		return usagef("--device %q, expected %s", device, want)
	}
	return nil
}

// deviceName is the kind of a device: cuda of cuda:1.
func deviceName(device string) string {
	name, _, _ := strings.Cut(device, ":")
	return name
}

// check reports mistakes that need no model to be seen.
func (f *modelFlags) check() error {
	if err := checkDevice(f.device); err != nil {
		return err
	}
	switch {
	case f.precision != "" && !slices.Contains([]string{"auto", "f32", "bf16"}, f.precision):
		return usagef("--precision %q, expected f32, bf16 or auto", f.precision)
	case f.profile != "" && f.profile != toReport && !exportable(f.profile):
		return notExportable("--profile=" + f.profile)
	case f.heap && f.profile == "":
		return usagef("--profile-mem needs --profile")
	case f.canary && f.profile == "":
		return usagef("--profile-canary needs --profile")
	}
	return isa.Err()
}

func endings() []string {
	var out []string
	for _, e := range export.Exporters() {
		out = append(out, e.Ending)
	}
	return out
}

// notExportable is the mistake of a file whose ending is no format.
func notExportable(flag string) error {
	return usagef("%s, expected a file that ends in %s", flag, strings.Join(endings(), ", "))
}

func exportable(path string) bool {
	return slices.ContainsFunc(endings(), func(e string) bool { return strings.HasSuffix(path, e) })
}

// with opens the model, does the work and closes it; then the profile is
// written, after an error too: it may show why.
func (f *modelFlags) with(ctx context.Context, std streams, o hotpath.Options, work func(context.Context, *hotpath.Model) error) error {
	if f.model == "" {
		return usagef("-m MODEL is missing")
	}
	if err := f.check(); err != nil {
		return err
	}
	o.Threads, o.Precision, o.Invariant = f.threads, f.precision, f.invariant
	o.Device, o.InPlace = f.device, f.inPlace
	return f.recorded(ctx, std, func(ctx context.Context, rec *profile.Recorder) error {
		o.Profile = rec
		m, err := hotpath.OpenContext(ctx, f.model, o)
		if errors.Is(err, hotpath.ErrInput) {
			return &usageError{err} // the options do not suit the model
		}
		if err != nil {
			return err
		}
		if choice := m.DeviceChoice(); choice != "" && f.verbose {
			fmt.Fprintln(std.err, "hotpath: --device auto takes", oneLine(choice))
		} else if note := m.DeviceNote(); note != "" {
			fmt.Fprintln(std.err, "hotpath: --device auto takes the CPU:", oneLine(note))
		}
		within, end := profile.Scope(ctx, "work")
		err = work(within, m)
		end()
		_, end = profile.Scope(ctx, "close model")
		defer end()
		return errors.Join(err, m.Close())
	})
}

// recorded does work under a recorder if --profile asks for one, or --pprof, whose heap
// profile has the owners of memory that the recorder knows.
func (f *modelFlags) recorded(ctx context.Context, std streams, work func(context.Context, *profile.Recorder) error) error {
	if f.profile == "" && f.pprof == "" {
		return work(ctx, nil)
	}
	if f.profile != "" && f.profile != toReport { // better now than after the work
		if err := writable("--profile=", f.profile); err != nil {
			return err
		}
	}
	var heap heapAtPeak
	o := profile.Options{Heap: f.heap, Canary: f.canary}
	if f.pprof != "" {
		o.AtPeak = heap.take
	}
	rec := profile.NewRecorder(o)
	if f.heap {
		defer rec.WatchMemory(memoryInterval)()
	}
	ctx = profile.WithRecorder(ctx, rec)
	if w, ok := std.out.(*checkedWriter); ok {
		defer w.record(ctx)()
	}
	var p *profile.Profile
	err := goProfiles(ctx, f.pprof, &heap, func() error {
		err := work(ctx, rec)
		p = rec.Snapshot() // looks at the last runs and at the memory too
		return err
	})
	if f.profile == "" || p == nil {
		return err
	}
	return errors.Join(err, f.report(std, p), rec.Err())
}

func (f *modelFlags) report(std streams, p *profile.Profile) error {
	if f.profile == toReport {
		return report.Text(std.err, p, report.Options{Color: isTerminal(std.err)})
	}
	if err := export.Export(f.profile, p); err != nil {
		return fmt.Errorf("--profile: %w", err)
	}
	return nil
}
