package hotpath

import (
	"context"
	"errors"

	"hotpath/internal/engine"
	"hotpath/internal/plan"
	"hotpath/internal/train"
	"hotpath/profile"
)

// TrainConfig is a training run: model, data, out and hyper-parameters.
// [DefaultTrainConfig] has the defaults, and [ReadTrainConfig] reads what
// `hotpath train` reads, a JSON object of these fields.
type TrainConfig struct {
	// Model is a Hugging Face directory or a .gguf file. Its architecture,
	// tokenizer and, unless Init says otherwise, weights are the start.
	Model string `json:"model"`
	// Init is "weights" (default), or "random": normal with deviation 0.02,
	// projections into the residual stream scaled by 1/sqrt(2*layers).
	Init string `json:"init"`
	// Data is one path or a list: text files (one document each), .jsonl with
	// "text" (one document a line), directories of both.
	Data []string `json:"data"`
	// Out is the folder of checkpoints and logs.
	Out string `json:"out"`

	Steps       int `json:"steps"`        // optimizer steps in all: 1000
	BatchTokens int `json:"batch_tokens"` // most tokens of a step: 4096
	SeqLen      int `json:"seq_len"`      // most tokens of a sequence; 0 (default): what the model has, at most batch_tokens
	// MicroTokens is the most tokens of one run of the model; a step of more sums
	// the gradients of several runs. 0 (default): batch_tokens.
	MicroTokens int `json:"micro_tokens"`

	LR          float64    `json:"lr"`           // 3e-4
	MinLR       float64    `json:"min_lr"`       // where cosine and linear end: 0
	Warmup      int        `json:"warmup"`       // steps from 0 to lr: 0
	Schedule    string     `json:"schedule"`     // after warm-up: cosine (default), linear, constant
	Betas       [2]float64 `json:"betas"`        // [0.9, 0.95]
	Eps         float64    `json:"eps"`          // 1e-8
	WeightDecay float64    `json:"weight_decay"` // on matrices: 0.1
	Clip        float64    `json:"clip"`         // largest global norm of gradients: 1; 0: none

	Seed            uint64 `json:"seed"`             // of the order of data and of random weights: 1
	CheckpointEvery int    `json:"checkpoint_every"` // steps; 0 (default): at the end only
	Keep            int    `json:"keep"`             // checkpoints that stay: 2; 0: all

	// Objective is what the model is trained for: next tokens unless it says
	// otherwise.
	Objective TrainObjective `json:"objective"`
	// LoRA trains small matrices beside weights that stay as they are.
	LoRA TrainLoRA `json:"lora"`
}

// TrainObjective is what a model is trained for; docs/objectives.md explains each
// Type and its fields.
type TrainObjective = train.ObjectiveConfig

// TrainLoRA is what LoRA adds: Rank, Alpha and the Roles of projections. A Rank
// of 0 means none.
type TrainLoRA = train.LoRAConfig

// Validate says what is wrong with the first field that is; Train does so too.
func (c TrainConfig) Validate() error { return (*train.Config)(&c).Validate() }

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
	// Precision is f32, bf16 or auto (or empty), which is f32. In bf16 the
	// products with weights read operands rounded to bf16 and sum in f32; the
	// weights themselves, their gradients and the optimizer stay in f32.
	Precision string
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
func DefaultTrainConfig() TrainConfig { return TrainConfig(train.DefaultConfig()) }

// ReadTrainConfig reads and validates a configuration file. Each of sets
// replaces a field: "lr=1e-3", "betas.1=0.99".
func ReadTrainConfig(path string, sets ...string) (_ TrainConfig, err error) {
	defer engine.Guard(&err)
	c, err := train.ReadConfig(path, sets)
	return TrainConfig(c), err
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
		o.Profile.SetFacts(machineFacts(be, o.precision()))
	}
	return train.Run(ctx, train.Config(cfg), train.Options{Backend: be, Resume: o.Resume, OnStep: o.OnStep, Recorder: o.Profile})
}

// PlanTraining reads model and data and says what Train would take. It writes
// nothing and allocates no memory for the run.
func PlanTraining(ctx context.Context, cfg TrainConfig, o TrainOptions) (p *TrainPlan, err error) {
	defer engine.Guard(&err)
	be, err := o.backend()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, be.Close()) }()
	return train.Plan(ctx, train.Config(cfg), be)
}

// precision is what training computes in.
func (o TrainOptions) precision() string {
	if o.Precision == "" || o.Precision == "auto" {
		return "f32"
	}
	return o.Precision
}

func (o TrainOptions) backend() (plan.Backend, error) {
	if err := checkThreads(o.Threads); err != nil {
		return nil, err
	}
	device := o.Device
	if device == "" {
		device = defaultDevice
	}
	return engine.NewBackend(device, engine.BackendOptions{Threads: o.Threads, Precision: o.precision()})
}
