package hotpath

import (
	"context"
	"errors"

	"hotpath/internal/engine"
	"hotpath/internal/plan"
	"hotpath/internal/train"
	"hotpath/profile"
)

// TrainConfig is a training run, as `hotpath train` reads it from JSON:
// model, data, out and hyper-parameters. DefaultTrainConfig fills in defaults.
type TrainConfig = train.Config

// TrainStep is what one optimizer step did; its String is a progress line.
type TrainStep = train.Step

// TrainResult is what a run did, and where its last checkpoint is.
type TrainResult = train.Result

// TrainPlan is what a run will take: parameters, memory, FLOPs. Its String is
// a table.
type TrainPlan = train.Estimate

var (
	// ErrTrainConfig reports a training configuration that makes no sense.
	ErrTrainConfig = train.ErrConfig
	// ErrTrainData reports training data that cannot be read.
	ErrTrainData = train.ErrData
	// ErrCheckpoint reports a checkpoint that a run cannot go on from.
	ErrCheckpoint = train.ErrCheckpoint
	// ErrDiverged reports a loss that is no number any more.
	ErrDiverged = train.ErrDiverged
)

// TrainOptions are what a training run needs besides its configuration.
type TrainOptions struct {
	Threads int    // of the CPU; 0 means all cores
	Device  string // as in Options
	// Resume is the folder of a checkpoint, or "auto": the newest in the
	// configuration's out, or a fresh run where it has none. Without it an out
	// that has a checkpoint is refused.
	Resume string
	// OnStep is called after each step; an error ends the run with it.
	OnStep func(TrainStep) error
	// Profile records every step; nil records nothing and costs nothing.
	Profile *profile.Recorder
}

// DefaultTrainConfig has every default; model, data and out are to be set.
func DefaultTrainConfig() TrainConfig { return train.DefaultConfig() }

// ReadTrainConfig reads and validates a configuration file. Each of sets
// replaces a field: "lr=1e-3", "betas.1=0.99".
func ReadTrainConfig(path string, sets ...string) (TrainConfig, error) {
	return train.ReadConfig(path, sets)
}

// Train trains a decoder to predict the next token of its data and writes
// checkpoints that Open takes. The same configuration gives the same bits at
// any number of threads, resumed or not. When ctx ends, the step that is
// running is completed, a checkpoint is written, and the result comes with the
// context's error.
func Train(ctx context.Context, cfg TrainConfig, o TrainOptions) (res *TrainResult, err error) {
	defer guard(&err)
	be, err := o.backend()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, be.Close()) }()
	if o.Profile != nil {
		o.Profile.SetFacts(machineFacts(be, trainPrecision))
	}
	return train.Run(ctx, cfg, train.Options{Backend: be, Resume: o.Resume, OnStep: o.OnStep, Recorder: o.Profile})
}

// PlanTraining reads model and data and says what Train would take. It writes
// nothing and allocates no memory for the run.
func PlanTraining(ctx context.Context, cfg TrainConfig, o TrainOptions) (p *TrainPlan, err error) {
	defer guard(&err)
	be, err := o.backend()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, be.Close()) }()
	return train.Plan(ctx, cfg, be)
}

// trainPrecision is what training computes in.
const trainPrecision = "f32"

func (o TrainOptions) backend() (plan.Backend, error) {
	device := o.Device
	if device == "" {
		device = defaultDevice
	}
	return engine.NewBackend(device, engine.BackendOptions{Threads: o.Threads, Precision: trainPrecision})
}
