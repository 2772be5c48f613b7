package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"hotpath/internal/atomicfile"
	"hotpath/profile"
)

func newProfileCompare(std streams) *cobra.Command {
	var format formatFlag
	var failAbove, out string
	var top int
	cmd := &cobra.Command{
		Use:   "compare A B",
		Short: "Say with statistics what changed between two recordings",
		Long: `Say with statistics what changed between two recordings. The difference of
every step is divided into work, which is counted exactly, efficiency and wait. A
time differs where the Mann-Whitney test says so at 0.05, corrected for the number
of rows by Holm's method, and by more than two recordings of one build differ.

A and B are each a file, several separated by commas, or a folder of them. One of
each tells which steps and ops changed by much. Several of each, made in turn (A B
A B ...), tell of smaller changes, and whether everything got slower or only the
machine was: when they were made says which belong together, and what such a pair
has in common is the machine's. All of A before all of B tell no more than one of
each, and a warning says so.

With --fail-above the exit status is 1 when B is surely slower by more than that
part of A's time.`,
		Example: `  hotpath profile compare before.json after.json
  hotpath profile compare before.json after.json -o diff.html
  hotpath profile compare a1.json,a2.json,a3.json b1.json,b2.json,b3.json --fail-above 3%`,
		Args: args(cobra.ExactArgs(2)),
		RunE: func(_ *cobra.Command, files []string) error {
			limit := 0.0
			if failAbove != "" {
				var err error
				if limit, err = parsePercent(failAbove); err != nil {
					return usagef("--fail-above %w", err)
				}
			}
			if err := checkTop(top); err != nil {
				return err
			}
			if out != "" {
				if !profile.Comparable(out) {
					return usagef("-o %s, expected a file that ends in %s", out, strings.Join(profile.ComparisonEndings(), ", "))
				}
				if err := writable("-o ", out); err != nil {
					return err
				}
			}
			a, err := recordings(files[0])
			if err != nil {
				return err
			}
			b, err := recordings(files[1])
			if err != nil {
				return err
			}
			c, err := profile.Compare(a, b, files[0], files[1])
			if err != nil {
				return err
			}
			if err := printComparison(std, c, format.value, top); err != nil {
				return err
			}
			if out != "" {
				if err := profile.ExportComparison(out, c); err != nil {
					return err
				}
			}
			if worse := c.Worse(); failAbove != "" && worse > limit {
				return fmt.Errorf("slower by %.1f %%, more than %s: %s", worse, failAbove, c.Summary())
			}
			return nil
		},
	}
	format.add(cmd, "text", "json", "md")
	cmd.Flags().StringVar(&failAbove, "fail-above", "", "exit with 1 where B is surely slower by more than `PERCENT` of A's time: 3%")
	cmd.Flags().IntVar(&top, "top", 15, "list `N` rows of each table, -1 for all")
	cmd.Flags().StringVarP(&out, "output", "o", "", "write it to `FILE` too: "+strings.Join(profile.ComparisonEndings(), ", "))
	return cmd
}

func printComparison(std streams, c *profile.Comparison, format string, top int) error {
	w := bufio.NewWriter(std.out)
	o := profile.ReportOptions{Top: top, Color: isTerminal(std.out)}
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

// recordings reads a file, several of them, or all .json files of a folder.
func recordings(list string) ([]*profile.Profile, error) {
	files := strings.Split(list, ",")
	if info, err := os.Stat(list); err == nil {
		files = []string{list}
		if info.IsDir() {
			if files, err = filepath.Glob(filepath.Join(escapeGlob(list), "*.json")); err != nil || len(files) == 0 {
				return nil, fmt.Errorf("%s: no .json file in this folder, expected recordings", list)
			}
		}
	}
	out := make([]*profile.Profile, len(files))
	for i, file := range files {
		var err error
		if out[i], err = profile.ReadFile(file); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// escapeGlob makes a path stand for itself in a pattern.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// writable says before the work that its result could not be written, rather
// than after it. flag is how the path was given, as far as its value.
func writable(flag, path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("%s%s: cannot be written: it is a folder", flag, path)
	}
	if err := atomicfile.Writable(path); err != nil {
		return fmt.Errorf("%s%s: cannot be written: %w", flag, path, errors.Unwrap(err))
	}
	return nil
}
