package study

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/engine"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// session is a study under way: the model, and what was opened for it.
type session struct {
	Options
	name  string // of the model
	store *weights.Store
	model *model.Model // nil without one
	opened
}

// opened is closed in reverse order.
type opened struct{ closers []func() error }

func (o *opened) close() error {
	var errs []error
	for i := len(o.closers) - 1; i >= 0; i-- {
		err := o.closers[i]()
		errs = append(errs, err)
		if errors.Is(err, engine.ErrBusy) {
			break // a run reads what was opened before the engine
		}
	}
	o.closers = nil
	return errors.Join(errs...)
}

func open(o Options) (*session, error) {
	if err := isa.Err(); err != nil {
		return nil, err
	}
	if _, err := cpu.ParsePrecision(o.Precision); err != nil {
		return nil, err
	}
	if o.Threads == 0 {
		o.Threads = isa.Threads()
	}
	s := &session{Options: o}
	if o.Model == "" {
		return s, nil
	}
	var err error
	if s.store, err = weights.Open(o.Model); err != nil {
		return nil, err
	}
	s.closers = append(s.closers, s.store.Close)
	if s.model, err = model.Open(s.store); err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.name = filepath.Base(filepath.Clean(o.Model))
	return s, nil
}

// setup is an engine and the backend below it.
type setup struct {
	cpu.Options
	engine engine.Options
	tier   isa.Tier // 0 (generic) unless tiered
	tiered bool
	quant  *tensor.DType // that matrices are encoded in anew; nil leaves them
}

// running is an open setup.
type running struct {
	*engine.Engine
	be    *cpu.Backend
	setup setup
	hook  func(*plan.Step) float64 // steps slowed on purpose; nil for none
}

// enter makes a setup's tier the active one.
func (r *running) enter() func() {
	if !r.setup.tiered {
		return func() {}
	}
	return isa.Use(r.setup.tier)
}

// precision is that of the options, for setups that ask for none.
func (s *session) precision() cpu.Precision {
	p, _ := cpu.ParsePrecision(s.Precision)
	return p
}

// start opens a setup; whoever holds o closes it.
func (s *session) start(o *opened, x setup) (*running, error) {
	if x.Workers == 0 {
		x.Workers = s.Threads
	}
	if x.Precision == "" {
		x.Precision = s.precision()
	}
	x.engine.Invariant, x.engine.KVType = s.Invariant, engine.DefaultKVType(string(x.Precision))
	r := &running{setup: x}
	defer r.enter()()
	var err error
	if r.be, err = cpu.New(x.Options); err != nil {
		return nil, err
	}
	o.closers = append(o.closers, r.be.Close)
	var be plan.Backend = r.be
	if x.quant != nil {
		be = &requantized{Backend: r.be, to: *x.quant}
	}
	if r.Engine, err = engine.Open(s.model, be, x.engine); err != nil {
		return nil, err
	}
	o.closers = append(o.closers, r.Engine.Close)
	return r, nil
}

// work is something to do with an engine, the same each time.
type work struct {
	name   string
	tokens int // that pass through the model
	run    func(ctx context.Context, e *engine.Engine) error
}

// arm runs work on an engine.
func (r *running) arm(name string, w work) Arm {
	return Arm{Name: name, Enter: r.enter, Run: func(ctx context.Context) error { return w.run(ctx, r.Engine) }}
}

// texts are random ids; the same seed gives the same ones.
func (s *session) texts(seed uint64, lengths []int) [][]int32 {
	rng := rand.New(rand.NewPCG(seed, 3))
	out := make([][]int32, len(lengths))
	for i, n := range lengths {
		out[i] = make([]int32, min(n, s.model.Config().MaxSeq))
		for j := range out[i] {
			out[i][j] = int32(rng.IntN(s.model.Config().Vocab))
		}
	}
	return out
}

// even is n texts of one length.
func even(n, length int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = length
	}
	return out
}

func total(texts [][]int32) (n int) {
	for _, t := range texts {
		n += len(t)
	}
	return n
}

func (s *session) pooling() model.EmbedOptions {
	return model.EmbedOptions{Pooling: s.model.Config().Pooling, Normalize: true}
}

// embed is all texts in one call.
func (s *session) embed(texts [][]int32) work {
	dst, how := make([]float32, len(texts)*s.model.Config().Dim), s.pooling()
	return work{fmt.Sprintf("embed %s, %d tokens in all", plural(len(texts), "text"), total(texts)), total(texts),
		func(ctx context.Context, e *engine.Engine) error { return e.EmbedIDs(ctx, texts, dst, how) }}
}

// generate continues prompts by n tokens each, all at once.
func (s *session) generate(prompts [][]int32, n int) work {
	return work{fmt.Sprintf("continue %s, %d tokens in all, by %d tokens each", plural(len(prompts), "prompt"), total(prompts), n),
		total(prompts) + len(prompts)*(n-1),
		func(ctx context.Context, e *engine.Engine) error { return generate(ctx, e, prompts, n) }}
}

func generate(ctx context.Context, e *engine.Engine, prompts [][]int32, n int) error {
	streams := make([]*engine.Stream, 0, len(prompts))
	defer func() {
		for _, s := range streams {
			s.Stop()
		}
	}()
	for _, p := range prompts {
		s, err := e.Generate(ctx, engine.Request{Prompt: p, MaxTokens: n})
		if err != nil {
			return err
		}
		streams = append(streams, s)
	}
	for _, s := range streams {
		for _, ok := s.Next(); ok; _, ok = s.Next() {
		}
		if err := s.Err(); err != nil {
			return err
		}
	}
	// A stream's reader has the last token before the step loop has closed its scopes
	// and recorded the request.
	for e.Stats().Running > 0 && ctx.Err() == nil {
		runtime.Gosched()
	}
	return nil
}

// encodes reports whether embedding is what the model is for.
func (s *session) encodes() bool { c := s.model.Config(); return c.CanEmbed && !c.CanGenerate }

// usual is the work that a study takes where it does not vary it.
func (s *session) usual() work {
	if s.encodes() {
		n, length := 8, 64
		if s.Quick {
			n, length = 4, 8
		}
		return s.embed(s.texts(1, even(n, length)))
	}
	n, more := 32, 16
	if s.Quick {
		n, more = 8, 3
	}
	return s.generate(s.texts(1, even(1, min(n, s.model.Config().MaxSeq/2))), more)
}

// rate is tokens a second with its interval.
func (w work) rate(time Estimate) Estimate {
	return time.Map(func(s float64) float64 { return float64(w.tokens) / s })
}
