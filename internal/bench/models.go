package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"hotpath/internal/engine"
	"hotpath/internal/model"
	"hotpath/internal/weights"
	"hotpath/profile"
)

// modelHandle is the model of -m, with an engine for each number of workers.
// Engines stay open between samples: their weights take long to pack.
type modelHandle struct {
	env     *Env
	name    string
	store   *weights.Store
	model   *model.Model
	engines map[int]*engine.Engine
	// watched records what work costs, beside the engines that are timed.
	watched *engine.Engine
	rec     *profile.Recorder
	seen    map[stepKey]Cost
	rng     *rand.Rand
}

type stepKey struct {
	plan string
	step int
}

func openModel(e *Env, path string) (*modelHandle, error) {
	st, err := weights.Open(path)
	if err != nil {
		return nil, err
	}
	m, err := model.Open(st)
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	name := strings.Map(func(r rune) rune { // of the file, as part of a benchmark's name
		if r <= ' ' || r == '/' || r == '=' || r == 0x7f {
			return '_'
		}
		return r
	}, filepath.Base(filepath.Clean(path)))
	return &modelHandle{env: e, name: name, store: st, model: m, engines: map[int]*engine.Engine{},
		seen: map[stepKey]Cost{}, rng: rand.New(rand.NewPCG(1, 2))}, nil
}

func (h *modelHandle) close() error {
	var errs []error
	for _, eng := range h.engines {
		errs = append(errs, eng.Close())
	}
	if h.watched != nil {
		errs = append(errs, h.watched.Close())
	}
	if err := errors.Join(errs...); errors.Is(err, engine.ErrBusy) {
		return err // a run reads the store
	}
	return errors.Join(append(errs, h.store.Close())...)
}

func (h *modelHandle) engine(threads int) (*engine.Engine, error) {
	if eng, ok := h.engines[threads]; ok {
		return eng, nil
	}
	eng, err := h.open(engine.Options{Workers: threads})
	if err == nil {
		h.engines[threads] = eng
	}
	return eng, err
}

func (h *modelHandle) open(o engine.Options) (*engine.Engine, error) {
	be, err := h.env.backend("")
	if err != nil {
		return nil, err
	}
	o.Invariant, o.KVType = h.env.Invariant, engine.DefaultKVType(h.env.Precision)
	return engine.Open(h.model, be, o)
}

// cost is what the steps of a phase did during work.
func (h *modelHandle) cost(phase string, work func(*engine.Engine) error) ([]Cost, error) {
	if h.watched == nil {
		h.rec = profile.NewRecorder(profile.Options{Events: -1})
		eng, err := h.open(engine.Options{Recorder: h.rec})
		if err != nil {
			return nil, err
		}
		h.watched = eng
	}
	if err := work(h.watched); err != nil {
		return nil, err
	}
	out := []Cost{}
	snap := h.rec.Snapshot()
	for i := range snap.Plans {
		p := &snap.Plans[i]
		for j, s := range p.Stats {
			key := stepKey{p.ID, j}
			now, before := Cost{p.Steps[j].Class, float64(s.FLOPs), float64(s.Bytes)}, h.seen[key]
			h.seen[key] = now
			if now.FLOPs -= before.FLOPs; p.Phase == phase && now.Bytes > before.Bytes {
				now.Bytes -= before.Bytes
				out = append(out, now)
			}
		}
	}
	return out, nil
}

// texts are token ids that no text before them began with, so that no cache
// holds a part of them.
func (h *modelHandle) texts(n, length int) [][]int32 {
	vocab := h.model.Config().Vocab
	out := make([][]int32, n)
	for i := range out {
		out[i] = make([]int32, length)
		for j := range out[i] {
			out[i][j] = int32(h.rng.IntN(vocab))
		}
	}
	return out
}

// models makes a case for each number of workers, of work that open prepares
// for an engine.
func (e *Env) models(out *[]*Case, open func(ctx context.Context, eng *engine.Engine) (*Work, error), format string, args ...any) {
	for _, threads := range e.threads() {
		*out = append(*out, &Case{Name: fmt.Sprintf(format, args...), Threads: threads, Open: func(ctx context.Context) (*Work, error) {
			eng, err := e.model.engine(threads)
			if err != nil {
				return nil, err
			}
			return open(ctx, eng)
		}})
	}
}

func embedCases(e *Env) []*Case {
	h := e.model
	c := h.model.Config()
	if !c.CanEmbed {
		return nil
	}
	var out []*Case
	how := model.EmbedOptions{Pooling: c.Pooling, Normalize: true}
	for _, z := range [][2]int{{1, 16}, {8, 64}, {32, 128}} {
		seqs, length := z[0], z[1]
		if length > c.MaxSeq {
			continue
		}
		e.models(&out, func(ctx context.Context, eng *engine.Engine) (*Work, error) {
			batch, dst := h.texts(seqs, length), make([]float32, seqs*c.Dim)
			run := func(eng *engine.Engine) error { return eng.EmbedIDs(ctx, batch, dst, how) }
			return &Work{
				Run:    repeated(func() error { return run(eng) }),
				Cost:   func() ([]Cost, error) { return h.cost("embed", run) },
				Tokens: float64(seqs * length),
			}, nil
		}, "Embed/model=%s/precision=%s/batch=%d/len=%d", h.name, e.precision(), seqs, length)
	}
	return out
}

func prefillCases(e *Env) []*Case {
	h := e.model
	c := h.model.Config()
	if !c.CanGenerate {
		return nil
	}
	var out []*Case
	for _, length := range []int{16, 128, 512} {
		if length >= c.MaxSeq {
			continue
		}
		e.models(&out, func(ctx context.Context, eng *engine.Engine) (*Work, error) {
			run := func(eng *engine.Engine) (time.Duration, error) {
				prompts := h.texts(1, length)
				start := time.Now()
				_, err := generate(ctx, eng, prompts, 1)
				return time.Since(start), err
			}
			return &Work{
				Run:    summed(eng, run),
				Cost:   func() ([]Cost, error) { return h.cost("prefill", untimed(run)) },
				Tokens: float64(length),
			}, nil
		}, "Prefill/model=%s/precision=%s/len=%d", h.name, e.precision(), length)
	}
	return out
}

// Decoding goes on for so many tokens after a prompt of so many.
const (
	decodePrompt = 16
	decodeTokens = 32
)

func decodeCases(e *Env) []*Case {
	h := e.model
	c := h.model.Config()
	if !c.CanGenerate || decodePrompt+decodeTokens+1 > c.MaxSeq {
		return nil
	}
	var out []*Case
	for _, seqs := range []int{1, 4, 8, 16} {
		e.models(&out, func(ctx context.Context, eng *engine.Engine) (*Work, error) {
			run := func(eng *engine.Engine) (time.Duration, error) {
				return generate(ctx, eng, h.texts(seqs, decodePrompt), decodeTokens+1)
			}
			return &Work{
				Run:    summed(eng, run),
				Cost:   func() ([]Cost, error) { return h.cost("decode", untimed(run)) },
				Tokens: float64(seqs * decodeTokens),
				Passes: decodeTokens, // over the weights
			}, nil
		}, "Decode/model=%s/precision=%s/batch=%d/tokens=%d", h.name, e.precision(), seqs, decodeTokens)
	}
	return out
}

// summed makes a Run of work that says itself how long it took.
func summed(eng *engine.Engine, f func(*engine.Engine) (time.Duration, error)) func(n int) (time.Duration, error) {
	return func(n int) (total time.Duration, err error) {
		for range n {
			d, err := f(eng)
			if err != nil {
				return 0, err
			}
			total += d
		}
		return total, nil
	}
}

func untimed(f func(*engine.Engine) (time.Duration, error)) func(*engine.Engine) error {
	return func(eng *engine.Engine) error {
		_, err := f(eng)
		return err
	}
}

// generate goes on with all prompts at once, for n tokens each. The time is
// what n-1 tokens of each take at the rate that was seen while all sequences
// were past their prompts and none had ended. Several prompts wait for each
// other behind a sequence of their own, so that they go through the same steps
// each time.
func generate(ctx context.Context, eng *engine.Engine, prompts [][]int32, n int) (time.Duration, error) {
	times, streams := make([][]time.Time, len(prompts)), make([]*engine.Stream, 0, len(prompts))
	defer func() {
		for _, s := range streams {
			s.Stop()
		}
	}()
	begin := func() error { return nil }
	if len(prompts) > 1 {
		var err error
		if begin, err = hold(ctx, eng, prompts[0][:2]); err != nil {
			return 0, err
		}
		defer begin()
	}
	for i, prompt := range prompts {
		times[i] = make([]time.Time, 0, n)
		s, err := eng.Generate(ctx, engine.Request{Prompt: prompt, MaxTokens: n, End: func(int32) bool {
			times[i] = append(times[i], time.Now()) // called for each token as it is made
			return false
		}})
		if err != nil {
			return 0, err
		}
		streams = append(streams, s)
	}
	if err := begin(); err != nil {
		return 0, err
	}
	for _, s := range streams {
		for _, ok := s.Next(); ok; _, ok = s.Next() {
		}
		if err := s.Err(); err != nil {
			return 0, err
		}
	}
	if n == 1 {
		return 0, nil
	}
	return pace(times, n)
}

// hold keeps the engine in the first step of a sequence of one token, so that
// those which come after it all begin with the next step, when begin is called.
// Its prompt has two tokens or more: one alone would pass for decoding.
func hold(ctx context.Context, eng *engine.Engine, prompt []int32) (begin func() error, err error) {
	held, release, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	s, err := eng.Generate(ctx, engine.Request{Prompt: prompt, MaxTokens: 1, End: func(int32) bool {
		close(held)
		<-release
		return false
	}})
	if err != nil {
		return nil, err
	}
	go func() {
		defer close(ended)
		s.Next() // its token, or none because it failed
	}()
	begin = sync.OnceValue(func() error {
		close(release)
		<-ended
		s.Stop()
		return s.Err()
	})
	select {
	case <-held:
		return begin, nil
	case <-ended:
		return nil, errors.Join(begin(), errors.New("a sequence ended before it began"))
	}
}

// pace is the time that n-1 tokens of each sequence take.
func pace(times [][]time.Time, n int) (time.Duration, error) {
	var from, to time.Time // the last first token, the first last one
	for i, t := range times {
		if len(t) != n {
			return 0, fmt.Errorf("sequence %d made %d tokens, expected %d", i, len(t), n)
		}
		if i == 0 || t[0].After(from) {
			from = t[0]
		}
		if i == 0 || t[n-1].Before(to) {
			to = t[n-1]
		}
	}
	within := 0
	for _, t := range times {
		for _, at := range t {
			if at.After(from) && !at.After(to) {
				within++
			}
		}
	}
	if within == 0 {
		return 0, errors.New("the sequences never ran at the same time")
	}
	return time.Duration(float64(to.Sub(from)) * float64(len(times)*(n-1)) / float64(within)), nil
}
