package hotpath

import (
	"context"
	"errors"

	"hotpath/internal/engine"
	"hotpath/internal/machine"
	"hotpath/internal/plan"
	"hotpath/internal/train"
	"hotpath/profile"
)

// TrainConfig is a training run: model, data, out and hyper-parameters.
// [DefaultTrainConfig] has the defaults, [ReadTrainConfig] reads what `hotpath
// train` reads, and docs/training.md describes every field. Model is the path
// of a model; Shape describes one that is trained from random weights. Its
// method Validate says what is wrong with the first field that is; Train does
// so too.
type TrainConfig = train.Config

// ModelShape describes a model that has no files yet; [DefaultModelShape] has
// the defaults.
type ModelShape = train.Shape

// DefaultModelShape has every default; sizes and tokenizer are to be set.
func DefaultModelShape() ModelShape { return train.DefaultShape() }

// ReadyMadeTrainConfigs are the names of the configurations that the program
// carries; ReadTrainConfig takes a name in place of a path.
func ReadyMadeTrainConfigs() []string { return train.ReadyMadeNames() }

// ReadyMadeTrainConfig is the text of a ready-made configuration; false where
// there is none of that name.
func ReadyMadeTrainConfig(name string) ([]byte, bool) { return train.ReadyMade(name) }

// TrainObjective is what a model is trained for; docs/objectives.md explains each
// Type and its fields.
type TrainObjective = train.ObjectiveConfig

// TrainLoRA is what LoRA adds: Rank, Alpha and the Roles of projections. A Rank
// of 0 means none.
type TrainLoRA = train.LoRAConfig

// TrainStep is what one optimizer step did: Step (from 1) of Steps, Epoch,
// Loss, GradNorm, LR, Tokens, Sequences and the time that it took, Elapsed. Its
// String is a progress line.
type TrainStep = train.Step

// TrainResult is what a run did: Steps that the model has behind it, Loss of
// the last, Tokens and Elapsed of this run, and the folder of its last
// Checkpoint.
type TrainResult = train.Result

// TrainPlan is what a run will take: Parameters that are trained, Documents,
// Tokens and Pieces of the data, Batch, Epochs, Memory in bytes by class, and
// FLOPs of a step. Its String is a table.
type TrainPlan = train.Estimate

var (
	// ErrTrainConfig reports a training configuration that makes no sense.
	ErrTrainConfig = train.ErrConfig
	// ErrTrainData reports training data that cannot be read.
	ErrTrainData = train.ErrData
	// ErrCheckpoint reports a checkpoint that a run cannot go on from.
	ErrCheckpoint = train.ErrCheckpoint
	// ErrDiverged reports a loss, gradient or weight that is no finite number
	// any more. The checkpoints before it stay.
	ErrDiverged = train.ErrDiverged
)

// TrainOptions are what a training run needs besides its configuration.
type TrainOptions struct {
	Threads int    // of the CPU; 0 means all cores
	Device  string // as in Options
	// Precision is f32, bf16 or auto (or empty): bf16 on a processor with tiles
	// for it, else f32. In bf16 products, those of gradients too, and attention
	// read operands rounded to bf16 and sum in f32; the weights themselves, their
	// gradients and the optimizer stay in f32.
	Precision string
	// Resume is the folder of a checkpoint, or "auto": the newest in the
	// configuration's out, or a fresh run where it has none. Without it an out
	// that has a checkpoint is refused.
	Resume string
	// OnStep is called after each step; an error ends the run with it.
	OnStep func(TrainStep) error
	// OnSample is called with each text that the model writes while it trains, as
	// the configuration's field sample asks.
	OnSample func(step int, text string) error
	// Peak is what the machine can do in FLOP/s ([PeakFLOPs] measures it), for
	// TrainStep.MFU; 0: MFU is unknown.
	Peak float64
	// OnData is called while data are read, with the bytes of files that are done
	// and all.
	OnData func(done, total int64)
	// Profile records every step; nil records nothing and costs nothing.
	Profile *profile.Recorder
}

// DefaultTrainConfig has every default; model, data and out are to be set.
func DefaultTrainConfig() TrainConfig { return train.DefaultConfig() }

// ReadTrainConfig reads and validates a configuration file, or the ready-made
// configuration of that name. Each of sets replaces a field: "lr=1e-3",
// "betas.1=0.99".
func ReadTrainConfig(path string, sets ...string) (_ TrainConfig, err error) {
	defer engine.Guard(&err)
	return train.ReadConfig(path, sets)
}

// Train trains a model for its objective, next tokens by default, and writes
// checkpoints that Open takes. The same configuration gives the same bits at
// any number of threads, resumed or not. When ctx ends, the step that is
// running is given up, or completed where the optimizer is at work already, a
// checkpoint is written, and the result comes with the context's error.
func Train(ctx context.Context, cfg TrainConfig, o TrainOptions) (res *TrainResult, err error) {
	defer engine.Guard(&err)
	be, err := o.backend()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, be.Close()) }()
	if o.Profile != nil {
		o.Profile.SetFacts(machine.Facts(be, o.precision()))
	}
	return train.Run(ctx, cfg, train.Options{
		Backend: be, Resume: o.Resume, OnStep: o.OnStep, OnSample: o.OnSample, OnData: o.OnData, Peak: o.Peak, Recorder: o.Profile,
	})
}

// PeakFLOPs measures what so many threads can do in the precision of training,
// in FLOP/s: about a tenth of a second with the whole machine. It is 0 on
// devices other than the CPU.
func PeakFLOPs(ctx context.Context, o TrainOptions) (float64, error) {
	if err := machine.CheckThreads(o.Threads); err != nil {
		return 0, err
	}
	if o.Device != "" && o.Device != machine.CPU {
		return 0, nil
	}
	return machine.PeakFLOPs(ctx, o.Threads, o.precision()), context.Cause(ctx)
}

// PlotTraining draws the losses in the log of a run's folder as loss.svg there,
// and returns its path.
func PlotTraining(out string) (path string, err error) {
	defer engine.Guard(&err)
	return train.Plot(out)
}

// PlanTraining reads model and data and says what Train would take. It writes
// nothing but the cache of large data's tokens, and allocates no memory for the
// run. Times are estimated from the
// machine's ceilings, which it measures in half a second.
func PlanTraining(ctx context.Context, cfg TrainConfig, o TrainOptions) (p *TrainPlan, err error) {
	defer engine.Guard(&err)
	be, err := o.backend()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, be.Close()) }()
	var c profile.Ceilings
	if o.Device == "" || o.Device == machine.CPU {
		if c, err = machine.MeasureCeilings(ctx, o.Threads); err != nil {
			return nil, err
		}
	}
	return train.Plan(ctx, cfg, be, c)
}

// precision is what training computes in on the CPU.
func (o TrainOptions) precision() string { return machine.TrainingPrecision(o.Precision) }

func (o TrainOptions) backend() (plan.Backend, error) {
	if err := machine.CheckThreads(o.Threads); err != nil {
		return nil, err
	}
	device := o.Device
	if device == "" {
		device = machine.CPU
	}
	return engine.NewBackend(device, engine.BackendOptions{Threads: o.Threads, Precision: o.precision()})
}
