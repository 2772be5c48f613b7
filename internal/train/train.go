// Package train teaches a model by an objective: data, batches, the loop around
// the model's training graph, and checkpoints that a run goes on from bit for
// bit.
//
// It imports model, plan and graph/grad; the public package hotpath imports
// it. Loss, gradients, clipping and AdamW are nodes of one graph, so a step is
// one run of a plan.Session. Errors are values that errors.Is matches
// (ErrConfig, ErrData, ErrCheckpoint, ErrDiverged, a context's error) and name
// the file and field, or the step.
package train

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/weights"
	"hotpath/profile"
)

// ErrDiverged reports a loss, gradient or weight that is no finite number any
// more. Nothing was saved after it.
var ErrDiverged = errors.New("training diverged")

// Options are what a run needs besides its configuration.
type Options struct {
	Backend  plan.Backend // the caller's to close, after the run
	Workers  int          // of the backend; 0 means all
	Recorder *profile.Recorder
	// Resume is the folder of a checkpoint, or "auto": the newest of the
	// configuration's out, or a fresh run where it has none. An out that has a
	// checkpoint is refused without it.
	Resume string
	// Source is what to learn from; nil: the files of the field data.
	Source Source
	// OnStep is called after each step; an error ends the run with it, after
	// a checkpoint.
	OnStep func(Step) error
	// OnSample is called with each text that the model writes while it trains.
	OnSample func(step int, text string) error
	// Memory is how many bytes the run may take; 0: unknown.
	Memory int64
	// Peak is what the machine can do in FLOP/s, for Step.MFU; 0: unknown.
	Peak float64
	// OnData is called while data are read, with the bytes of files that are done
	// and all.
	OnData func(done, total int64)
}

// Result is what a run did.
type Result struct {
	Steps      int     // that the model has behind it, those before a resume included
	Loss       float32 // of the last step
	Tokens     int64   // predicted in this run
	Elapsed    time.Duration
	Checkpoint string // folder of the last one; "" where none was written
	// Best is the step whose checkpoint is the best by the field validation.best,
	// 0 where there was no evaluation; BestLoss is its validation loss, BestValue
	// that figure and BestFigure what it is called.
	Best                int
	BestLoss, BestValue float64
	BestFigure          string
	// Early says that the figure did not get better any more, so that the run
	// ended before its last step.
	Early bool
}

// Trainer is a run that is made step by step. It is for one goroutine.
type Trainer struct {
	cfg     Config
	opts    Options
	store   *weights.Store
	runner  *runner
	obj     objective
	data    *batches
	held    Source       // examples that are left out of training; nil: none
	valid   *validation  // nil: none
	vectors *vectorTests // of evaluations; nil: none
	best    best
	bestBy  string // the field validation.best of best; "": no evaluations
	out     *out
	logs    *logs
	last    Step      // kept here because what logs take would be allocated otherwise
	norms   norms     // of gradients so far
	losses  []float32 // of the runs of the last step
	flops   float64   // of a token
	began   time.Time // of the first step of this run
	first   int       // steps before it
	step    int       // that are done
	saved   int       // step of the last checkpoint
	due     bool      // last is made, but its evaluation was left out

	sources []func() error // what frees the data
	waits   bool           // reading examples may wait for the disk
	tokens  int64          // bytes of the data's tokens in memory

	hash    string            // of the data
	digests map[string]string // progress.Files
}

// New opens model and data, resumes where asked, and prepares the first step.
func New(ctx context.Context, cfg Config, o Options) (*Trainer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := outside(cfg.Out, cfg.Data, cfg.Validation.Data); err != nil {
		return nil, err
	}
	t := &Trainer{cfg: cfg, opts: o}
	var err error
	if t.out, err = lockOut(cfg.Out); err != nil {
		return nil, err
	}
	if err := t.open(ctx); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (t *Trainer) open(ctx context.Context) (err error) {
	ctx, end := profile.Scope(scoped(ctx, t.opts.Recorder), "prepare")
	defer end()
	var st *state
	from, err := resumeFrom(&t.cfg, t.opts.Resume)
	if err != nil {
		return err
	}
	path := t.cfg.Model
	if from != "" {
		if st, err = readState(from); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, st.close()) }()
		if err := noneAfter(t.cfg.Out, st.Step); err != nil {
			return err
		}
		if t.cfg.LoRA.Rank == 0 { // the adapters' base is the model itself, not what they were merged into
			path = from
		}
	}
	within, read := profile.Scope(ctx, "read data")
	m, err := t.openData(within, path)
	if read(); err != nil {
		return err
	}
	if st != nil {
		if err := st.fits(t.progress(), t.data.n); err != nil {
			return err
		}
		if err := t.sameModel(m, from); err != nil {
			return err
		}
	}
	if err := t.digest(ctx, st, from); err != nil {
		return err
	}
	program, memory, err := t.compile(ctx, m)
	if err != nil {
		return err
	}
	if err := t.opts.fits(memory.total()); err != nil {
		return err
	}
	if t.runner, err = program.open(ctx, t.opts); err != nil {
		return err
	}
	t.flops = t.runner.flops(t.cfg.SeqLen)
	_, first := profile.Scope(ctx, "first weights")
	if st == nil {
		err = t.start(m)
	} else {
		err = t.runner.restore(st)
		t.step, t.saved, t.data.at, t.norms, t.best = st.Step, st.Step, st.At, st.Norms, st.Best
		t.bestBy = cmp.Or(t.bestBy, st.BestBy)
		if t.due = st.Due != nil; t.due {
			t.last, t.last.Steps = *st.Due, t.cfg.Steps
		}
	}
	if first(); err != nil {
		return err
	}
	debug.FreeOSMemory() // what loading took is not wanted beside the memory of steps
	if err := t.out.sweep(); err != nil {
		return err
	}
	logged := t.step
	if t.due {
		logged-- // the evaluation goes into the line of its step
	}
	t.logs, err = openLogs(t.cfg.Out, logged)
	return err
}

// start gives the weights of a fresh run their values.
func (t *Trainer) start(m *model.Model) error {
	if t.cfg.Init == "random" {
		return t.runner.randomize(t.cfg.Seed, m.Config().Layers)
	}
	return t.runner.freshen(t.cfg.Seed, m.Config().Layers)
}

// compile plans the run and its evaluations, and says what memory they take.
func (t *Trainer) compile(ctx context.Context, m *model.Model) (*compiled, demand, error) {
	if err := t.checkSample(m); err != nil {
		return nil, nil, err
	}
	if err := canSave(m); err != nil {
		return nil, nil, err
	}
	if err := t.openValidation(ctx, m); err != nil {
		return nil, nil, err
	}
	program, err := compile(m, t.opts.Backend, t.task(), t.data.run)
	if err != nil {
		return nil, nil, err
	}
	memory, err := t.demand(program)
	return program, memory, err
}

// openData opens the model, at a path or as the configuration describes it, and
// cuts the data for it.
func (t *Trainer) openData(ctx context.Context, path string) (*model.Model, error) {
	var err error
	if path == "" {
		t.store, err = t.cfg.Shape.open(ctx, t.cfg.Data, t.opts)
	} else {
		t.store, err = weights.Open(path)
	}
	var m *model.Model
	if err == nil {
		m, err = model.Open(t.store)
	}
	if err == nil && t.opts.Source == nil { // files() wants it: what is wrong with it is not the data's fault
		_, err = m.Tokenizer()
	}
	switch {
	case err == nil:
	case path == "":
		return nil, err
	case path == t.cfg.Model:
		return nil, fmt.Errorf("field model: %w", err)
	default:
		return nil, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	c := m.Config()
	if t.cfg.SeqLen == 0 {
		t.cfg.SeqLen = min(c.MaxSeq, cmp.Or(t.cfg.MicroTokens, t.cfg.BatchTokens))
	}
	if t.cfg.SeqLen > c.MaxSeq {
		return nil, fmt.Errorf("field seq_len: expected at most %d, the positions of the model, found %d: %w", c.MaxSeq, t.cfg.SeqLen, ErrConfig)
	}
	source, err := t.source(ctx, m, t.cfg.Data)
	if err != nil {
		return nil, fmt.Errorf("field data: %w", err)
	}
	all := source.Stats() // runs have room for validation data too
	if paths := t.cfg.Validation.Data; len(paths) > 0 {
		if t.held, err = t.source(ctx, m, paths); err != nil {
			return nil, fmt.Errorf("field validation.data: %w", err)
		}
		all = all.with(t.held.Stats())
	} else if source, t.held, err = split(source, t.cfg.Validation.Share); err != nil {
		return nil, err
	}
	if t.held != nil {
		t.bestBy = t.cfg.Validation.best()
	}
	stats := source.Stats()
	if stats.Examples == 0 {
		return nil, fmt.Errorf("field data: %s: no text to learn from: %w", strings.Join(t.cfg.Data, ", "), ErrData)
	}
	if n := stats.Examples; n > math.MaxInt32 {
		return nil, fmt.Errorf("field data: %s: %d pieces of text to learn from, expected 1 to %d: %w", strings.Join(t.cfg.Data, ", "), n, math.MaxInt32, ErrData)
	}
	t.hash = source.Fingerprint()
	if t.obj, err = newObjective(setting{cfg: &t.cfg, model: m, opts: t.opts, stats: stats, all: all}); err != nil {
		return nil, err
	}
	if !slices.Contains(t.obj.kinds(), source.Kind()) {
		return nil, fmt.Errorf("field data: %s: examples of kind %s, expected one of %v for objective %s: %w", strings.Join(t.cfg.Data, ", "), source.Kind(), t.obj.kinds(), t.cfg.Objective.name(), ErrData)
	}
	run := cmp.Or(t.cfg.MicroTokens, t.cfg.BatchTokens)
	if t.cfg.SeqLen > run {
		return nil, fmt.Errorf("field micro_tokens: expected at least seq_len (%d), found %d: %w", t.cfg.SeqLen, run, ErrConfig)
	}
	if n := all.Longest - all.Most; n > run { // the last token of a text may be a target only
		return nil, fmt.Errorf("field %s: expected at least %d, the tokens of the longest example, found %d: %w", runField(&t.cfg), n, run, ErrConfig)
	}
	t.data = newBatches(source, t.obj, t.obj.most(run, all), t.cfg.BatchTokens, t.cfg.Seed)
	if n := t.cfg.Objective.Batch; n > 0 {
		t.data.examples = min(n, t.data.n)
	}
	t.data.split = run < t.cfg.BatchTokens
	if t.waits {
		t.data.ahead = newPrefetcher(source, t.cfg.Seed)
	}
	return m, nil
}

// runField is the field that limits the tokens of a run.
func runField(c *Config) string {
	if c.MicroTokens > 0 {
		return "micro_tokens"
	}
	return "batch_tokens"
}

// Objectives that ask something particular of data: those that predict the next
// token, so that a sequence may have one token more than it reads, and those
// that take texts without looking at labels and scores beside them.
var (
	predicting = []string{"lm", "sft", "dpo", "distill"}
	reading    = []string{"lm", "mlm", "distill"}
)

// source reads data for a model. It is closed with the trainer.
func (t *Trainer) source(ctx context.Context, m *model.Model, paths []string) (Source, error) {
	if t.opts.Source != nil {
		return t.opts.Source, nil
	}
	objective := t.cfg.Objective.name()
	return t.files(ctx, m, paths, slices.Contains(predicting, objective), slices.Contains(reading, objective))
}

// files reads the data of files. next: the last token of a sequence is a target
// only. plain: texts are documents, whatever stands beside them.
func (t *Trainer) files(ctx context.Context, m *model.Model, paths []string, next, plain bool) (Source, error) {
	tok, err := m.Tokenizer()
	if err != nil {
		return nil, err
	}
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	s, free, err := openSource(ctx, sourceSpec{
		paths: paths, tok: tok, tokPrint: func() (string, error) { return tokenizerPrint(m) },
		vocab: m.Config().Vocab, seqLen: t.cfg.SeqLen, next: next, plain: plain, labels: labelsOf(&t.cfg, m), truncate: t.cfg.Truncate, pairs: m.Pairs,
		cache: cache, memory: memoryData, progress: t.opts.OnData,
	})
	if err != nil {
		return nil, err
	}
	t.sources = append(t.sources, free)
	if f, ok := s.(interface{ bytes() int64 }); ok {
		t.tokens += f.bytes()
	}
	if w, ok := s.(interface{ waits() bool }); ok && w.waits() {
		t.waits = true
	}
	return s, nil
}

func (t *Trainer) task() task {
	return task{
		obj: t.obj, optimizer: t.cfg.optimizer(), accumulate: t.data.split, validate: t.held != nil,
		recompute: t.cfg.Recompute,
		dropout:   t.cfg.Dropout > 0, smoothing: t.cfg.LabelSmoothing > 0, lora: t.cfg.LoRA.options(), trainable: t.cfg.Objective.trainable(),
	}
}

// Pause stops recording, or goes on with it, without forgetting the recorder.
func (t *Trainer) Pause(on bool) { t.runner.sess.Pause(on) }

// ProbeRest takes the samples of ceilings that the recording lacks, for a snapshot
// before Close. No step may be in progress.
func (t *Trainer) ProbeRest() { t.runner.sess.ProbeRest() }

// Done is the number of steps behind the model.
func (t *Trainer) Done() int { return t.step }

func (t *Trainer) progress() progress {
	p := progress{
		Format: stateFormat, Step: t.step, At: t.data.at, Seed: t.cfg.Seed, SeqLen: t.cfg.SeqLen, Data: t.hash, Optimizer: t.cfg.Optimizer, Norms: t.norms, Best: t.best, BestBy: t.bestBy,
		Model: fromFiles, Objective: t.cfg.Objective.name(), LoRA: inJSON(t.cfg.LoRA), Files: t.digests,
	}
	if t.cfg.Shape != nil {
		p.Model = inJSON(t.cfg.Shape)
	}
	if t.due {
		p.Due = &t.last
	}
	return p
}

// inJSON is a part of the configuration, whose fields all have a JSON form.
func inJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Save writes a checkpoint, unless a weight is not finite, removes those beyond the number to keep, and
// returns the folder.
func (t *Trainer) Save(ctx context.Context) (string, error) {
	_, end := profile.Scope(ctx, "checkpoint")
	defer end()
	if err := t.runner.finite(); err != nil {
		return "", fmt.Errorf("after step %d: %w: %w%s", t.step, err, ErrDiverged, t.remains())
	}
	dir := checkpointDir(t.cfg.Out, t.step)
	if _, err := os.Stat(dir); t.saved != t.step || err != nil { // it may be there without its evaluation
		if dir, err = t.runner.save(t.cfg.Out, t.progress(), &t.cfg); err != nil {
			return "", err
		}
		t.saved = t.step
	}
	kept := 0
	if t.cfg.Validation.KeepBest {
		kept = t.best.Step
		if err := t.best.write(t.cfg.Out, t.deciding()); err != nil {
			return dir, err
		}
	}
	return dir, prune(t.cfg.Out, t.cfg.Keep, kept)
}

// Close frees everything. It saves nothing.
func (t *Trainer) Close() error {
	var errs []error
	if t.logs != nil {
		errs = append(errs, t.logs.close())
	}
	if t.runner != nil {
		errs = append(errs, t.runner.close())
	}
	if t.obj != nil {
		errs = append(errs, t.obj.close())
	}
	if t.data != nil {
		t.data.ahead.close()
	}
	for _, free := range t.sources {
		errs = append(errs, free())
	}
	if t.store != nil {
		errs = append(errs, t.store.Close())
	}
	if t.out != nil {
		errs = append(errs, t.out.close())
	}
	return errors.Join(errs...)
}
