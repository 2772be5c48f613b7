package hotpath

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"hotpath/internal/engine"
	"hotpath/internal/sample"
	"hotpath/internal/tokenizer"
	"hotpath/profile"
)

// GenerateOptions say how text is generated. The zero value takes the most
// probable token each time, until the model ends the text or the context is
// full.
type GenerateOptions struct {
	MaxTokens int // 0: until the context is full
	// The most probable tokens are chosen by TopK, TopP and MinP, in this
	// order, and one of them is drawn at the Temperature.
	Temperature float32 // 0 takes the most probable
	TopK        int     // 0 keeps all
	TopP        float32 // 0 or 1 keeps all
	MinP        float32 // 0 keeps all
	Seed        uint64  // equal seeds draw equal tokens from equal logits: see Options.Invariant

	// Penalties make tokens that the text has already, prompt included, less
	// probable, at any temperature.
	RepeatPenalty    float32 // 0.01 to 100: divides positive logits, multiplies negative ones; 0 or 1 for none
	PresencePenalty  float32 // is subtracted from the logit of a token that occurs
	FrequencyPenalty float32 // is subtracted as often as the token occurs
	PenaltyTokens    int     // how many of the last tokens count: 0 for 64, -1 for all

	Stop      []string // strings that end the text; they are not part of it
	IgnoreEOS bool     // go on where the model would end
	Raw       bool     // take the prompt as it is, without the model's chat template

	// Completion, if not nil, is filled while the tokens come and complete
	// when they end.
	Completion *Completion
	// Queued, if not nil, is called when the prompt has its place in the queue, or
	// has failed before that. A program that starts many generations can keep their
	// order by it. If it panics, the generation ends with an ErrInternal.
	Queued func()
}

// Token is a piece of generated text.
type Token struct {
	// ID is the token, or -1 for text at the end that was held back because it
	// could have become a stop string or a longer character.
	ID int32
	// Text is what is certain with this token; often, but not always, the
	// token's own.
	Text string
}

// Completion is a whole generation.
type Completion struct {
	Text             string
	IDs              []int32
	PromptTokens     int
	CachedTokens     int // of the prompt, found in the KV cache
	CompletionTokens int
	FinishReason     string // "stop", "length", or "" where it was cut short
	Timing           Timing
}

// Timing is where the time of a generation went.
type Timing struct {
	Load    time.Duration // opening the model, and compiling for this call
	Queue   time.Duration // waiting for room among others
	Prefill time.Duration // the prompt, up to the first token
	Decode  time.Duration // the other tokens
}

// PrefillRate is prompt tokens a second.
func (c *Completion) PrefillRate() float64 {
	return rate(c.PromptTokens-c.CachedTokens, c.Timing.Prefill)
}

// DecodeRate is tokens a second after the first.
func (c *Completion) DecodeRate() float64 { return rate(c.CompletionTokens-1, c.Timing.Decode) }

func rate(n int, d time.Duration) float64 {
	if n <= 0 || d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// Message is one turn of a conversation.
type Message struct {
	Role    string `json:"role"` // system, user or assistant
	Content string `json:"content"`
}

// Generate continues a prompt, token by token. An instruct model gets it as
// the user's message, unless Raw is set. An error is the last thing that is
// yielded; leaving the loop ends the generation.
func (m *Model) Generate(ctx context.Context, prompt string, o GenerateOptions) iter.Seq2[Token, error] {
	if o.Raw || m.tok == nil || m.tok.ChatTemplate() == "" {
		return m.generate(ctx, o, func() ([]int32, error) { return m.promptIDs(ctx, prompt) })
	}
	return m.Chat(ctx, []Message{{Role: "user", Content: prompt}}, o)
}

// HoldGenerations lets prompts that come from now on wait until release is called.
// Their first step then has all of them, in the order in which they came. So equal
// calls of a model that nobody else uses give equal answers, without
// Options.Invariant too. release must be called before Close; calling it again does
// nothing.
func (m *Model) HoldGenerations() (release func()) {
	if m.eng == nil {
		return func() {}
	}
	return m.eng.HoldGenerations()
}

// Chat answers a conversation through the model's chat template.
func (m *Model) Chat(ctx context.Context, messages []Message, o GenerateOptions) iter.Seq2[Token, error] {
	return m.generate(ctx, o, func() ([]int32, error) {
		text, err := m.chatPrompt(ctx, messages)
		if err != nil {
			return nil, err
		}
		// The template has written the special tokens itself.
		return m.tokenizeOne(ctx, text, false)
	})
}

// Complete is Generate, collected. Beside an error it is what came before it.
func (m *Model) Complete(ctx context.Context, prompt string, o GenerateOptions) (Completion, error) {
	var c Completion
	if o.Completion == nil {
		o.Completion = &c
	}
	var failed error
	for _, err := range m.Generate(ctx, prompt, o) {
		failed = err // the last one that comes; the completion is whole after it
	}
	return *o.Completion, failed
}

// promptIDs are the ids of a raw prompt, at least the one that begins a text.
func (m *Model) promptIDs(ctx context.Context, prompt string) ([]int32, error) {
	ids, err := m.tokenizeOne(ctx, prompt, true)
	if bos, ok := m.tok.BOS(); ok && err == nil && len(ids) == 0 {
		ids = append(ids, bos)
	}
	return ids, err
}

func (m *Model) tokenizeOne(ctx context.Context, text string, special bool) ([]int32, error) {
	all, err := m.TokenizeAllContext(ctx, []string{text}, special)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// generate yields the tokens that follow a prompt.
func (m *Model) generate(ctx context.Context, o GenerateOptions, prompt func() ([]int32, error)) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		g := generation{m: m, out: o.Completion, stops: engine.NewStopWords(o.Stop)}
		if g.out == nil {
			g.out = new(Completion)
		}
		*g.out = Completion{}
		err := g.start(ctx, o, prompt)
		if g.stream != nil {
			defer g.end() // before Queued, which may panic or leave the goroutine
		}
		if failed := o.queued(); failed != nil {
			err = errors.Join(err, failed)
		}
		if err != nil {
			yield(Token{ID: -1}, err)
			return
		}
		g.each(yield)
	}
}

// queued calls Queued. A panic of it is an error.
func (o *GenerateOptions) queued() (err error) {
	defer engine.Guard(&err)
	if o.Queued != nil {
		o.Queued()
	}
	return nil
}

// generation is a stream of tokens on its way to text.
type generation struct {
	m      *Model
	stream *engine.Stream
	decode *tokenizer.Stream
	stops  *engine.StopWords
	text   strings.Builder
	out    *Completion
}

func (g *generation) start(ctx context.Context, o GenerateOptions, prompt func() ([]int32, error)) (err error) {
	defer engine.Guard(&err)
	if err := g.m.ready(ctx); err != nil {
		return err
	}
	called := profile.Now()
	g.decode = g.m.tok.NewStream()
	ctx = g.m.recorded(ctx)
	_, end := profile.Scope(ctx, "tokenize")
	ids, err := prompt()
	end()
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		return fmt.Errorf("%w: the prompt has no tokens", ErrInput)
	}
	req := engine.Request{Prompt: ids, MaxTokens: o.MaxTokens, Sample: sample.Params{
		Temperature: o.Temperature, TopK: o.TopK, TopP: o.TopP, MinP: o.MinP, Seed: o.Seed,
		Penalties: sample.Penalties{Repeat: o.RepeatPenalty, Presence: o.PresencePenalty, Frequency: o.FrequencyPenalty, LastN: o.PenaltyTokens}}}
	if !o.IgnoreEOS {
		req.End = g.m.tok.IsEnd
	}
	begin := profile.Now()
	req.Called, req.Tokenized = called, begin
	if g.stream, err = g.m.eng.Generate(ctx, req); err != nil {
		return err
	}
	g.out.PromptTokens = len(ids)
	g.out.Timing.Load = g.m.load + time.Duration(g.stream.Timing().Queued-begin)
	return nil
}

// each yields until the stream ends, a stop string comes or nobody listens.
func (g *generation) each(yield func(Token, error) bool) {
	for more := true; more; {
		tok, ended, err := g.next()
		if err != nil {
			yield(Token{ID: -1}, err)
			return
		}
		more = !ended
		if (tok.ID >= 0 || tok.Text != "") && !yield(tok, nil) {
			return
		}
	}
	if err := g.stream.Err(); err != nil && g.out.FinishReason == "" { // not stopped by a string before
		yield(Token{ID: -1}, err)
	}
}

// next waits for a token and makes text of it. It reports the end with the last.
func (g *generation) next() (tok Token, ended bool, err error) {
	defer engine.Guard(&err)
	id, ok := g.stream.Next()
	if !ok {
		id = -1
	}
	piece := ""
	if ok {
		piece = g.decode.Push(id)
		g.out.IDs = append(g.out.IDs, id)
	} else {
		piece = g.decode.Flush()
	}
	text, stop := g.stops.Push(piece)
	switch {
	case !ok:
		if !stop {
			text += g.stops.Flush()
		}
		g.out.FinishReason = g.stream.Reason().String()
	case stop:
		g.out.FinishReason = engine.Stop.String()
	}
	g.text.WriteString(text)
	return Token{id, text}, !ok || stop, nil
}

// end closes the books.
func (g *generation) end() {
	g.stream.Stop()
	t, c := g.stream.Timing(), g.out
	if t.End == 0 {
		t.End = profile.Now()
	}
	c.Text, c.CompletionTokens, c.CachedTokens = g.text.String(), len(c.IDs), t.Cached
	c.Timing.Queue = time.Duration(max(0, t.Started-t.Queued))
	if t.FirstToken == 0 {
		t.FirstToken = t.End
	}
	c.Timing.Prefill = time.Duration(max(0, t.FirstToken-max(t.Started, t.Queued)))
	c.Timing.Decode = time.Duration(t.End - t.FirstToken)
}
