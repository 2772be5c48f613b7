package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"hotpath"
	"hotpath/internal/term"
	"hotpath/profile"
)

func newTrain(std streams) *cobra.Command {
	var mf modelFlags
	var sets []string
	var resume, out string
	var validate, dry, list, plot bool
	cmd := &cobra.Command{
		Use:   "train CONFIG.json | NAME",
		Short: "Train or fine-tune a model",
		Long: `Train a model as a configuration says. CONFIG.json has at least "model" (a path,
or an object that describes a new model), "data" (text files, .jsonl files or
folders of them) and "out", the folder of checkpoints and logs. NAME is one of
the ready-made configurations; --list-configs names them, or prints the one
that is named. An interrupted run leaves a checkpoint; --resume auto continues
from it, to the same bits. docs/training.md describes every field.`,
		Example: `  hotpath train config.json --dry-run
  hotpath train config.json --set steps=100 --set lr=1e-3
  hotpath train config.json --resume auto
  hotpath train shakespeare-char --set data=corpus.txt --set steps=5 --set warmup=1 -o chars`,
		Args: func(cmd *cobra.Command, names []string) error {
			if list {
				return args(cobra.MaximumNArgs(1))(cmd, names)
			}
			return fileArgs(cobra.ExactArgs(1), "CONFIG.json")(cmd, names)
		},
		RunE: func(cmd *cobra.Command, files []string) error {
			if err := mf.check(); err != nil {
				return err
			}
			if list {
				return listConfigs(std, files)
			}
			if out != "" {
				sets = append(sets, `out="-o"`) // in place of a name that JSON may not be able to hold
			}
			cfg, err := hotpath.ReadTrainConfig(files[0], sets...)
			if err != nil || validate {
				return err
			}
			if out != "" {
				cfg.Out = out
			}
			if err := resolveTrain(cmd.Context(), &cfg); err != nil {
				return err
			}
			o := hotpath.TrainOptions{Threads: mf.threads, Resume: resume, Precision: mf.precision}
			if mf.device != "auto" {
				o.Device = mf.device
			}
			if mf.verbose {
				o.OnDevice = func(d hotpath.TrainDevice) { fmt.Fprintln(std.err, trainsOn(mf.device, d)) }
			}
			if dry {
				plan, err := hotpath.PlanTraining(cmd.Context(), cfg, o)
				if err != nil {
					return notPulled(cfg.Model, err)
				}
				_, err = fmt.Fprint(std.out, term.Lines(fmt.Sprint(plan)))
				return err
			}
			bar, show := newReading(std), newSteps(std.err)
			defer bar.finish()
			o.OnData, o.OnSample = bar.read, show.sample
			o.OnStep = func(s hotpath.TrainStep) error {
				bar.finish()
				return show.step(s)
			}
			if o.Peak, err = hotpath.PeakFLOPs(cmd.Context(), o); err != nil {
				return err
			}
			return mf.recorded(cmd.Context(), std, func(ctx context.Context, rec *profile.Recorder) error {
				o.Profile = rec
				res, err := hotpath.Train(ctx, cfg, o)
				if err = errors.Join(err, show.end()); err != nil {
					err = notPulled(cfg.Model, err)
				}
				if plot && res != nil {
					path, drawn := hotpath.PlotTraining(cfg.Out)
					if err = errors.Join(err, drawn); drawn == nil {
						_, drawn = fmt.Fprintf(std.err, "losses drawn in %s\n", path)
						err = errors.Join(err, drawn)
					}
				}
				if err == nil && res.Early {
					_, err = fmt.Fprintf(std.err, "ended early: the %s of step %d, %.4f, was not reached again\n", res.BestFigure, res.Best, res.BestValue)
				}
				if err == nil && res.Checkpoint == "" && !res.Early {
					_, err = fmt.Fprintf(std.err, "nothing to do: the %d steps are done\n", cfg.Steps)
				}
				if res != nil && res.Checkpoint != "" {
					_, printed := fmt.Fprintf(std.out, "%d steps, loss %.4f, %d tokens in %.1f s, checkpoint %s\n",
						res.Steps, res.Loss, res.Tokens, res.Elapsed.Seconds(), res.Checkpoint)
					err = errors.Join(err, printed)
				}
				return err
			})
		},
	}
	mf.addRun(cmd)
	cmd.Flags().Lookup("verbose").Usage = "say which device, how many workers and which precision the run takes"
	cmd.Flags().StringVar(&mf.precision, "precision", "auto", "compute in `f32|bf16|auto`: bf16 rounds the operands of products and of attention; auto is bf16 if the processor has tiles for it, else f32")
	cmd.Flags().BoolVar(&mf.invariant, "invariant", false, "the same bits at any number of threads, which training gives in any case")
	cmd.Flags().StringArrayVar(&sets, "set", nil, "replace a field of the configuration: `NAME=VALUE`")
	cmd.Flags().Var(filledFlag{&resume, "auto or the name of a folder"}, "resume", "continue from a checkpoint: auto for the newest, or its `FOLDER`")
	cmd.Flags().VarP(folderFlag(&out), "output", "o", "`FOLDER` of checkpoints and logs, in place of the configuration's")
	cmd.Flags().BoolVar(&validate, "validate", false, "check the configuration and stop")
	cmd.Flags().BoolVar(&list, "list-configs", false, "name the ready-made configurations, or print the one that is named, and stop")
	cmd.Flags().BoolVar(&plot, "plot", false, "draw the losses as loss.svg in the folder at the end")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print the memory and time that the run would take, and stop")
	return cmd
}

// trainsOn is what -v says.
func trainsOn(asked string, d hotpath.TrainDevice) string {
	if asked == "auto" {
		return fmt.Sprintf("hotpath: --device auto takes %v: training takes a card only if --device names it", d)
	}
	return fmt.Sprintf("hotpath: training takes %v", d)
}

// resolveTrain puts paths in place of the names of pulled models.
func resolveTrain(ctx context.Context, cfg *hotpath.TrainConfig) error {
	names := []*string{&cfg.Model, &cfg.Objective.Teacher, &cfg.Objective.Reference}
	if cfg.Shape != nil {
		shape := *cfg.Shape
		cfg.Shape = &shape
		names = append(names, &shape.Tokenizer)
	}
	for _, name := range names {
		path, err := modelPath(ctx, *name)
		if err != nil {
			return err
		}
		*name = path
	}
	return nil
}

// listConfigs names the ready-made configurations, or prints the one that is
// named.
func listConfigs(std streams, names []string) error {
	if len(names) > 0 {
		text, ok := hotpath.ReadyMadeTrainConfig(names[0])
		if !ok {
			return fmt.Errorf("%q: expected one of the ready-made configurations %s", names[0], strings.Join(hotpath.ReadyMadeTrainConfigs(), ", "))
		}
		_, err := std.out.Write(text)
		return err
	}
	for _, name := range hotpath.ReadyMadeTrainConfigs() {
		c, err := hotpath.ReadTrainConfig(name)
		if err == nil {
			_, err = fmt.Fprintf(std.out, "%-18s%s\n", name, c.About)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stepLines shows steps, evaluations and samples: on a terminal the line of a step
// replaces the one before.
type stepLines struct {
	to       io.Writer
	terminal bool
	open     bool // the line has no end yet
}

func newSteps(to io.Writer) *stepLines { return &stepLines{to: to, terminal: isTerminal(to)} }

func (w *stepLines) step(s hotpath.TrainStep) error {
	line := s.String()
	if !w.terminal {
		_, err := fmt.Fprintln(w.to, line)
		return err
	}
	w.open = !s.Eval.Done && !s.Skipped
	end := "\n"
	if w.open {
		end = ""
	}
	_, err := fmt.Fprintf(w.to, "\r\x1b[K%s%s", line, end)
	return err
}

func (w *stepLines) sample(step int, text string) error {
	if err := w.end(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w.to, "sample after step %d:\n%s\n", step, term.Lines(text))
	return err
}

// end ends a line that is open.
func (w *stepLines) end() error {
	if !w.open {
		return nil
	}
	w.open = false
	_, err := fmt.Fprintln(w.to)
	return err
}
