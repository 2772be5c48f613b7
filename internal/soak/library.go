package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"hotpath"
	"hotpath/profile"
)

// library is the part that calls package hotpath.
type library struct {
	s        *settings
	f        *findings
	subjects []*subject
	live     []live // one for each subject
	broken   string // a model whose file ends too early
	calls    atomic.Int64
	cut      atomic.Int64
}

// live is an open model. Whoever replaces it closes it, whatever it is doing.
type live struct {
	mu        sync.Mutex
	model     *hotpath.Model
	invariant bool
}

func newLibrary(s *settings, f *findings) (*library, error) {
	subjects, err := newSubjects(s)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(s.root, "internal/testmodels/testdata/gguf/llama-q8_0.gguf"))
	if err != nil {
		return nil, err
	}
	broken := filepath.Join(os.Getenv("HOTPATH_CACHE"), "broken.gguf")
	if err := os.WriteFile(broken, data[:len(data)*2/3], 0o600); err != nil {
		return nil, err
	}
	return &library{s: s, f: f, subjects: subjects, live: make([]live, len(subjects)), broken: broken}, nil
}

// round calls from many goroutines for a while and closes everything.
func (l *library) round(ctx context.Context, round int) {
	ctx, cancel := context.WithTimeout(ctx, l.s.round)
	defer cancel()
	var all sync.WaitGroup
	for w := range l.s.workers {
		random := rand.New(rand.NewPCG(l.s.seed, uint64(round*l.s.workers+w)))
		all.Go(func() {
			for ctx.Err() == nil {
				l.call(random)
			}
		})
	}
	all.Wait()
	for i := range l.live {
		one := &l.live[i]
		one.mu.Lock()
		if one.model != nil {
			l.check(l.subjects[i], "Close", one.model.Close())
		}
		one.model = nil
		one.mu.Unlock()
	}
}

// kinds are the calls, as often as they stand here.
var kinds = []func(*library, *call){
	(*library).embed, (*library).embed, (*library).embed, (*library).stream, (*library).stream, (*library).generate, (*library).generate, (*library).generate,
	(*library).score, (*library).score, (*library).rerank, (*library).rerank, (*library).tokenize, (*library).wrong, (*library).wrong, (*library).reopen, (*library).digest,
}

// call is one random call.
type call struct {
	*subject
	model     *hotpath.Model
	invariant bool
	ctx       context.Context
	random    *rand.Rand
	texts     []int // indices
}

func (l *library) call(random *rand.Rand) {
	at := random.IntN(len(l.subjects))
	kind := kinds[random.IntN(len(kinds))]
	c := &call{subject: l.subjects[at], random: random, ctx: context.Background()}
	one := &l.live[at]
	one.mu.Lock()
	if one.model == nil || random.IntN(60) == 0 {
		old := one.model
		one.invariant = random.IntN(3) > 0
		o := c.options(one.invariant)
		if random.IntN(5) == 0 {
			o.Profile = profile.NewRecorder(profile.Options{})
		}
		o.Parallel = []string{"auto", "fine", "coarse"}[random.IntN(3)]
		m, err := hotpath.Open(c.path, o)
		l.check(c.subject, "Open", err)
		one.model = m
		if old != nil { // under calls that are at work
			go func() { l.check(c.subject, "Close", old.Close()) }()
		}
	}
	c.model, c.invariant = one.model, one.invariant
	one.mu.Unlock()
	if c.model == nil {
		return
	}
	for range 1 + random.IntN(6) {
		c.texts = append(c.texts, random.IntN(len(texts)))
	}
	if random.IntN(3) == 0 { // cut short
		ctx, cancel := context.WithTimeout(c.ctx, time.Duration(random.Int64N(int64(4*time.Millisecond))))
		defer cancel()
		c.ctx = ctx
	}
	l.calls.Add(1)
	kind(l, c)
}

func (c *call) inputs() (out []string) {
	for _, i := range c.texts {
		out = append(out, texts[i])
	}
	return out
}

// ended reports whether a call was cut short, and takes note of any other
// error.
func (l *library) ended(c *call, what string, err error) bool {
	if err == nil {
		return false
	}
	cut := c.ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded)
	if cut || errors.Is(err, hotpath.ErrClosed) {
		l.cut.Add(1)
		return true
	}
	l.f.addFinding(what+" failed", fmt.Sprintf("%s, %d texts: %v", c.name, len(c.texts), err))
	return true
}

func (l *library) check(s *subject, what string, err error) {
	if err != nil {
		l.f.addFinding(what+" failed", fmt.Sprintf("%s: %v", s.name, err))
	}
}

// differs takes note of an answer that is not the known one.
func (l *library) differs(c *call, what string, text int, err error) {
	if err != nil {
		l.f.addFinding(fmt.Sprintf("%s of %s has another answer (invariant %t)", what, c.name, c.invariant), fmt.Sprintf("text %d: %v", text, err))
	}
}

func (l *library) embed(c *call) {
	if !c.info.CanEmbed {
		return
	}
	vs, err := c.model.Embed(c.ctx, c.inputs(), hotpath.EmbedOptions{})
	if l.ended(c, "Embed", err) {
		return
	}
	for k, i := range c.texts {
		l.differs(c, "Embed", i, sameVector(vs[k], c.vectors[i], c.invariant))
	}
}

// stream leaves now and then before the end.
func (l *library) stream(c *call) {
	if !c.info.CanEmbed {
		return
	}
	leave := -1
	if c.random.IntN(3) == 0 {
		leave = c.random.IntN(len(c.texts))
	}
	k := 0
	for v, err := range c.model.EmbedStream(c.ctx, func(yield func(string, error) bool) {
		for _, text := range c.inputs() {
			if !yield(text, nil) {
				return
			}
		}
	}, hotpath.EmbedOptions{}) {
		if l.ended(c, "EmbedStream", err) || k == leave {
			return
		}
		l.differs(c, "EmbedStream", c.texts[k], sameVector(v.Vector, c.vectors[c.texts[k]], c.invariant))
		k++
	}
	if k != len(c.texts) && c.ctx.Err() == nil {
		l.f.addFinding("EmbedStream ended early", fmt.Sprintf("%s: %d of %d answers", c.name, k, len(c.texts)))
	}
}

func (l *library) generate(c *call) {
	if !c.info.CanGenerate || !c.prompt(c.texts[0]) {
		return
	}
	i, drawn := c.texts[0], c.random.IntN(2) == 0
	want := c.greedy[i]
	if drawn {
		want = c.drawn[i]
	}
	leave := -1
	if c.random.IntN(4) == 0 {
		leave = c.random.IntN(answerTokens)
	}
	var got []int32
	for tok, err := range c.model.Generate(c.ctx, texts[i], generation(drawn)) {
		if l.ended(c, "Generate", err) {
			return
		}
		if tok.ID >= 0 {
			got = append(got, tok.ID)
		}
		if len(got) == leave {
			return
		}
	}
	if c.invariant && !slices.Equal(got, want) {
		l.differs(c, "Generate", i, fmt.Errorf("%v, expected %v (drawn %t)", got, want, drawn))
	}
}

func (l *library) score(c *call) {
	if !c.info.CanGenerate {
		return
	}
	c.texts = slices.DeleteFunc(c.texts, func(i int) bool { return !c.prompt(i) })
	if len(c.texts) == 0 {
		return
	}
	scores, err := c.model.Score(c.ctx, c.inputs(), hotpath.ScoreOptions{})
	if l.ended(c, "Score", err) {
		return
	}
	for k, i := range c.texts {
		l.differs(c, "Score", i, sameNumbers(scores[k].NLL, c.scores[i].NLL, c.invariant))
	}
}

func (l *library) rerank(c *call) {
	if !c.info.CanRerank {
		return
	}
	got := make([]float32, len(c.texts))
	err := c.model.RerankInto(c.ctx, got, texts[0], c.inputs(), hotpath.RerankOptions{})
	if l.ended(c, "Rerank", err) {
		return
	}
	for k, i := range c.texts {
		l.differs(c, "Rerank", i, sameNumbers(got[k:k+1], c.ranks[i:i+1], c.invariant))
	}
}

func (l *library) tokenize(c *call) {
	all, err := c.model.TokenizeAllContext(c.ctx, c.inputs(), false)
	if l.ended(c, "Tokenize", err) {
		return
	}
	for k, i := range c.texts {
		if !slices.Equal(all[k], c.ids[i]) {
			l.differs(c, "Tokenize", i, fmt.Errorf("%v, expected %v", all[k], c.ids[i]))
		}
	}
}

func (l *library) digest(c *call) {
	if c.random.IntN(4) > 0 { // it reads every byte
		return
	}
	d, err := c.model.Digest(c.ctx)
	if !l.ended(c, "Digest", err) && len(d) != 64 {
		l.f.addFinding("Digest is none", fmt.Sprintf("%s: %q", c.name, d))
	}
}

// reopen opens a model of its own, uses it or not, and closes it twice.
func (l *library) reopen(c *call) {
	m, err := hotpath.OpenContext(c.ctx, c.path, c.options(true))
	if l.ended(c, "OpenContext", err) {
		return
	}
	if c.random.IntN(2) == 0 {
		own := *c
		own.model, own.invariant = m, true
		l.embed(&own)
		l.score(&own)
	}
	l.check(c.subject, "Close", m.Close())
	l.check(c.subject, "Close again", m.Close())
	if _, err := m.Embed(context.Background(), []string{"late"}, hotpath.EmbedOptions{}); c.info.CanEmbed && !errors.Is(err, hotpath.ErrClosed) {
		l.f.addFinding("Embed after Close", fmt.Sprintf("%s: %v, expected ErrClosed", c.name, err))
	}
}

// wrong makes a mistake and expects to be told.
func (l *library) wrong(c *call) {
	ctx := context.Background()
	var err, want error
	switch c.random.IntN(7) {
	case 0:
		_, err = hotpath.Open(filepath.Join(l.s.root, "no such model"), hotpath.Options{})
		want = fs.ErrNotExist
	case 1:
		_, err = hotpath.Open(l.broken, hotpath.Options{})
		want = hotpath.ErrTruncated
	case 2:
		_, err = hotpath.Open(c.path, hotpath.Options{Precision: "f8"})
		want = hotpath.ErrInput
	case 3:
		_, err = hotpath.Open(c.path, hotpath.Options{Threads: -1})
		want = hotpath.ErrInput
	case 4:
		if !c.info.CanEmbed {
			return
		}
		_, err = c.model.Embed(ctx, c.inputs(), hotpath.EmbedOptions{Dim: 1 << 20})
		want = hotpath.ErrInput
	case 5:
		if !c.info.CanGenerate || c.info.CanEmbed {
			return
		}
		_, err = c.model.Embed(ctx, c.inputs(), hotpath.EmbedOptions{})
		want = hotpath.ErrUnsupported
	case 6:
		if c.info.CanGenerate {
			_, err = c.model.Score(ctx, []string{strings.Repeat("long ", 5000)}, hotpath.ScoreOptions{})
			want = hotpath.ErrTooLong
		} else {
			_, err = c.model.Complete(ctx, "text", hotpath.GenerateOptions{})
			want = hotpath.ErrUnsupported
		}
	}
	if errors.Is(err, hotpath.ErrClosed) {
		l.cut.Add(1)
		return
	}
	if !errors.Is(err, want) || strings.Contains(err.Error(), "panic") {
		l.f.addFinding(fmt.Sprintf("a mistake is not %v", want), fmt.Sprintf("%s: %v", c.name, err))
	}
}
