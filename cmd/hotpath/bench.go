package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hotpath/internal/bench"
	"hotpath/internal/builtin"
)

// benchFlags are the flags of bench.
type benchFlags struct {
	opts    bench.Options
	measure measureFlags
	filter  string
	list    bool
	format  formatFlag
}

// Bounds of what is measured: beyond them nobody waits for the end.
const (
	maxRepeats = 1_000_000
	maxTime    = 24 * time.Hour
)

func newBench(std streams) *cobra.Command {
	var f benchFlags
	var groups strings.Builder
	for _, g := range bench.Groups {
		model := ""
		if g.Model != "" {
			model = " (-m MODEL)"
		}
		fmt.Fprintf(&groups, "\n  %-11s %s%s", g.Name, g.What, model)
	}
	cmd := &cobra.Command{
		Use:   "bench [NAME...]",
		Short: "Measure kernels, ops and models; compare two measurements",
		Long: `Measure kernels, ops and models, and compare each with the machine's ceiling in
the same round. The text is Go's benchmark format, which benchstat reads; the
number at the end of a name is the number of threads.
The environment variable HOTPATH_CPU forces a lesser tier. NAME is one or more of
` + groups.String(),
		Example: `  hotpath bench rope --filter 'heads=9/.*len=(1|16)-1$' --count 6 --time 1ms > old.txt
  hotpath bench rope --filter 'heads=9/.*len=(1|16)-1$' --count 6 --time 1ms > new.txt
  hotpath bench decode -m MODEL --filter batch=1/ --count 1 --time 1ms --format json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, names []string) error {
			filter, err := f.check(names)
			if err != nil {
				return err
			}
			if f.opts.Model == "" {
				f.opts.Model = builtin.Default(bench.DefaultModel(names))
			}
			return f.measureCases(cmd.Context(), std, names, filter)
		},
	}
	f.format.addFlag(cmd, "text", "json")
	flags := cmd.Flags()
	f.measure.addFlags(cmd, &f.opts.Model, &f.opts.Precision, &f.opts.Invariant)
	addThreads(cmd, &f.opts.Threads, "measure with up to `N` threads; 0 for one a core")
	flags.IntVar(&f.opts.Count, "count", 5, "take `N` samples of each case, all cases in turn")
	flags.DurationVar(&f.opts.Time, "time", 20*time.Millisecond, "measure for `DURATION` a sample, at least")
	flags.StringVar(&f.filter, "filter", "", "keep the cases whose name matches `REGEXP`")
	flags.BoolVar(&f.list, "list", false, "list the names of the cases and measure nothing")
	cmd.AddCommand(newBenchCompare(std))
	return cmd
}

// check reports mistakes of the command line.
func (f *benchFlags) check(names []string) (filter *regexp.Regexp, err error) {
	for _, name := range names {
		if !slices.Contains(bench.GroupNames(), name) {
			return nil, usagef("no benchmark %q, expected %s or compare", name, strings.Join(bench.GroupNames(), ", "))
		}
	}
	switch {
	case f.opts.Count < 1 || f.opts.Count > maxRepeats:
		return nil, usagef("--count %d, expected 1 to %d", f.opts.Count, maxRepeats)
	case f.opts.Time <= 0 || f.opts.Time > maxTime:
		return nil, usagef("--time %v, expected more than 0 and at most %v", f.opts.Time, maxTime)
	}
	if f.filter != "" {
		if filter, err = regexp.Compile(f.filter); err != nil {
			return nil, usagef("--filter: %w", err)
		}
	}
	return filter, f.measure.check(f.opts.Precision)
}

func (f *benchFlags) measureCases(ctx context.Context, std streams, names []string, filter *regexp.Regexp) (err error) {
	env, err := bench.NewEnv(f.opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, env.Close()) }()
	cases, err := env.Select(names, filter)
	if errors.Is(err, bench.ErrNoModel) {
		return &usageError{err}
	}
	if err != nil {
		return err
	}
	if f.list {
		w := bufio.NewWriter(std.out)
		for _, c := range cases {
			fmt.Fprintln(w, c.FullName())
		}
		return w.Flush()
	}
	machine := bench.Describe(f.opts.Threads)
	if f.format.value == "json" {
		report := bench.NewReport(machine)
		if err := f.measureAll(ctx, std.resultsLater(), env, cases, report.Emit); err != nil {
			return err
		}
		return report.Write(std.out)
	}
	text, err := bench.NewText(std.out, machine)
	if err != nil {
		return err
	}
	return f.measureAll(ctx, std, env, cases, text.Emit)
}

// measureAll takes every sample of every case, and shows how many are taken.
func (f *benchFlags) measureAll(ctx context.Context, std streams, env *bench.Env, cases []*bench.Case, emit bench.Emit) error {
	bar := newCount(f.opts.Count*len(cases), std)
	bar.begin()
	defer bar.finish()
	return env.Run(ctx, cases, func(s bench.Sample) error {
		bar.addDone(1, 0)
		bar.show()
		return emit(s)
	})
}
