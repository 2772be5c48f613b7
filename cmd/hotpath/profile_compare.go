package main

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hotpath/internal/atomicfile"
	"hotpath/profile"
	"hotpath/profile/compare"
	"hotpath/profile/export"
	"hotpath/profile/report"
)

func newProfileCompare(std streams) *cobra.Command {
	var format formatFlag
	var failAbove percentFlag
	var out string
	var top int
	cmd := &cobra.Command{
		Use:   "compare A B",
		Short: "Say with statistics what changed between two recordings",
		Long: `Say with statistics what changed between two recordings. The difference of
every op, layer and step is divided into work, which is counted exactly,
efficiency and wait. At equal work the median, the mean and the 95th percentile of
runs are each compared, with a 95 per cent interval. A star marks a change that
is real: by Student's t it is larger than the difference between two recordings of
one build, after Holm's correction for the number of tests. The probability of a
false alarm is 1 per cent over all times of a comparison. The median calls of scopes,
which hold the host's work, the columns of the ledger, page faults, allocations on the
Go heap and memory are compared too. All of these but memory need several recordings per
side, made in turn.

A and B are each a file, several separated by commas, or a folder of them. One
recording per side shows which ops, layers and steps changed by much. Several per
side, made in turn (A B A B ...), show smaller changes, and separate a slower
build from a slower machine: recordings are paired by their time, and what a pair
has in common is the machine's. All of A before all of B show no more than one
recording per side, and a warning says so.

An op is compared with the other ops of the same runs, and a layer with the other
layers. If all changed alike and that is real, the table says by how much. The same
texts may be in different batches in A and B by chance: times are compared at
equal batch size. If all batches of one side are larger, that is the first result.

With --fail-above the exit status is 1 if B is really slower by more than that
part of A's time: in total, in whole runs, in the slowest runs (p95), in all calls
of one scope as a part of the whole recording, or in one column of the ledger as a
part of all lane time, unless whole runs of its plan are faster.`,
		Example: `  hotpath profile compare before.json after.json
  hotpath profile compare before.json after.json -o diff.html
  hotpath profile compare a1.json,a2.json,a3.json b1.json,b2.json,b3.json --fail-above 3%`,
		Args: fileArgs(cobra.ExactArgs(2), "A", "B"),
		RunE: func(cmd *cobra.Command, files []string) error {
			if cmd.Flags().Changed("top") {
				if err := checkTop(top); err != nil {
					return err
				}
			}
			if out != "" {
				if !export.Comparable(out) {
					return usagef("-o %s, expected a file that ends in %s", out, strings.Join(export.ComparisonEndings(), ", "))
				}
				if err := writable("-o ", out); err != nil {
					return err
				}
			}
			a, err := recordings(cmd.Context(), "A", files[0])
			if err != nil {
				return err
			}
			b, err := recordings(cmd.Context(), "B", files[1])
			if err != nil {
				return err
			}
			c, err := compare.Compare(a, b, sideName(files[0], len(a)), sideName(files[1], len(b)))
			if err != nil {
				return err
			}
			if err := printComparison(std, c, format.value, top); err != nil {
				return err
			}
			if out != "" {
				if err := export.ExportComparison(out, c); err != nil {
					return err
				}
			}
			if worst, of := c.Worst(); failAbove.given() && worst > failAbove.value {
				return fmt.Errorf("slower by %.1f %%, more than %s: %s", worst, failAbove.text, of)
			}
			return nil
		},
	}
	format.addFlag(cmd, "text", "json", "md")
	cmd.Flags().Var(&failAbove, "fail-above", "exit with 1 if B is really slower by more than `PERCENT` of A's time, in all or in the slowest runs: 3%")
	cmd.Flags().IntVar(&top, "top", 0, "list `N` rows of each table, -1 for all; without it rows that changed or are near to it, and the others folded")
	cmd.Flags().VarP(fileFlag(&out), "output", "o", "write it to `FILE` too: "+strings.Join(export.ComparisonEndings(), ", "))
	return cmd
}

func printComparison(std streams, c *compare.Comparison, format string, top int) error {
	w := bufio.NewWriter(std.out)
	o := report.Options{Top: top, Color: isTerminal(std.out)}
	var err error
	switch format {
	case "text":
		err = c.Text(w, o)
	case "md":
		err = c.Markdown(w, o)
	case "json":
		err = c.JSON(w)
	}
	if err != nil {
		return err
	}
	return w.Flush()
}

// sideName is how a report calls a side: a long list of files by its first one.
func sideName(list string, recordings int) string {
	const most = 3
	if first, _, several := strings.Cut(list, ","); several && recordings > most {
		return fmt.Sprintf("%s and %d more", first, recordings-1)
	}
	return list
}

// recordings reads a file, several of them, or all .json files of a folder. side is
// how the help calls the argument.
func recordings(ctx context.Context, side, list string) ([]*profile.Profile, error) {
	files := strings.Split(list, ",")
	if info, err := os.Stat(list); err == nil {
		files = []string{list}
		if info.IsDir() {
			if files, err = fs.Glob(os.DirFS(list), "*.json"); err != nil || len(files) == 0 {
				return nil, fmt.Errorf("%s: no .json file in this folder, expected recordings", list)
			}
			for i := range files {
				files[i] = filepath.Join(list, files[i])
			}
		}
	}
	if slices.Contains(files, "") {
		return nil, usagef("%s is %q, expected the name of a file before and after each comma", side, list)
	}
	out := make([]*profile.Profile, len(files))
	for i, file := range files {
		var err error
		if out[i], err = readProfile(ctx, file); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// writable says before the work that its result could not be written, rather
// than after it. flag is how the path was given, as far as its value.
func writable(flag, path string) error {
	if err := atomicfile.Check(path); err != nil {
		return fmt.Errorf("%s%w", flag, err)
	}
	return nil
}
