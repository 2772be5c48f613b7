package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hotpath/internal/atomicfile"
	"hotpath/internal/builtin"
	"hotpath/internal/study"
)

// studyFlags are the flags that runs of one's own have in common.
type studyFlags struct{ measure measureFlags }

func (f *studyFlags) addFlags(cmd *cobra.Command, o *study.Options) {
	f.measure.addFlags(cmd, &o.Model, &o.Precision, &o.Invariant)
	addThreads(cmd, &o.Threads, "use up to `N` threads; 0 for one a core")
}

// check reports mistakes in them.
func (f *studyFlags) check(o *study.Options) error { return f.measure.check(o.Precision) }

func newProfileRun(std streams) *cobra.Command {
	var o study.ProfileOptions
	var sf studyFlags
	var out string
	cmd := &cobra.Command{
		Use:   "run [-m MODEL]",
		Short: "Set a model up, warm it up, repeat some work and report where time and memory went",
		Long: `Set a model up, warm it up, repeat some work and report where time and memory
went: facts of machine, build, collector and model, hot paths, allocators and the
hierarchy of calls. Recorded and unrecorded iterations alternate, which shows the
cost of recording. --output picks the format by its ending;
without it the report is printed.`,
		Example: `  hotpath profile run -m MODEL --iterations 1 --tokens 8
  hotpath profile run -m MODEL --work generate --iterations 3 --tokens 50 -o report.md
  hotpath profile run -m MODEL --work train --iterations 1 --tokens 16 -o run.json`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ends := study.ProfileEndings()
			if o.Model == "" {
				o.Model = builtin.Default(builtin.Embedder)
				if o.Work == "generate" || o.Work == "train" {
					o.Model = builtin.Default(builtin.Generator)
				}
			}
			switch {
			case o.Model == "":
				return usagef("-m MODEL is missing")
			case o.Work != "" && !slices.Contains(study.Works, o.Work):
				return usagef("--work %q, expected %s", o.Work, strings.Join(study.Works, ", "))
			case o.Iterations < 1 || o.Iterations > maxRepeats:
				return usagef("--iterations %d, expected 1 to %d", o.Iterations, maxRepeats)
			case o.Tokens < 2:
				return usagef("--tokens %d, expected 2 or more", o.Tokens)
			case out != "" && !slices.ContainsFunc(ends, func(e string) bool { return strings.HasSuffix(out, e) }):
				return usagef("-o %s, expected a file that ends in %s", out, strings.Join(ends, ", "))
			}
			if err := sf.check(&o.Options); err != nil {
				return err
			}
			if out != "" {
				if err := writable("-o ", out); err != nil {
					return err
				}
			}
			bar := newLine(std.err)
			o.Progress = bar.say
			p, err := study.ProfileRun(cmd.Context(), o)
			bar.clear()
			if err != nil {
				return err
			}
			if p.Note != "" {
				fmt.Fprintf(std.err, "hotpath: %s\n", oneLine(p.Note))
			}
			if out != "" {
				return p.Write(out)
			}
			text, err := p.Text()
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(std.out, text)
			return err
		},
	}
	sf.addFlags(cmd, &o.Options)
	flags := cmd.Flags()
	flags.StringVar(&o.Work, "work", "", "what to do: `embed|generate|train`; without it what the model is for")
	flags.IntVar(&o.Iterations, "iterations", 3, "record `N` iterations")
	flags.IntVar(&o.Tokens, "tokens", 50, "`N` tokens of each text, answer or sequence")
	flags.VarP(fileFlag(&out), "output", "o", "`FILE` to write, by its ending; without it the report is printed")
	return cmd
}

func newProfileDeep(std streams) *cobra.Command {
	var o study.Options
	var sf studyFlags
	var out string
	documents := map[string]func(*study.Report) string{".md": (*study.Report).Markdown, ".html": (*study.Report).HTML, ".txt": (*study.Report).Text}
	cmd := &cobra.Command{
		Use:   "deep",
		Short: "Measure each kernel by itself against the ceilings of the machine",
		Long: `Measure each kernel by itself, at the model's own shapes and at square sizes,
against ceilings that are measured in the same run. Processor events
are counted if the kernel allows it; otherwise the report says which are missing
and why.`,
		Example: `  hotpath profile deep --quick
  hotpath profile deep -m MODEL --quick -o deep.md`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			render := (*study.Report).Text
			if out != "" {
				var ok bool
				if render, ok = documents[filepath.Ext(out)]; !ok {
					return usagef("-o %s, expected a file that ends in .md, .html or .txt", out)
				}
			}
			if err := sf.check(&o); err != nil {
				return err
			}
			if out != "" {
				if err := writable("-o ", out); err != nil {
					return err
				}
			}
			bar := newLine(std.err)
			o.Progress = bar.say
			r, err := study.Deep(cmd.Context(), o)
			bar.clear()
			if err != nil {
				return err
			}
			if out == "" {
				_, err = fmt.Fprint(std.out, render(r))
				return err
			}
			_, err = waitFor(cmd.Context(), func() (struct{}, error) {
				return struct{}{}, atomicfile.WriteFile(out, []byte(render(r)))
			})
			return err
		},
	}
	sf.addFlags(cmd, &o)
	cmd.Flags().VarP(fileFlag(&out), "output", "o", "`FILE` to write: .md, .html or .txt; without it the report is printed")
	cmd.Flags().BoolVar(&o.Quick, "quick", false, "one size and one sample of each: shows that it works, proves nothing")
	return cmd
}
