package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"hotpath/profile"
	"hotpath/profile/export"
	"hotpath/profile/report"
)

func newProfile(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "profile",
		Short: "Read, export and compare profiles that --profile=FILE.json wrote",
		Example: `  hotpath embed -m MODEL "a text" --profile=run.json
  hotpath profile show run.json --by lost
  hotpath profile compare before.json after.json`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newProfileShow(std), newProfileExport(), newProfileCompare(std), newProfileRun(std), newProfileDeep(std))
	return cmd
}

func newProfileShow(std streams) *cobra.Command {
	var format formatFlag
	var top int
	var by string
	cmd := &cobra.Command{
		Use:   "show FILE",
		Short: "Print the report of a profile",
		Long: `Print the report of a profile. Without --top and --by, csv has all steps, in the
order of the plans. With either, it has the steps that ran, ranked by --by, and N
of them if --top is given. json is the whole profile: --top and --by have no
effect on it.`,
		Example: `  hotpath profile show run.json
  hotpath profile show run.json --top 5 --by lost
  hotpath profile show run.json --format csv > steps.csv
  hotpath profile show run.json --format csv --top 5 --by lost`,
		Args: fileArgs(cobra.ExactArgs(1), "FILE"),
		RunE: func(cmd *cobra.Command, files []string) error {
			ranking, err := profile.ParseBy(by)
			if err != nil {
				return &usageError{fmt.Errorf("--by: %w", err)}
			}
			if err := checkTop(top); err != nil {
				return err
			}
			p, err := readProfile(cmd.Context(), files[0])
			if err != nil {
				return err
			}
			counted := func(s profile.StepResult) bool { return s.Heap != nil }
			lanes := func(s profile.StepResult) bool { return s.Even > 0 }
			if ranking == profile.ByUneven && len(p.Where(lanes)) == 0 {
				return fmt.Errorf("%s: it does not have the lanes of single calls, because it is older or has no run, so there is nothing to rank by uneven", files[0])
			}
			if ranking == profile.ByHeap && len(p.Where(counted)) == 0 {
				return fmt.Errorf("%s: no allocations of steps were counted, so there is nothing to rank by heap: record with --profile=FILE.json --profile-mem", files[0])
			}
			w := bufio.NewWriter(std.out)
			o := report.Options{Top: top, By: ranking, Color: isTerminal(std.out)}
			switch format.value {
			case "text":
				err = report.Text(w, p, o)
			case "md":
				err = report.Markdown(w, p, o)
			case "csv":
				err = stepsCSV(w, p, o, cmd.Flags().Changed("top"), cmd.Flags().Changed("by"))
			case "json":
				err = p.Write(w)
			}
			if err != nil {
				return err
			}
			return w.Flush()
		},
	}
	format.addFlag(cmd, "text", "json", "csv", "md")
	cmd.Flags().IntVar(&top, "top", 15, "list `N` steps, -1 for all")
	cmd.Flags().StringVar(&by, "by", "time", "rank steps by `time|lost|alloc|flops|heap|uneven`; lost is time beyond the roofline, alloc is of the arena, heap is Go's and was counted with --profile-mem, uneven is the time that busiest lanes computed beyond the mean of their lanes")
	return cmd
}

// stepsCSV writes all steps in the order of the plans, unless flags rank them.
func stepsCSV(w io.Writer, p *profile.Profile, o report.Options, top, by bool) error {
	if !top && !by {
		return report.CSV(w, p)
	}
	if !top {
		o.Top = -1 // the default is for people
	}
	return report.TopCSV(w, p, o)
}

// readProfile reads a profile, which may come through a pipe.
func readProfile(ctx context.Context, file string) (*profile.Profile, error) {
	return waitFor(ctx, func() (*profile.Profile, error) { return profile.ReadFile(file) })
}

// checkTop reports a number of rows that is none.
func checkTop(n int) error {
	if n == 0 || n < -1 {
		return usagef("--top %d, expected 1 or more, or -1 for all", n)
	}
	return nil
}

func newProfileExport() *cobra.Command {
	var out, value, view string
	var endings strings.Builder
	for _, e := range export.Exporters() {
		fmt.Fprintf(&endings, "  %-16s %s\n", e.Ending, e.What)
	}
	cmd := &cobra.Command{
		Use:   "export FILE -o OUT",
		Short: "Write a profile in another format, by the ending of OUT",
		Long:  "Write a profile in another format, by the ending of OUT:\n" + strings.TrimRight(endings.String(), "\n"),
		Example: `  hotpath profile export run.json -o run.pprof
  hotpath profile export run.json -o run.html
  hotpath profile export run.json -o run.svg --value lost --view merged`,
		Args: fileArgs(cobra.ExactArgs(1), "FILE"),
		RunE: func(cmd *cobra.Command, files []string) error {
			if out == "" {
				return usagef("-o OUT is missing")
			}
			if !exportable(out) {
				return notExportable("-o " + out)
			}
			flame, err := export.ParseFlameValue(value)
			if err != nil {
				return &usageError{fmt.Errorf("--value: %w", err)}
			}
			arranged, err := profile.ParseFlameView(view)
			if err != nil {
				return &usageError{fmt.Errorf("--view: %w", err)}
			}
			if (value != "" || view != "") && !strings.HasSuffix(out, ".svg") {
				return usagef("--value and --view are for flame graphs, expected -o FILE.svg")
			}
			if err := writable("-o ", out); err != nil {
				return err
			}
			p, err := readProfile(cmd.Context(), files[0])
			if err != nil {
				return err
			}
			if value != "" || view != "" {
				return export.ExportFlame(out, p, flame, arranged)
			}
			return export.Export(out, p)
		},
	}
	cmd.Flags().VarP(fileFlag(&out), "output", "o", "`FILE` to write; its ending is the format")
	cmd.Flags().StringVar(&value, "value", "", "of a flame graph: `time|bytes|lost`; lost is time beyond the roofline")
	cmd.Flags().StringVar(&view, "view", "", "of a flame graph: `layers|merged|ops`, each layer by itself, all as one, or by op")
	return cmd
}
