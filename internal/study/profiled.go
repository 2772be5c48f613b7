package study

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/train"
	"hotpath/profile"
	"hotpath/profile/compare"
)

// ProfileOptions say what a profiling run does.
type ProfileOptions struct {
	Options
	Work       string // embed, generate or train; "" is what the model is for
	Iterations int    // recorded ones
	Tokens     int    // of each text, of each answer, or of each sequence that is learned
}

// Works are what a profiling run can do.
var Works = []string{"embed", "generate", "train"}

// Profiled is a profiling run that was made.
type Profiled struct {
	Profile    *profile.Profile
	Allocators []Allocator // the largest first
	Seconds    []float64   // of recorded iterations
	Note       string      // what was done otherwise than asked for; mostly empty
	pairs      pairs
	work       string
	gc         gcFacts
}

// iterated is work that can be recorded or not.
type iterated struct {
	name  string
	run   func(ctx context.Context) error
	pause func(on bool)
	probe func() // takes the samples of ceilings that are lacking
	note  string // what is otherwise than asked for
}

// fewerTokens says that a model takes fewer tokens than were asked for.
func fewerTokens(asked, used int, of string, positions int) string {
	if used >= asked {
		return ""
	}
	return fmt.Sprintf("--tokens %d: %s takes %d, as the model has %d positions", asked, of, used, positions)
}

// How many texts, prompts or sequences an iteration has.
const (
	profileTexts  = 32
	profilePrompt = 16
	profileSeqs   = 4
)

// ProfileRun sets a model up, warms it up and records iterations of work. Each
// has an unrecorded twin beside it: the difference is what recording costs.
func ProfileRun(ctx context.Context, o ProfileOptions) (_ *Profiled, err error) {
	s, err := open(o.Options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	rec := profile.NewRecorder(profile.Options{})
	s.say(0, o.Iterations+1, "opening the model and warming up")
	w, err := s.iterated(ctx, o, rec)
	if err != nil {
		return nil, err
	}
	unrecorded := ctx // scopes of warm-up and twins belong to nobody
	ctx = profile.WithRecorder(ctx, rec)
	for range 2 {
		w.pause(true)
		if err := errors.Join(w.run(unrecorded), ctx.Err()); err != nil {
			return nil, err
		}
	}
	old := runtime.MemProfileRate
	runtime.MemProfileRate = 1
	defer func() { runtime.MemProfileRate = old }()
	heap := readHeap()
	p := &Profiled{work: w.name, Note: w.note, gc: readGC()}
	for i := range o.Iterations {
		s.say(1+i, o.Iterations+1, "iteration %d of %d", i+1, o.Iterations)
		if err := p.pair(ctx, unrecorded, w, rec); err != nil {
			return nil, err
		}
	}
	p.Seconds = seconds(p.pairs.with)
	p.Allocators = readHeap().since(heap, 2*o.Iterations)
	s.describe(rec, p)
	w.probe() // the session is open still, and iterations are short
	p.Profile = rec.Snapshot()
	// The iterations alone are mostly too few to tell what recording costs.
	// Further pairs are no part of the books.
	runtime.MemProfileRate = old
	s.say(o.Iterations, o.Iterations+1, "measuring what recording costs")
	for start := time.Now(); len(p.pairs.with) < overheadPairs && time.Since(start) < overheadTime; {
		if err := p.pair(ctx, unrecorded, w, rec); err != nil {
			return nil, err
		}
	}
	cost := compare.MeasureOverhead(p.pairs.with, p.pairs.without)
	p.Profile.Overhead = &cost
	return p, nil
}

// How long what recording costs is measured for: until there are so many pairs,
// or for so long after the iterations.
const (
	overheadPairs = 30
	overheadTime  = 4 * time.Second
)

// pairs are times of iterations that were recorded and of their unrecorded
// neighbours.
type pairs struct{ with, without []time.Duration }

// pair makes an iteration recorded and once more unrecorded, the other way
// around every other time.
func (p *Profiled) pair(ctx, unrecorded context.Context, w *iterated, rec *profile.Recorder) (err error) {
	first := len(p.pairs.with) % 2
	for k := range 2 {
		recorded := k == first
		w.pause(!recorded)
		start := time.Now()
		if recorded {
			inner, end := profile.Scope(ctx, "iteration")
			err = w.run(inner)
			end()
			err = errors.Join(err, rec.Err()) // folding belongs to the cost
		} else {
			err = w.run(unrecorded)
		}
		took := time.Since(start)
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if recorded {
			p.pairs.with = append(p.pairs.with, took)
		} else {
			p.pairs.without = append(p.pairs.without, took)
		}
	}
	return nil
}

// iterated opens what an iteration runs.
func (s *session) iterated(ctx context.Context, o ProfileOptions, rec *profile.Recorder) (*iterated, error) {
	kind := o.Work
	c := s.model.Config()
	if kind == "" {
		kind = "generate"
		if s.encodes() {
			kind = "embed"
		}
	}
	var w work
	var note string
	switch kind {
	case "train":
		return s.trained(ctx, o, rec)
	case "embed":
		if !c.CanEmbed {
			return nil, fmt.Errorf("%s does not embed", s.name)
		}
		n := min(o.Tokens, c.MaxSeq)
		note = fewerTokens(o.Tokens, n, "a text", c.MaxSeq)
		w = s.embed(s.texts(1, even(profileTexts, n)))
	case "generate":
		if !c.CanGenerate {
			return nil, fmt.Errorf("%s does not generate", s.name)
		}
		n := min(o.Tokens, c.MaxSeq-min(profilePrompt, c.MaxSeq/2))
		note = fewerTokens(o.Tokens, n, "an answer", c.MaxSeq)
		w = s.generate(s.texts(1, even(1, min(profilePrompt, c.MaxSeq/2))), n)
	default:
		return nil, fmt.Errorf("no work %q, expected %s", kind, strings.Join(Works, ", "))
	}
	x := setup{}
	x.engine.Recorder = rec
	r, err := s.start(&s.opened, x)
	if err != nil {
		return nil, err
	}
	return &iterated{w.name, func(ctx context.Context) error { return w.run(ctx, r.Engine) }, r.Engine.Pause, r.Engine.ProbeRest, note}, nil
}

// trained is training steps on a text of our own, in a folder that goes away.
func (s *session) trained(ctx context.Context, o ProfileOptions, rec *profile.Recorder) (*iterated, error) {
	dir, err := os.MkdirTemp("", "hotpath-profile-")
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, func() error { return os.RemoveAll(dir) })
	data := filepath.Join(dir, "text.txt")
	if err := os.WriteFile(data, []byte(strings.Repeat(paragraph+"\n", 16)), 0o600); err != nil {
		return nil, err
	}
	be, err := cpu.New(cpu.Options{Workers: s.Threads, Precision: cpu.F32})
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, be.Close)
	cfg := train.DefaultConfig()
	cfg.Model, cfg.Data, cfg.Out = s.Model, []string{data}, filepath.Join(dir, "out")
	length := min(o.Tokens, s.model.Config().MaxSeq)
	cfg.SeqLen, cfg.BatchTokens, cfg.Steps = length, profileSeqs*length, 1<<20
	t, err := train.New(ctx, cfg, train.Options{Backend: be, Recorder: rec})
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, t.Close)
	return &iterated{fmt.Sprintf("train on up to %d tokens a step in sequences of %d", cfg.BatchTokens, length), func(ctx context.Context) error {
		_, err := t.Step(ctx)
		return err
	}, t.Pause, t.ProbeRest, fewerTokens(o.Tokens, length, "a sequence", s.model.Config().MaxSeq)}, nil
}

func seconds(times []time.Duration) []float64 {
	out := make([]float64, len(times))
	for i, t := range times {
		out[i] = t.Seconds()
	}
	return out
}

// gcFacts are the collector's settings and what it did.
type gcFacts struct {
	cycles  uint32
	pause   time.Duration
	percent int
	limit   int64
}

func readGC() gcFacts {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	g := gcFacts{cycles: m.NumGC, pause: time.Duration(m.PauseTotalNs), percent: debug.SetGCPercent(100), limit: debug.SetMemoryLimit(-1)}
	debug.SetGCPercent(g.percent)
	return g
}

// describe puts the facts of machine, build, collector and model at the head of
// the profile.
func (s *session) describe(rec *profile.Recorder, p *Profiled) {
	h, c := isa.Host(), s.model.Config()
	now := readGC()
	limit := "no memory limit"
	if now.limit < 1<<62 {
		limit = "memory limit " + bytes(float64(now.limit))
	}
	gogc := "GOGC off"
	if now.percent >= 0 {
		gogc = fmt.Sprintf("GOGC %d", now.percent)
	}
	extra := map[string]string{
		"work":   p.work,
		"runs":   fmt.Sprintf("%s recorded, each beside one that was not, after 2 to warm up", plural(len(p.Seconds), "iteration")),
		"caches": cacheNames(h),
		"build":  build(),
		"gc":     fmt.Sprintf("%s, %s; %s and %v of pauses during the iterations", gogc, limit, plural(int(now.cycles-p.gc.cycles), "collection"), now.pause-p.gc.pause),
		"shape":  fmt.Sprintf("%s, %d layers, width %d, %d heads, %d positions, %s on disk", c.Arch, c.Layers, c.Dim, c.Heads, c.MaxSeq, bytes(float64(c.BytesOnDisk))),
	}
	if len(p.Allocators) > 0 {
		extra["go heap"] = fmt.Sprintf("the most by %s: %s an iteration", p.Allocators[0].Func, bytes(p.Allocators[0].Bytes))
	} else {
		extra["go heap"] = "nothing was allocated"
	}
	if p.Note != "" {
		extra["tokens"] = p.Note
	}
	rec.SetFacts(profile.Facts{CPU: h.Brand, Tier: isa.Active().String(), Threads: s.Threads, Device: "cpu", Model: s.name,
		Params: c.ParamCount, Precision: string(s.precision()), Extra: extra})
}

// build is what the binary knows about itself.
func build() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return runtime.Version()
	}
	parts := []string{strings.TrimSpace(info.Main.Path + " " + info.Main.Version), runtime.Version()}
	for _, v := range info.Settings {
		if slices.Contains([]string{"vcs.revision", "vcs.time", "vcs.modified", "-tags", "GOAMD64", "CGO_ENABLED"}, v.Key) && v.Value != "" {
			parts = append(parts, v.Key+"="+v.Value)
		}
	}
	return strings.Join(parts, ", ")
}
