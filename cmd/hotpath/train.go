package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"hotpath"
	"hotpath/internal/term"
	"hotpath/profile"
)

func newTrain(std streams) *cobra.Command {
	var mf modelFlags
	var sets []string
	var resume, out string
	var validate, dry bool
	cmd := &cobra.Command{
		Use:   "train CONFIG.json",
		Short: "Train or fine-tune a decoder on text",
		Long: `Train a decoder to predict the next token. CONFIG.json has at least "model",
"data" (text files, .jsonl files or folders of them) and "out", the folder of
checkpoints and logs. A run that was interrupted leaves a checkpoint;
--resume auto goes on from it, to the same bits.`,
		Example: `  hotpath train config.json --dry-run
  hotpath train config.json --set steps=100 --set lr=1e-3
  hotpath train config.json --resume auto`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, files []string) error {
			if err := mf.check(); err != nil {
				return err
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
			o := hotpath.TrainOptions{Threads: mf.threads, Resume: resume, Precision: mf.precision}
			if mf.device != "auto" {
				o.Device = mf.device
			}
			if dry {
				plan, err := hotpath.PlanTraining(cmd.Context(), cfg, o)
				if err != nil {
					return err
				}
				_, err = fmt.Fprint(std.out, term.Lines(fmt.Sprint(plan)))
				return err
			}
			bar := newReading(std)
			o.OnData = bar.read
			defer bar.finish()
			o.OnStep = func(s hotpath.TrainStep) error {
				bar.finish()
				_, err := fmt.Fprintln(std.err, s)
				return err
			}
			return mf.recorded(cmd.Context(), std, func(ctx context.Context, rec *profile.Recorder) error {
				o.Profile = rec
				res, err := hotpath.Train(ctx, cfg, o)
				if err == nil && res.Checkpoint == "" {
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
	cmd.Flags().StringVar(&mf.precision, "precision", "auto", "compute in `f32|bf16|auto`: bf16 rounds the operands of products with weights, auto is f32")
	cmd.Flags().BoolVar(&mf.invariant, "invariant", false, "the same bits at any number of threads, which training gives in any case")
	cmd.Flags().StringArrayVar(&sets, "set", nil, "replace a field of the configuration: `NAME=VALUE`")
	cmd.Flags().StringVar(&resume, "resume", "", "go on from a checkpoint: auto for the newest, or its `FOLDER`")
	cmd.Flags().VarP(fileFlag{&out}, "output", "o", "`FOLDER` of checkpoints and logs, in place of the configuration's")
	cmd.Flags().BoolVar(&validate, "validate", false, "check the configuration and stop")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what the run would take and stop")
	return cmd
}
