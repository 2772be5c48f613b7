package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hotpath/internal/builtin"
	"hotpath/internal/study"
	"hotpath/internal/term"
)

func newStudy(std streams) *cobra.Command {
	var o study.Options
	var sf studyFlags
	var folder string
	var list strings.Builder
	for _, s := range study.Studies {
		model := ""
		if s.Model {
			model = " (-m MODEL)"
		}
		fmt.Fprintf(&list, "\n  %-12s %s%s", s.Name, s.What, model)
	}
	cmd := &cobra.Command{
		Use:   "study NAME",
		Short: "Make an experiment on this machine and write what it shows",
		Long: `Make an experiment on this machine and write a report with pictures: report.md,
report.html and the measurements, into a folder. The alternatives take
turns, the baseline is compared with itself, and advice is given only if the
95 per cent interval excludes zero. NAME is one of
` + list.String(),
		Example: `  hotpath study parallelism -m all-MiniLM-L6-v2 --quick -o study-parallelism
  hotpath study whatif -m MODEL --step linear --quick
  hotpath study cache --quick`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, names []string) error {
			name := names[0]
			switch {
			case !slices.Contains(study.Names(), name):
				return usagef("no study %q, expected %s", name, strings.Join(study.Names(), ", "))
			case o.Budget < 0 || o.Budget > maxTime:
				return usagef("--time %v, expected 0 to %v", o.Budget, maxTime)
			}
			if err := sf.check(&o); err != nil {
				return err
			}
			if o.Model == "" && study.Needs(name) {
				o.Model = builtin.Default(builtin.Embedder)
			}
			if folder == "" {
				folder = "study-" + name
			}
			_, missing := os.Stat(folder)
			if err := study.Prepare(folder); err != nil {
				return fmt.Errorf("-o: %w", err)
			}
			bar := newLine(std.err)
			o.Progress = bar.say
			report, err := study.Run(cmd.Context(), name, o)
			bar.clear()
			if err != nil && missing != nil {
				os.Remove(folder) // it is empty
			}
			if errors.Is(err, study.ErrNoModel) {
				return &usageError{err}
			}
			if err != nil {
				return err
			}
			markdown, page, err := report.Write(folder)
			if err != nil {
				return err
			}
			for _, a := range report.Advice {
				if _, err := fmt.Fprintf(std.out, "- %s\n", term.Printable(a)); err != nil {
					return err
				}
			}
			_, err = fmt.Fprintf(std.out, "%s\n%s\n", markdown, page)
			return err
		},
	}
	flags := cmd.Flags()
	sf.addFlags(cmd, &o)
	flags.VarP(folderFlag(&folder), "output", "o", "`FOLDER` of the report; study-NAME without it")
	flags.DurationVar(&o.Budget, "time", 0, "measure for about `DURATION`; 0 for the study's own")
	flags.StringSliceVar(&o.Steps, "step", nil, "whatif: ask about `KIND` of steps, or steps with it in their names; may be repeated")
	flags.BoolVar(&o.Quick, "quick", false, "two blocks and small sizes: shows that it works, not what is so")
	return cmd
}

// line is a line of progress that is written over and over, on a terminal only.
type line struct {
	w     io.Writer
	start time.Time
	wide  int
}

func newLine(w io.Writer) *line {
	if !isTerminal(w) {
		return &line{}
	}
	return &line{w: w, start: time.Now()}
}

// say shows what is being done.
func (l *line) say(what string, done, of int) {
	if l.w == nil {
		return
	}
	text := fmt.Sprintf("%3d %% %4.0fs  %s", 100*done/max(1, of), time.Since(l.start).Seconds(), term.Printable(what))
	if r := []rune(text); len(r) > 110 {
		text = string(r[:110])
	}
	fmt.Fprintf(l.w, "\r%-*s", l.wide, text)
	l.wide = len([]rune(text))
}

func (l *line) clear() {
	if l.w != nil && l.wide > 0 {
		fmt.Fprintf(l.w, "\r%-*s\r", l.wide, "")
	}
}
