package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"hotpath/internal/graph"
	"hotpath/internal/kv"
	"hotpath/internal/plan"
	"hotpath/internal/sample"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// Request is one generation.
type Request struct {
	Prompt    []int32
	MaxTokens int // 0: until the context is full
	Sample    sample.Params
	// Called and Tokenized are when the caller was asked and when it had the prompt,
	// by profile.Now; 0: when Generate was called.
	Called, Tokenized int64
	// End reports whether a token ends the text; nil: no token does. Such a token
	// is not part of the answer.
	End func(id int32) bool
}

// Reason says why a generation ended.
type Reason uint8

const (
	// Running: the generation has not ended, or an error ended it.
	Running Reason = iota
	// Stop means that the model ended the text.
	Stop
	// Length means that MaxTokens or the context is used up.
	Length
)

func (r Reason) String() string { return [...]string{"", "stop", "length"}[r] }

// Stream is a generation under way. One goroutine reads it.
type Stream struct {
	gen     *generator
	ctx     context.Context
	req     Request
	sampler sample.Sampler
	signal  chan struct{} // capacity 1: there is something new

	// The step loop's own.
	seq      *kv.Sequence
	tokens   []int32    // prompt, then what was generated
	prefill  int        // leading tokens that are run several at a time: usually the prompt
	classes  []kv.Class // [limit] kernels that computed each token, or will compute it if it is prefill
	limit    int        // tokens at which the text ends
	composed bool       // in the batch that is being put together
	row      int        // of the logits, -1 where none is wanted
	aloft    int        // runs in flight with tokens of it
	pending  int        // ids that runs in flight draw: part of the text, and not in tokens yet
	last     int        // row of the newest of them
	drawn    struct {   // the step's token
		id  int32
		err error
	}

	mu     sync.Mutex
	ids    []int32 // generated
	read   int     // of them handed out
	ended  bool
	reason Reason
	err    error
	quit   bool // the reader left
	timing Timing

	left bool   // the engine's count of calls
	name string // in the profile, where there is one
	fed  int    // tokens of it in the step's batch
}

// Timing of a generation, readings of profile.Now.
type Timing struct {
	Called     int64 // the caller was asked
	Tokenized  int64 // the prompt was there, and the program was wanted
	Queued     int64 // the program was compiled
	Started    int64 // its first step began
	FirstToken int64 // it was drawn
	Read       int64 // the caller had it
	End        int64
	Cached     int // prompt tokens found in the KV cache
}

// Generate starts a generation. It joins the batch of the generations that are
// already running. The caller reads the Stream to its end or calls Stop.
func (e *Engine) Generate(ctx context.Context, req Request) (s *Stream, err error) {
	if err := e.enter(generating); err != nil {
		return nil, err
	}
	defer func() {
		if s == nil { // otherwise the step loop leaves when the stream ends
			e.leave(generating)
		}
	}()
	defer Guard(&err)
	return e.start(ctx, req)
}

func (e *Engine) start(ctx context.Context, req Request) (*Stream, error) {
	if now := profile.Now(); req.Tokenized == 0 {
		req.Called, req.Tokenized = now, now
	}
	if !e.cfg.CanGenerate {
		return nil, fmt.Errorf("%w: %s models do not generate", ErrUnsupported, e.cfg.Arch)
	}
	if err := e.checkIDs(thePrompt, req.Prompt, e.opts.Ctx-1); err != nil {
		return nil, err
	}
	if req.MaxTokens < 0 {
		return nil, fmt.Errorf("%w: %d tokens to generate, expected 0 or more", ErrInput, req.MaxTokens)
	}
	g, err := e.openGenerator(ctx)
	if err != nil {
		return nil, err
	}
	s := &Stream{gen: g, ctx: ctx, req: req, signal: make(chan struct{}, 1), limit: e.opts.Ctx}
	if room := s.limit - len(req.Prompt); req.MaxTokens > 0 && req.MaxTokens < room {
		s.limit = len(req.Prompt) + req.MaxTokens
	}
	if err := s.sampler.Reset(req.Sample); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	if !req.Sample.Penalties.None() {
		if err := g.openLogits(ctx); err != nil {
			return nil, err
		}
	}
	s.tokens = append(make([]int32, 0, s.limit), req.Prompt...)
	s.prefill, s.classes = len(req.Prompt), make([]kv.Class, s.limit)
	for i := range s.prefill {
		s.classes[i] = g.class(s.prefill, false)
	}
	s.ids = make([]int32, 0, s.limit-len(req.Prompt))
	s.timing.Called, s.timing.Tokenized, s.timing.Queued = req.Called, req.Tokenized, profile.Now()
	if e.opts.Recorder != nil {
		s.name = fmt.Sprintf("generation %d", e.stats.streams.Add(1))
	}
	g.submit(s)
	return s, nil
}

// Prepare compiles the program that generates and packs its weights, unless that
// was done, so that the first Generate does not wait for it.
func (e *Engine) Prepare(ctx context.Context) error {
	return e.Do(func() error {
		if !e.cfg.CanGenerate {
			return fmt.Errorf("%w: %s models do not generate", ErrUnsupported, e.cfg.Arch)
		}
		_, err := e.openGenerator(ctx)
		return err
	})
}

// openGenerator compiles the generate program once.
func (e *Engine) openGenerator(ctx context.Context) (*generator, error) {
	return e.generator, e.generator.prog.open(ctx, e, e.generator.compile)
}

// compile makes the program that steps run. A device that draws tokens itself
// returns ids; elsewhere logits come back and the host draws.
func (g *generator) compile(ctx context.Context) error {
	e := g.eng
	// A device that lacks the ops of the second layout waits for each id.
	for _, resumes := range []bool{true, false} {
		if !e.caps.Async {
			break
		}
		g.layout = e.kvLayout(e.opts.KVBlocks)
		g.layout.Resumes = resumes && !e.cfg.RopeRestarts
		built, p, err := e.model.BuildSampled(g.most(), g.layout)
		if err != nil {
			return err
		}
		own := func(n *graph.Node) bool {
			return n.Op == graph.OpSample || n.Op == graph.OpResume || n.Op == graph.OpKeep
		}
		if !slices.ContainsFunc(built.Nodes, func(n *graph.Node) bool { return own(n) && !e.be.Supports(n) }) {
			r, err := e.newRunner(ctx, "generate", built, p, p.IDs, 2, plan.CompileOptions{}, generateLabels)
			if err != nil {
				return err
			}
			g.start(r)
			g.sampled = r
			return nil
		}
	}
	g.layout = e.kvLayout(e.opts.KVBlocks)
	built, p, err := e.model.BuildGenerate(g.most(), g.layout)
	if err != nil {
		return err
	}
	r, err := e.newRunner(ctx, "generate", built, p, p.Logits, 1, plan.CompileOptions{}, generateLabels)
	if err != nil {
		return err
	}
	g.start(r)
	g.logits = r
	return nil
}

// start prepares for steps of a runner.
func (g *generator) start(r *runner) {
	e := g.eng
	g.sess, g.pool, g.uniform = r.sess, kv.NewPool(e.opts.KVBlocks), r.sess.Program().Uniform()
	g.maxBlocks = r.workers[0].MaxBlocks
	g.draws = newDraws(e.opts.Workers, func(row int) []float32 { return g.logits.workers[0].row(row) })
}

// openLogits compiles the program that returns logits, for sampling on the host.
// It exists beside the program that samples on the device, because only the host
// applies penalties. Both share one KV cache.
func (g *generator) openLogits(ctx context.Context) error {
	if g.sampled == nil {
		return nil // it is the only program
	}
	e := g.eng
	return g.logitsProg.open(ctx, e, func(ctx context.Context) error {
		built, p, err := e.model.BuildGenerate(g.most(), g.layout)
		if err != nil {
			return err
		}
		prog, err := e.compile("generate.logits", built, plan.CompileOptions{})
		if err != nil {
			return err
		}
		g.logits, err = e.open(p, p.Logits, plan.BindOptions{}, generateLabels, func(o plan.BindOptions) (*plan.Session, error) {
			return g.sess.Share(ctx, prog, o)
		})
		return err
	})
}

// most is the size of the largest step. The last bucket is for prompts longer
// than a KV block. Only such prompts can reuse blocks of other prompts, however
// few of their tokens a step has.
func (g *generator) most() tensor.Bind {
	o := &g.eng.opts
	return tensor.Bind{T: max(o.MaxBatchTokens, kv.BlockTokens+1), S: o.MaxSeqs, R: o.MaxSeqs}
}

var generateLabels = plan.ProfileLabels{Phases: phases[:]}

// Next waits for the next token. It reports false at the end; Err and Reason
// say why.
func (s *Stream) Next() (int32, bool) {
	for {
		s.mu.Lock()
		if s.read < len(s.ids) {
			id := s.ids[s.read]
			if s.read++; s.read == 1 {
				s.timing.Read = profile.Now()
			}
			s.mu.Unlock()
			return id, true
		}
		ended := s.ended
		s.mu.Unlock()
		if ended {
			return 0, false
		}
		select {
		case <-s.signal:
		case <-s.ctx.Done():
			// The step loop sees it too, but perhaps only after a long step.
			s.finish(Running, context.Cause(s.ctx))
		}
	}
}

// Stop ends the generation early; it does nothing at its end. Tokens that were
// not read are lost.
func (s *Stream) Stop() {
	s.mu.Lock()
	s.quit = true
	s.mu.Unlock()
}

// Err is the error that ended the generation, or nil.
func (s *Stream) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Reason says why the generation ended.
func (s *Stream) Reason() Reason {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason
}

// Timing is complete once the generation has ended.
func (s *Stream) Timing() Timing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.timing
}

// finish ends the stream for its reader; the first reason stays.
func (s *Stream) finish(r Reason, err error) {
	s.mu.Lock()
	if !s.ended {
		s.ended, s.reason, s.err = true, r, err
		s.timing.End = profile.Now()
	}
	s.mu.Unlock()
	s.wake()
}

func (s *Stream) wake() {
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

// over reports whether no reader wants more tokens. It ends the stream if its
// context has ended.
func (s *Stream) over() bool {
	if err := context.Cause(s.ctx); err != nil {
		s.finish(Running, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended || s.quit
}

// ends reports whether the stream has ended for its reader.
func (s *Stream) ends() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// push takes the next token from the step loop.
func (s *Stream) push(id int32) {
	if s.req.End != nil && s.req.End(id) {
		s.finish(Stop, nil)
		return
	}
	s.tokens = append(s.tokens, id)
	s.mu.Lock()
	s.ids = append(s.ids, id)
	if len(s.ids) == 1 {
		s.timing.FirstToken = profile.Now()
	}
	s.mu.Unlock()
	s.gen.eng.stats.generated.Add(1)
	if len(s.tokens) >= s.limit {
		s.finish(Length, nil)
		return
	}
	s.wake()
}

// leave lets go of the engine, once.
func (s *Stream) leave() {
	if !s.left {
		s.left = true
		s.gen.eng.leave(generating)
	}
}

// abort ends every stream after a panic in the step loop. It discards the
// contents of the cache, because its bookkeeping may be incomplete.
func (g *generator) abort(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.flying != nil {
		_ = g.flying.at.wait() // its slot is used again
	}
	streams := slices.Concat(g.active, g.waiting, g.arrived)
	g.active, g.waiting, g.arrived, g.spare = nil, nil, nil, nil
	g.pool, g.looping, g.flying = kv.NewPool(g.eng.opts.KVBlocks), false, nil
	g.count()
	for _, s := range streams {
		s.seq = nil
		s.finish(Running, err)
		s.leave()
	}
}
