// Package hotpath embeds, generates and scores text with transformers, and
// trains them, in pure Go. A model is a GGUF file or a Hugging Face directory.
//
//	m, err := hotpath.Open("model.gguf", hotpath.Options{})
//	if err != nil { ... }
//	defer m.Close()
//	for tok, err := range m.Generate(ctx, "Why is the sky blue?", hotpath.GenerateOptions{}) {
//		...
//		fmt.Print(tok.Text)
//	}
//
// A Model embeds ([Model.Embed], [Model.EmbedInto], and [Model.EmbedStream] for
// any number of texts), ranks documents ([Model.Rerank]), generates
// ([Model.Generate]), scores ([Model.Score]) and tokenizes; [Model.Info] tells
// which of these it can do and how. It may be used by many goroutines at once:
// calls of Embed at the same time share runs, and so do those of Rerank and of
// Score, and generations. [Model.Stats] tells what waits and what runs. A context
// that ends cuts its own call short, between parts of a step of the model, and no
// other.
// Zero values of all options are useful.
//
// The files of an open model are mapped into memory. To replace such a file, write
// a new one and rename it over the old one: an open model keeps the old file.
// Never write into a mapped file and never truncate it: the model would compute
// with the new bytes, or the system would end the process with SIGBUS.
//
// [Train] trains a decoder on text: [ReadTrainConfig] reads what `hotpath train`
// reads, and a checkpoint is a model that Open takes. What a model or a training
// run does with its time is recorded where Options.Profile or
// TrainOptions.Profile is set; see [hotpath/profile] and [MeasureCeilings].
//
// # Errors
//
// Errors are matched with errors.Is: [ErrNotModel], [ErrInvalid],
// [ErrTruncated] and [ErrUnsupported] of files, [ErrInput] and [ErrTooLong] of
// arguments, [ErrDevice] of cards, [ErrClosed] and [ErrBusy] of closing, and those
// of the context.
// Errors of the file system are wrapped: fs.ErrNotExist and fs.ErrPermission match
// too. The nil context is an [ErrInput]. A [*TooLongError] says which text is too
// long, and by how much. No panic crosses this API: a defect of hotpath is an
// [ErrInternal], and the model serves the next call.
package hotpath

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"hotpath/internal/calib"
	"hotpath/internal/engine"
	"hotpath/internal/graph"
	"hotpath/internal/machine"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
	"hotpath/profile"
)

var (
	// ErrNotModel reports a path that holds no model.
	ErrNotModel = weights.ErrNotModel
	// ErrInvalid reports a file that contradicts its format.
	ErrInvalid = weights.ErrInvalid
	// ErrTruncated reports a file that ends before what it announces.
	ErrTruncated = weights.ErrTruncated
	// ErrUnsupported reports a sound file, or work asked of a model, that
	// hotpath or the model cannot do.
	ErrUnsupported = weights.ErrUnsupported
	// ErrClosed reports a call after Close, or one that Close cut short, or one of a
	// Model or Tokenizer that nothing opened.
	ErrClosed = engine.ErrClosed
	// ErrTooLong reports a text with more tokens than the model takes.
	ErrTooLong = engine.ErrTooLong
	// ErrInput reports an argument or option that makes no sense.
	ErrInput = engine.ErrInput
	// ErrDevice reports a card, or its driver, that cannot be used or that failed.
	// After a failure the next call may work.
	ErrDevice = plan.ErrDevice
	// ErrBusy reports runs that did not end within CloseTimeout.
	ErrBusy = engine.ErrBusy
	// ErrInternal reports a defect of hotpath, a *PanicError.
	ErrInternal = engine.ErrInternal
)

// PanicError is an [ErrInternal]: a panic that was caught. Its Stack is for a
// report of the defect.
type PanicError = engine.PanicError

// CloseTimeout is how long Close waits for the runs in flight.
const CloseTimeout = engine.CloseTimeout

// Options say how a model runs. The zero value is a good choice.
type Options struct {
	Threads   int    // of the CPU; 0 means all cores
	Precision string // "f32", "bf16" or "auto"; "" is auto
	// Device is where the model runs: "cpu", or a card by its kind and number, such as
	// "cuda", "cuda:1" or "opencl" (see [Devices]; packages hotpath/cuda and
	// hotpath/opencl add them). "" is cpu. "auto" takes the first card if it can hold the
	// model and measured figures say that it is faster than the CPU for the model and for
	// Expect, else the CPU; [Model.DeviceChoice] and [Model.DeviceNote] tell. The first
	// time, auto measures the card, which takes about a second. A card that is named and
	// cannot be used is an [ErrDevice]. "ref" (slow, plain) and "null" (late, out of
	// step) are what tests hold others against.
	Device string
	// Expect is what the model is opened for, if that is known. Only Device "auto"
	// needs it: opening a card takes longer than a CPU needs for a few texts.
	Expect      Workload
	Parallel    string // how Embed uses threads: "fine", "coarse" or "auto"; "" is auto
	Ctx         int    // tokens of one generation, prompt included; 0 means what the model has, at most 4096
	KVType      string // encoding of the KV cache: "f32", "f16", "q8_0"; "" is f32 where Precision is, and f16 elsewhere
	BatchTokens int    // tokens of one run; 0 means 512 on a CPU, and thousands on a card
	// Invariant makes answers independent of everything that runs at the same
	// time, of BatchTokens and of Threads. Without it, Score and Perplexity are
	// so all the same. A generation that is alone on its model gives the same
	// tokens from the same logits each time, whatever the KV cache holds; beside
	// others its logits may differ in their last bits, because kernels are chosen
	// by the number of tokens in a run. So may vectors and scores of pairs of
	// texts. If the weights are quantized, vectors of short texts differ by more:
	// few rows are multiplied with other kernels. An element of a vector of unit
	// length differs by up to about 7e-4 with weights in 4 bits (the cosine stays
	// above 0.999998), and by up to about 5e-5 with Q8_0, in a small BERT of random
	// weights. Invariant always takes the kernels for many tokens; decoding is
	// slower with them.
	Invariant bool
	// InPlace reads quantized weights where the file is mapped. Without it they
	// are packed in the order in which kernels read them, which is faster and
	// takes as much memory; the file's pages are given back. A model that is
	// larger than half of the free memory is always read in place.
	InPlace bool
	// Prepare makes Open compile what generates and pack its weights, beside reading
	// the tokenizer. Without it the first Generate does so, after Open. The first
	// token is there sooner.
	Prepare bool
	// NoCalibration lets Parallel "auto" and Precision "auto" decide without
	// what [Calibrate] measured of this machine and [CalibratePrecision] of this
	// model.
	NoCalibration bool
	// Profile records every run, and scopes around tokenizing, batching and
	// sampling; nil records nothing and costs nothing. Open tells it of model and
	// machine, and MeasureCeilings what to hold steps against.
	Profile *profile.Recorder
}

// Workload is about how much a program is going to ask of a model. The zero value is
// unknown: the program goes on for long.
type Workload struct {
	Texts    int // to embed, rank or score, or prompts
	Tokens   int // of all texts
	Generate int // tokens to generate one after another: of the longest answer, if prompts are answered together
}

// MaxBatchTokens bounds Options.BatchTokens.
const MaxBatchTokens = 1 << 20

// Model is an open model. Calls of the zero Model are ErrClosed.
type Model struct {
	Tokenizer
	store   *weights.Store
	model   *model.Model
	cfg     *model.Config
	frame   frame // special tokens around a text
	prompts prompts
	backend plan.Backend
	eng     *engine.Engine
	load    time.Duration
	kvType  tensor.DType      // of the KV cache
	rec     *profile.Recorder // nil records nothing
	// precision is what the CPU was asked for; "" on other devices.
	precision string
	auto      bool          // Options.Device is "auto"
	choice    engine.Choice // of auto

	templateOnce sync.Once
	template     *chatTemplate
	templateErr  error

	mu   sync.Mutex
	free []*textBatch // buffers of Embed calls, to reuse

	closeOnce sync.Once
	closeErr  error
}

// Open opens a .gguf file or a Hugging Face directory.
func Open(path string, o Options) (*Model, error) {
	return OpenContext(context.Background(), path, o)
}

// OpenContext is Open that ends with ctx. Weights are mapped here and brought
// into the form that they are computed with by the first call that wants them,
// which ends with its own context.
func OpenContext(ctx context.Context, path string, o Options) (m *Model, err error) {
	defer engine.Guard(&err)
	if err := needContext(ctx); err != nil {
		return nil, err
	}
	switch o.Precision {
	case "", "auto", "f32", "bf16":
	default:
		return nil, fmt.Errorf("%w: precision %q, expected f32, bf16 or auto", ErrInput, o.Precision)
	}
	return openModel(ctx, path, o)
}

// openModel opens a model whose precision may also be a class that only
// calibration chooses.
func openModel(ctx context.Context, path string, o Options) (m *Model, err error) {
	start := time.Now()
	mode, err := engine.ParseMode(o.Parallel)
	if err != nil {
		return nil, err
	}
	if err := machine.CheckThreads(o.Threads); err != nil {
		return nil, err
	}
	if e := &o.Expect; e.Texts < 0 || e.Tokens < 0 || e.Generate < 0 {
		return nil, fmt.Errorf("%w: a workload of %d texts, %d tokens and %d generated ones, expected 0 or more of each", ErrInput, e.Texts, e.Tokens, e.Generate)
	} else if e.Tokens > 0 {
		e.Texts = max(e.Texts, 1)
	}
	if o.BatchTokens < 0 || o.BatchTokens > MaxBatchTokens {
		return nil, fmt.Errorf("%w: batches of %d tokens, expected 0 to %d", ErrInput, o.BatchTokens, MaxBatchTokens)
	}
	m = &Model{rec: o.Profile}
	// What was opened before an error is closed in reverse order.
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
			m = nil
		}
	}()
	ctx, end := profile.Scope(m.recorded(ctx), "open model")
	defer end()
	step := func(scope string, do func() error) (err error) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		_, end := profile.Scope(ctx, scope)
		defer end()
		defer engine.Guard(&err)
		return do()
	}
	if err = step("map file", func() (err error) { m.store, err = weights.Open(path); return err }); err != nil {
		return m, err
	}
	if err = step("read model", func() (err error) { m.model, err = model.Open(m.store); return err }); err != nil {
		return m, err
	}
	readTokenizer := func() error {
		return step("read tokenizer", func() (err error) { m.Tokenizer.tok, err = m.model.Tokenizer(); return err })
	}
	tokenizer := make(chan error, 1) // its error, once
	if !o.Prepare {
		if err = readTokenizer(); err != nil {
			return m, err
		}
		tokenizer <- nil
	} else { // what computes needs nothing of it
		go func() { tokenizer <- readTokenizer() }()
	}
	defer func() {
		if failed := <-tokenizer; failed != nil {
			err = failed
		}
		if m.load = time.Since(start); err == nil {
			m.frame = findFrame(m.tok)
		}
	}()
	m.cfg = m.model.Config()
	m.prompts = findPrompts(m.cfg)
	auto := o.Precision == "" || o.Precision == "auto"
	if auto && m.cfg.Delicate {
		o.Precision, auto = "f32", false
	}
	if m.kvType, err = parseKVType(o, m.cfg); err != nil {
		return m, err
	}
	device := o.Device
	if m.auto = device == "auto"; m.auto {
		err = step("choose device", func() error { m.choice = m.chooseDevice(ctx, o); return nil })
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return m, err
		}
		device = m.choice.Device
	}
	if device == "" {
		device = machine.CPU
	}
	if auto && !o.NoCalibration && device == machine.CPU {
		o.Precision = m.calibrated()
	}
	if device == machine.CPU {
		m.precision = cmp.Or(o.Precision, machine.Auto)
	}
	open := engine.BackendOptions{Threads: o.Threads, Precision: o.Precision, InPlace: o.InPlace || machine.InPlace(m.store.Bytes())}
	if m.backend, err = engine.NewBackend(device, open); err != nil && o.Device == "auto" && device != machine.CPU {
		m.choice.Device, m.choice.Why, m.precision, device = "", err, cmp.Or(o.Precision, machine.Auto), machine.CPU
		m.backend, err = engine.NewBackend(machine.CPU, open)
	}
	if err != nil {
		return m, err
	}
	m.eng, err = engine.Open(m.model, m.backend, engine.Options{
		MaxBatchTokens: o.BatchTokens, Ctx: o.Ctx, KVType: m.kvType, Parallel: mode, Invariant: o.Invariant, Recorder: o.Profile,
		Costs: costs(o, m.backend),
	})
	if err == nil && o.Prepare {
		err = m.eng.Prepare(ctx)
	}
	if err == nil && m.rec != nil {
		f := machine.Facts(m.backend, o.Precision)
		f.Model, f.Params = m.cfg.Name, m.cfg.ParamCount
		m.rec.SetFacts(f)
		if c, ok := engine.CardCeilings(device); ok {
			err = m.rec.DefaultCeilings(m.backend.Caps().Name, c)
		}
	}
	return m, err
}

// costs are the figures that auto decides by, nil for those that are built in.
func costs(o Options, be plan.Backend) *calib.Costs {
	if o.NoCalibration || be.Caps().Coarse == nil {
		return nil
	}
	c := calib.Cached(be.Caps().Workers)
	return &c
}

// parseKVType finds the encoding of the KV cache. Heads that are no whole number
// of blocks cannot have every one.
func parseKVType(o Options, c *model.Config) (tensor.DType, error) {
	if o.KVType == "" {
		return engine.DefaultKVType(o.Precision), nil
	}
	for _, d := range graph.KVTypes {
		if !strings.EqualFold(d.String(), o.KVType) {
			continue
		}
		if n := d.Info().BlockLen; c.CanGenerate && c.HeadDim%n != 0 {
			return d, fmt.Errorf("%w: KV type %s needs heads of a multiple of %d values, but the model's heads have %d", ErrInput, o.KVType, n, c.HeadDim)
		}
		return d, nil
	}
	return tensor.F32, fmt.Errorf("%w: KV type %q, expected f32, f16 or q8_0", ErrInput, o.KVType)
}

// Close waits for the runs in flight and frees everything. Calls that need
// another run, and later ones, end with ErrClosed. It waits for CloseTimeout at
// most: if a run goes on for longer, Close frees nothing, because the run reads
// that memory, and returns an ErrBusy that says what runs. It may be called
// again, which waits again, and by many goroutines. To end runs sooner, end their
// contexts.
func (m *Model) Close() (err error) {
	defer engine.Guard(&err)
	if m.eng != nil {
		if err = m.eng.Close(); errors.Is(err, ErrBusy) {
			return err
		}
	}
	m.closeOnce.Do(func() {
		errs := []error{err}
		if m.backend != nil {
			errs = append(errs, m.backend.Close())
		}
		if m.store != nil {
			errs = append(errs, m.store.Close())
		}
		m.closeErr = errors.Join(errs...)
	})
	return m.closeErr
}

// recorded puts the model's recorder under a context that has none.
func (m *Model) recorded(ctx context.Context) context.Context {
	if m.rec == nil || profile.RecorderFrom(ctx) != nil {
		return ctx
	}
	return profile.WithRecorder(ctx, m.rec)
}
