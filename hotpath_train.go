package hotpath

import (
	"context"
	"errors"
	"fmt"

	"hotpath/internal/engine"
	"hotpath/internal/machine"
	"hotpath/internal/plan"
	"hotpath/internal/train"
	"hotpath/profile"
)

// TrainConfig is a training run. [DefaultTrainConfig] has the defaults,
// [ReadTrainConfig] reads what `hotpath train` reads, and docs/training.md
// describes every field by its name in JSON. Its fields are
//
//	About                                   string            // one line for people
//	Model                                   string            // path of the model to start from
//	Shape                                   *ModelShape       // or a model that has no files yet
//	Init                                    string            // "weights" or "random"
//	Data                                    []string          // text files, .jsonl files, folders
//	Truncate                                bool              // cut examples that are too long
//	Out                                     string            // folder of checkpoints and logs
//	Steps                                   int               // optimizer steps in all
//	BatchTokens, SeqLen, MicroTokens        int               // most tokens of a step, a sequence, a run
//	Optimizer, Schedule                     string            // "adamw" or "sgd"; "cosine", "linear", ...
//	LR, MinLR                               float64           // learning rate after the warm-up, at the end
//	Warmup, DecaySteps                      int               // steps
//	Betas                                   [2]float64        // of AdamW
//	Eps                                     float64           // of AdamW
//	Momentum                                float64           // of SGD
//	Nesterov                                bool              // of SGD
//	WeightDecay                             float64           // on matrices
//	NoDecay                                 []string          // roles without weight decay
//	Clip                                    float64           // largest norm of gradients
//	Dropout, LabelSmoothing                 float64           // shares
//	Recompute                               bool              // layers again in the backward pass, for memory
//	SkipAbove, StopAbove                    float64           // outliers, in parts of the average norm
//	Validation                              TrainValidation   // evaluations
//	Sample                                  TrainSampling     // texts while training
//	Seed                                    uint64            // of order and random weights
//	CheckpointEvery, Keep                   int               // steps; newest checkpoints that stay
//	Objective                               TrainObjective    // what the model is trained for
//	LoRA                                    TrainLoRA         // small matrices beside frozen weights
//
// Its method Validate says what is wrong with the first field that is; Train
// does so too.
type TrainConfig = train.Config

// TrainValidation says how the model is judged on data that it does not learn
// from. Its fields are
//
//	Data              []string // of its own
//	Share             float64  // or the last share of the training data
//	STS               []string // pairs of texts with scores, for correlations
//	Retrieval         []string // anchors with positives, for MRR and NDCG@10
//	Every             int      // steps between evaluations
//	Tokens            int      // most tokens of an evaluation
//	Best              string   // figure of the best: loss, ppl, bpb, spearman, pearson, mrr, ndcg10
//	KeepBest          bool     // the best checkpoint stays
//	Patience          int      // evaluations without a better figure that end the run
type TrainValidation = train.ValidationConfig

// TrainSampling says which texts the model writes while it trains. Its fields
// are
//
//	Every, Tokens     int      // steps between texts; their length
//	Prompt            string   // that texts begin with
//	Temp              float64  // temperature
type TrainSampling = train.SampleConfig

// ModelShape describes a model that has no files yet; [DefaultModelShape] has
// the defaults. Its fields are
//
//	Architecture                          string  // "llama", "gpt2" or "bert"
//	DModel, NLayers, NHeads, NKVHeads     int     // width, blocks, heads
//	DFF, Vocab, Context                   int     // 0 means a default; most tokens of a sequence
//	Tied                                  bool    // the head is the token table
//	RopeTheta                             float64 // of llama
//	Tokenizer                             string  // "char", "bpe", "wordpiece", or a path
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
// Type and its fields, which are
//
//	Type                                  string    // "lm" where it is empty
//	Batch                                 int       // most examples of a step
//	Freeze                                []string  // roles of weights that stay
//	MaskRate                              float64   // mlm
//	Scale                                 float64   // contrastive
//	Symmetric                             bool      // contrastive
//	Dims                                  []int     // contrastive: Matryoshka
//	DimWeights                            []float64 // contrastive: of each of Dims
//	Labels                                int       // classify
//	Beta                                  float64   // dpo
//	Reference                             string    // dpo
//	Teacher                               string    // distill, distill_embedding
//	Vectors                               string    // distill_embedding: .npy in place of a teacher
//	Temperature, Hard                     float64   // distill
//	Cosine                                bool      // distill_embedding
type TrainObjective = train.ObjectiveConfig

// TrainLoRA is what LoRA adds. Its fields are
//
//	Rank              int      // 0 means no LoRA
//	Alpha             float64  // what the matrices add counts Alpha/Rank times
//	Roles             []string // projections that get them
type TrainLoRA = train.LoRAConfig

// TrainStep is what one optimizer step did. Its String is a progress line. Its
// fields are
//
//	Step, Steps, Epoch      int             // from 1; of the whole run; complete passes over the data
//	Loss, GradNorm          float32         // before the update, before clipping
//	LR                      float64         // learning rate
//	Tokens, Sequences       int             // that the model read
//	Skipped                 bool            // an outlier, which changed no weight
//	Eval                    TrainEvaluation // after the step, where it was due
//	Elapsed, Left           time.Duration   // of this step; that the rest will take
//	MFU                     float64         // share of TrainOptions.Peak
type TrainStep = train.Step

// TrainEvaluation is what the model makes of the validation data. Its method
// Perplexity is e to the loss. Its fields are
//
//	Done                    bool    // the other fields count
//	Loss                    float64 // without dropout and label smoothing
//	TokenLoss               bool    // the loss is of tokens, so that it has a perplexity
//	BitsPerByte             float64 // 0 where it means nothing
//	Best                    bool    // no evaluation before had a lower loss
//	STS                     bool    // Pearson and Spearman count
//	Pearson, Spearman       float64 // of cosines and people's scores
//	Retrieval               bool    // MRR and NDCG10 count
//	MRR, NDCG10             float64 // of anchors that look for their positives
type TrainEvaluation = train.Evaluation

// TrainResult is what a run did. Its fields are
//
//	Steps             int           // that the model has behind it
//	Loss              float32       // of the last step
//	Tokens            int64         // of this run
//	Elapsed           time.Duration // of this run
//	Checkpoint        string        // folder of the last one
//	Best              int           // step whose checkpoint is the best
//	BestLoss          float64       // its validation loss
//	BestFigure        string        // what decides which is the best
//	BestValue         float64       // of that figure
//	Early             bool          // the run ended before its last step
type TrainResult = train.Result

// TrainPlan is what a run will take. Its String is a table. Its fields are
//
//	Model, Arch                   string           // names
//	Parameters                    int64            // that are trained
//	Documents, Pieces             int              // of the data
//	Tokens                        int64            // of the data, to predict
//	Batch                         struct           // most tokens T and sequences S of a run
//	Runs                          int              // of a step with a full batch
//	Epochs                        float64          // of the whole run
//	Memory                        map[string]int64 // bytes by owner
//	FLOPs                         int64            // of a step
//	StepTime, Time                time.Duration    // as Measured steps took; of the run at this rate
//	Measured                      int              // steps that were made
//	Unmeasured                    string           // why there were none
//	Steps                         int              // of the run
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
	// OnDevice is called once, before data are read, with what the run computes on.
	OnDevice func(TrainDevice)
	// Profile records every step; nil records nothing and costs nothing.
	Profile *profile.Recorder
}

// TrainDevice is what a training run computes on.
type TrainDevice struct {
	Name      string // cpu, cuda:0
	Tier      string // instructions of the CPU that are in use; empty for other devices
	Workers   int    // threads that share a step
	Precision string // f32 or bf16
}

// String is one line.
func (d TrainDevice) String() string {
	name := d.Name
	if d.Tier != "" {
		name += " (" + d.Tier + ")"
	}
	workers := "1 worker"
	if d.Workers != 1 {
		workers = fmt.Sprintf("%d workers", d.Workers)
	}
	return fmt.Sprintf("%s, %s, %s", name, workers, d.Precision)
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
	if err := needContext(ctx); err != nil {
		return nil, err
	}
	be, err := o.backend()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, be.Close()) }()
	facts := machine.Facts(be, o.precision())
	if o.Profile != nil {
		o.Profile.SetFacts(facts)
	}
	o.tellDevice(facts)
	return train.Run(ctx, cfg, train.Options{
		Backend: be, Resume: o.Resume, OnStep: o.OnStep, OnSample: o.OnSample, OnData: o.OnData, Peak: o.Peak, Recorder: o.Profile, Memory: o.memory(),
	})
}

// PeakFLOPs measures what so many threads can do in the precision of training,
// in FLOP/s: about a tenth of a second with the whole machine. It is 0 on
// devices other than the CPU.
func PeakFLOPs(ctx context.Context, o TrainOptions) (_ float64, err error) {
	defer engine.Guard(&err)
	if err := needContext(ctx); err != nil {
		return 0, err
	}
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

// PlanTraining reads model and data and says what Train would take. It makes a
// few steps in memory, unless there is too little of it, and writes nothing but
// the cache of large data's tokens.
func PlanTraining(ctx context.Context, cfg TrainConfig, o TrainOptions) (p *TrainPlan, err error) {
	defer engine.Guard(&err)
	if err := needContext(ctx); err != nil {
		return nil, err
	}
	be, err := o.backend()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, be.Close()) }()
	o.tellDevice(machine.Facts(be, o.precision()))
	return train.Plan(ctx, cfg, train.Options{Backend: be, OnData: o.OnData, Memory: o.memory()})
}

func (o TrainOptions) tellDevice(f profile.Facts) {
	if o.OnDevice == nil {
		return
	}
	d := TrainDevice{Name: f.Device, Workers: f.Threads, Precision: f.Precision}
	if d.Name == machine.CPU {
		d.Tier = f.Tier
	}
	o.OnDevice(d)
}

// memory is what a run may take, 0 where nobody knows.
func (o TrainOptions) memory() int64 {
	if o.Device == "" || o.Device == machine.CPU {
		return machine.FreeMemory()
	}
	return 0
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
