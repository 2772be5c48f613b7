// Package engine runs a model's graphs for many concurrent callers. Calls that
// embed, rank or score are merged into ragged batches (queue.go). Generations are
// batched continuously (steploop.go).
//
// It imports model, plan, batch, calib, kv, sample and profile; the public
// package hotpath imports it. Programs are compiled on first use. Errors are
// values that errors.Is matches (ErrClosed, ErrTooLong, ErrInput, ErrUnsupported,
// ErrBusy). A panic in the engine or below becomes an ErrInternal of the affected
// calls, and the engine continues to serve others. A failure in one sequence
// never ends another.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"hotpath/internal/calib"
	"hotpath/internal/kv"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
	"hotpath/profile"
)

var (
	// ErrClosed reports a call after Close, or one that Close cut short.
	ErrClosed = weights.ErrClosed
	// ErrTooLong reports a text with more tokens than the model accepts.
	ErrTooLong = errors.New("text is too long")
	// ErrInput reports token ids or sizes that no run can have.
	ErrInput = errors.New("invalid input")
	// errNumbers reports NaN or Inf in an answer.
	errNumbers = errors.New("the model's answer is not a finite number: its weights are damaged, or overflow at this precision")
	// ErrUnsupported reports work that the model is not made for.
	ErrUnsupported = weights.ErrUnsupported
)

// Options configure an engine. Zero values mean the defaults.
type Options struct {
	MaxBatchTokens int          // tokens of one run: what the backend names (plan.RunSizes), or 512
	MaxSeqs        int          // sequences of one run: 64, and what the backend names if the run embeds or ranks
	Ctx            int          // tokens of one generation, prompt included: what the model has, at most 4096
	KVBlocks       int          // blocks of 64 tokens in the KV cache: two full contexts
	KVType         tensor.DType // encoding of the KV cache, one of graph.KVTypes
	Parallel       Mode         // how embedding uses the workers
	Workers        int          // of a run: all that the backend has
	// Invariant makes the bits of an answer independent of the other sequences in
	// the batch and of the other options. Likelihoods are invariant without it. A
	// generation that is alone on the engine also repeats itself bit by bit without
	// it: kernels are chosen by the length of the whole prompt, even if the prompt
	// is run in several parts.
	Invariant    bool
	Fixed        bool // all workers take part in every run, even on a busy machine: for measurements
	NoPrefix     bool // run every prompt whole, even if the KV cache holds its beginning: for measurements
	Recorder     *profile.Recorder
	CloseTimeout time.Duration // how long Close waits for runs in flight: CloseTimeout
	// Costs are measurements of this machine with the same number of workers.
	// Auto decides by them; nil: built-in figures.
	Costs *calib.Costs
	// Beside is an open engine of the same model and backend, whose packed weights this
	// one uses too. Either may close first.
	Beside *Engine
}

const (
	defaultBatchTokens = 512
	defaultSeqs        = 64
	defaultCtx         = 4096
)

func (o Options) withDefaults(c *model.Config, r plan.RunSizes) (Options, error) {
	for _, f := range []struct {
		name   string
		value  *int
		preset int
	}{
		{"MaxBatchTokens", &o.MaxBatchTokens, cmp.Or(r.Tokens, defaultBatchTokens)},
		{"MaxSeqs", &o.MaxSeqs, defaultSeqs},
		{"Ctx", &o.Ctx, min(c.MaxSeq, defaultCtx)},
		{"KVBlocks", &o.KVBlocks, 0},
		{"Workers", &o.Workers, 0},
	} {
		if *f.value < 0 {
			return o, fmt.Errorf("%w: option %s is %d, expected 0 or more", ErrInput, f.name, *f.value)
		}
		*f.value = cmp.Or(*f.value, f.preset)
	}
	if o.CloseTimeout < 0 {
		return o, fmt.Errorf("%w: option CloseTimeout is %v, expected 0 or more", ErrInput, o.CloseTimeout)
	}
	o.CloseTimeout = cmp.Or(o.CloseTimeout, CloseTimeout)
	if o.Ctx == 1 {
		return o, fmt.Errorf("%w: a context of 1 token, expected at least 2: one for the prompt, one for an answer", ErrInput)
	}
	if o.Ctx > c.MaxSeq {
		return o, fmt.Errorf("%w: a context of %d tokens, expected at most the model's %d positions", ErrInput, o.Ctx, c.MaxSeq)
	}
	o.MaxSeqs = min(o.MaxSeqs, o.MaxBatchTokens)
	o.KVBlocks = cmp.Or(o.KVBlocks, 2*kv.Blocks(o.Ctx)) // of a Ctx that the model has
	if o.KVBlocks < kv.Blocks(o.Ctx) {
		return o, fmt.Errorf("%w: %d KV blocks, expected at least %d for a context of %d tokens", ErrInput, o.KVBlocks, kv.Blocks(o.Ctx), o.Ctx)
	}
	return o, nil
}

// Engine runs one model on one backend. All methods may be called at the same
// time.
type Engine struct {
	model   *model.Model
	cfg     *model.Config
	be      plan.Backend
	caps    plan.Caps
	opts    Options
	texts   int // sequences of a run that embeds or ranks
	weights *plan.WeightSet
	base    context.Context // of runs that serve several callers
	stats   counters
	costs   calib.Costs
	mode    atomic.Uint32 // a Mode: Options.Parallel, until SetParallel

	generator *generator
	scorer    *scorer
	rerank    *reranker

	progs     sync.Mutex // guards what follows, and is held shortly
	embedders map[model.EmbedOptions]*embedder
	runners   []*runner

	paused  atomic.Bool // see Pause
	closing atomic.Bool
	mu      sync.Mutex                 // guards calls and cancels
	calls   [numKinds]int              // that have not left
	cancels []*context.CancelCauseFunc // of compilations under way
	idle    chan struct{}              // closed when all calls have left, after closing is set
	once    sync.Once                  // frees the sessions
	err     error                      // of Close
}

// Open makes an engine. Model and backend stay the caller's to close, after
// the engine.
func Open(m *model.Model, be plan.Backend, o Options) (*Engine, error) {
	caps := be.Caps()
	texts := cmp.Or(o.MaxSeqs, caps.Runs.Texts, defaultSeqs)
	o, err := o.withDefaults(m.Config(), caps.Runs)
	if err != nil {
		return nil, err
	}
	var packed *plan.WeightSet
	switch b := o.Beside; {
	case b == nil:
		packed = plan.NewWeightSet(be, m)
	case b.model != m || b.be != be:
		return nil, fmt.Errorf("%w: option Beside is an engine of another model or backend", ErrInput)
	default:
		packed = b.weights.Share()
	}
	e := &Engine{
		model: m, cfg: m.Config(), be: be, caps: caps, opts: o, texts: min(texts, o.MaxBatchTokens),
		weights:   packed,
		base:      profile.WithRecorder(context.Background(), o.Recorder),
		embedders: map[model.EmbedOptions]*embedder{},
		idle:      make(chan struct{}),
	}
	e.generator, e.scorer, e.rerank = newGenerator(e), newScorer(e), newReranker(e)
	e.mode.Store(uint32(o.Parallel))
	if o.Workers == 0 {
		e.opts.Workers = max(1, e.caps.Workers)
	}
	if o.Costs != nil && o.Costs.Workers == e.opts.Workers {
		e.costs = *o.Costs
	} else {
		e.costs = calib.Default(e.opts.Workers, calib.KeyOf(e.opts.Workers).Parallel())
	}
	return e, nil
}

// Do runs f and prevents the engine from closing meanwhile. It is for work on the
// model itself.
func (e *Engine) Do(f func() error) error {
	if err := e.enter(inspecting); err != nil {
		return err
	}
	defer e.leave(inspecting)
	return f()
}

// Options are the options in effect.
func (e *Engine) Options() Options { return e.opts }

// SetParallel changes how embedding uses the workers, from the next run on, so that
// the modes can be measured in turns on the same weights and sessions. An engine
// that was opened as Fine stays fine: it has no sessions for coarse runs.
func (e *Engine) SetParallel(m Mode) { e.mode.Store(uint32(m)) }

// WeightBytes is the resident size of the weights that programs packed.
func (e *Engine) WeightBytes() int64 { return e.weights.Bytes() }

// hosted is the context for scopes of the engine's own work: without a recorder
// while it is paused.
func (e *Engine) hosted() context.Context {
	if e.paused.Load() {
		return context.Background()
	}
	return e.base
}

// scoped puts the engine's recorder under a context that has none.
func (e *Engine) scoped(ctx context.Context) context.Context {
	if e.opts.Recorder == nil || profile.RecorderFrom(ctx) == e.opts.Recorder {
		return ctx
	}
	return profile.WithRecorder(ctx, e.opts.Recorder)
}

// thePrompt is the index of the text that a generation continues: a call has one.
const thePrompt = -1

// textName is what errors call sequence i of a call. They count texts from 1.
func textName(i int) string {
	if i == thePrompt {
		return "the prompt"
	}
	return fmt.Sprintf("text %d", i+1)
}

// checkIDs checks the ids of sequence i against the vocabulary, and its length
// against longest.
func (e *Engine) checkIDs(i int, ids []int32, longest int) error {
	if len(ids) == 0 && !e.cfg.Empty {
		return fmt.Errorf("%w: %s has no tokens", ErrInput, textName(i))
	}
	if len(ids) > longest {
		return fmt.Errorf("%w: %s has %d tokens, expected at most %d", ErrTooLong, textName(i), len(ids), longest)
	}
	for k, id := range ids {
		if id < 0 || int(id) >= e.cfg.Vocab {
			return fmt.Errorf("%w: %s: token %d is %d, expected 0 to %d", ErrInput, textName(i), k, id, e.cfg.Vocab-1)
		}
	}
	return nil
}

// DefaultKVType is the encoding of the KV cache if the options name none: f32 if
// the precision is f32, else f16.
func DefaultKVType(precision string) tensor.DType {
	if precision == "f32" {
		return tensor.F32
	}
	return tensor.F16
}

// kvLayout is the model's view of a pool.
func (e *Engine) kvLayout(blocks int) model.KVLayout {
	return model.KVLayout{Blocks: blocks, MaxBlocksPerSeq: kv.Blocks(e.opts.Ctx), Type: e.opts.KVType}
}

// phases of the generate program, by the kinds of sequences in a step.
var phases = [...]string{phaseDecode: "decode", phasePrefill: "prefill", phaseMixed: "prefill and decode"}

const (
	phaseDecode = iota
	phasePrefill
	phaseMixed
)

// finite reports whether every value is a number.
func finite(f []float32) bool {
	for _, v := range f {
		if x := float64(v); math.IsNaN(x) || math.IsInf(x, 0) {
			return false
		}
	}
	return true
}
