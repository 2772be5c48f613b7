package main

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"hotpath/internal/bench"
)

func newBenchCompare(std streams) *cobra.Command {
	var format formatFlag
	var failAbove percentFlag
	var unit string
	cmd := &cobra.Command{
		Use:   "compare OLD NEW",
		Short: "Say with statistics what changed between two measurements",
		Long: `Say with statistics what changed between two outputs of hotpath bench, or of
go test -bench, as text or as JSON. A change is real if the Mann-Whitney U test
says so: two-sided, at 0.05, corrected for the number of cases by Holm's method.

Ceilings (Ceiling/...) belong to the machine: they are shown, but "not judged".
Exact figures (assume=exact) got worse only if their unit says which direction is
better. Rates that follow from a case's time are left out, unless --unit asks for
them.

With --fail-above the exit status is 1 if a case got worse for real and by more
than that, if a case has too few samples to show any difference, or if only
ceilings are in common. Without it the exit status is 0 once the table is
written.`,
		Example: `  hotpath bench compare old.txt new.txt
  hotpath bench compare old.txt new.txt --fail-above 900%
  hotpath bench compare old.txt new.txt --unit GFLOP/s --format json`,
		Args: fileArgs(cobra.ExactArgs(2), "OLD", "NEW"),
		RunE: func(cmd *cobra.Command, files []string) error {
			var only *regexp.Regexp
			if unit != "" {
				var err error
				if only, err = regexp.Compile("^(?:" + unit + ")$"); err != nil {
					return usagef("--unit: %w", err)
				}
			}
			read := func(file string) (*bench.Data, error) {
				return waitFor(cmd.Context(), func() (*bench.Data, error) { return bench.ReadFile(file) })
			}
			old, err := read(files[0])
			if err != nil {
				return err
			}
			after, err := read(files[1])
			if err != nil {
				return err
			}
			c, err := bench.Compare(old, after, only)
			if errors.Is(err, bench.ErrUnit) {
				return fmt.Errorf("--unit %s: %w", unit, err)
			}
			if err != nil {
				return err
			}
			var worse, unjudged error
			if failAbove.given() {
				if worse = worsened(c.Failures(failAbove.value), failAbove.text); worse == nil {
					unjudged = c.Unjudged()
				}
			}
			if unjudged == nil { // which says what the warnings would
				for _, w := range c.Warnings {
					fmt.Fprintln(std.err, "warning:", oneLine(w))
				}
			}
			if format.value == "json" {
				err = document(std.out, c)
			} else {
				err = c.Print(std.out)
			}
			return cmp.Or(err, worse, unjudged)
		},
	}
	format.addFlag(cmd, "text", "json")
	cmd.Flags().Var(&failAbove, "fail-above", "exit with 1 if a case got worse by more than `PERCENT`, such as 3%, or cannot be judged")
	cmd.Flags().StringVar(&unit, "unit", "", "compare the units that match `REGEXP`")
	return cmd
}

// worsened is the error that names what got worse, the first few of it.
func worsened(failures []bench.Change, limit string) error {
	if len(failures) == 0 {
		return nil
	}
	const most = 3
	var names []string
	for i := range failures[:min(most, len(failures))] {
		names = append(names, failures[i].String())
	}
	more := ""
	if n := len(failures) - most; n > 0 {
		more = fmt.Sprintf("; and %d more", n)
	}
	return fmt.Errorf("worse by more than %s: %s%s", limit, strings.Join(names, "; "), more)
}
