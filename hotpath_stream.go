package hotpath

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"hotpath/internal/engine"
	"hotpath/internal/tokenizer"
	"hotpath/profile"
)

// Embedding is one answer of EmbedStream.
type Embedding struct {
	Index     int       // of the text, from 0
	Vector    []float32 // the caller's to keep
	Tokens    int       // after the text was cut; of all its chunks
	Chunks    int       // that it was split into; 1 where it was not
	Truncated bool      // the text was too long and was cut
	// Ready is how many answers follow without waiting. Whoever writes them on
	// to somebody who waits flushes at 0.
	Ready int
}

// EmbedStream embeds any number of texts in bounded memory. One answer a text
// comes in the order of texts; while the model works on some, the next are
// tokenized on all threads. Nothing waits for more texts than there are: the
// model gets what has arrived whenever it is free.
//
// An error beside a text, from texts itself or because the text is too long,
// takes the place of its answer, and the stream goes on. Errors of ctx and of
// the model end it.
//
// texts runs on a goroutine of its own and is left at the latest when its next
// text comes. A source that can block for long should end with ctx: EmbedStream
// returns after it.
func (m *Model) EmbedStream(ctx context.Context, texts iter.Seq2[string, error], o EmbedOptions) iter.Seq2[Embedding, error] {
	return func(yield func(Embedding, error) bool) {
		err := m.ready(ctx)
		var p embedPlan
		if err == nil {
			p, err = m.embedPlan(o)
		}
		if err != nil {
			yield(Embedding{}, err)
			return
		}
		ctx, cancel := context.WithCancelCause(m.recorded(ctx))
		s := &stream{model: m, plan: &p, window: streamTokens, answers: make(chan []answered, 1), left: make(chan struct{})}
		s.room.L, s.raw.L, s.ready.L = &s.mu, &s.mu, &s.mu
		defer context.AfterFunc(ctx, s.stop)()
		var work sync.WaitGroup
		work.Go(func() { s.pull(texts) })
		for range m.eng.Options().Workers {
			work.Go(func() { s.tokenize(ctx) })
		}
		work.Go(func() { s.compute(ctx) })
		defer work.Wait()
		defer s.stop()
		defer close(s.left)
		defer cancel(nil)
		for batch := range s.answers {
			for i, a := range batch {
				a.Ready = len(batch) - 1 - i
				if !yield(a.Embedding, a.err) || a.last {
					return
				}
			}
		}
	}
}

// Bounds of a stream. What waits is at most two windows of texts.
const (
	streamTexts  = 4096            // of one window
	streamTokens = 32 << 10        // of the first window; later ones take about windowTime
	windowTime   = 1.0             // seconds: workers wait for each other at the end of a window
	leastTokens  = 4 << 10         // of a window
	mostTokens   = 128 << 10       // of a window
	streamBytes  = 4 << 20         // of texts that wait
	blockTexts   = 64              // that one worker tokenizes at a time
	blockBytes   = 16 << 10        // the same in bytes
	streamQueue  = 2 * streamTexts // texts that wait
)

// stream is texts on their way: pull appends them to blocks, workers tokenize
// whole blocks in any order, compute takes those in front that are done.
type stream struct {
	model   *Model
	plan    *embedPlan
	answers chan []answered
	left    chan struct{} // closed when nobody reads answers any more

	mu     sync.Mutex
	room   sync.Cond // pull: there is room
	raw    sync.Cond // workers: there is a block to tokenize, or none will come
	ready  sync.Cond // compute: the first block is tokenized, or none will come
	blocks []*block  // in order of texts
	next   int       // the first of them that nobody tokenizes or has
	spare  []*block
	texts  int // in blocks
	bytes  int
	ended  bool // no text will come
	err    error
	gone   bool // nobody wants answers
	window int  // tokens of the next one
}

// block is some texts that follow each other.
type block struct {
	textBatch
	first  int // index of the first text
	bodies []string
	errs   []error // of each text; what failed has no tokens
	bytes  int
	tokens int
	done   bool
}

// answered is an answer or an error in its place.
type answered struct {
	Embedding
	err  error
	last bool // the error ends the stream
}

func (s *stream) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	s.room.Broadcast()
	s.raw.Broadcast()
	s.ready.Broadcast()
}

// pull runs the source of texts.
func (s *stream) pull(texts iter.Seq2[string, error]) {
	var err error
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended, s.err = true, err
		s.raw.Broadcast()
		s.ready.Broadcast()
	}()
	defer engine.Guard(&err)
	n := 0
	for text, failed := range texts {
		if !s.append(n, text, failed) {
			return
		}
		n++
	}
}

// append puts a text into the last block, and reports false when nobody wants
// it any more.
func (s *stream) append(n int, text string, failed error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.gone && s.texts > 0 && (s.texts >= streamQueue || s.bytes+len(text) > streamBytes) {
		s.room.Wait()
	}
	if s.gone {
		return false
	}
	var b *block
	if s.next < len(s.blocks) {
		b = s.blocks[len(s.blocks)-1]
	}
	if b == nil || len(b.bodies) == blockTexts || b.bytes+len(text) > blockBytes {
		b = s.newBlock(n)
		s.blocks = append(s.blocks, b)
	}
	b.bodies, b.errs = append(b.bodies, text), append(b.errs, failed)
	b.bytes += len(text)
	s.texts++
	s.bytes += len(text)
	s.raw.Signal()
	return true
}

func (s *stream) newBlock(first int) *block {
	if n := len(s.spare); n > 0 {
		b := s.spare[n-1]
		s.spare = s.spare[:n-1]
		b.reset()
		clear(b.bodies)
		*b = block{textBatch: b.textBatch, first: first, bodies: b.bodies[:0], errs: b.errs[:0]}
		return b
	}
	return &block{first: first}
}

// tokenize is one worker.
func (s *stream) tokenize(ctx context.Context) {
	var scratch tokenizer.Scratch
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		for !s.gone && !s.ended && s.next == len(s.blocks) {
			s.raw.Wait()
		}
		if s.gone || s.next == len(s.blocks) {
			return
		}
		b := s.blocks[s.next]
		s.next++
		s.mu.Unlock()
		_, end := profile.Scope(ctx, "tokenize")
		b.tokenize(ctx, s.plan, &scratch)
		end()
		s.mu.Lock()
		b.done = true
		if b == s.blocks[0] {
			s.ready.Signal()
		}
	}
}

func (b *block) tokenize(ctx context.Context, p *embedPlan, scratch *tokenizer.Scratch) {
	for i, text := range b.bodies {
		if b.errs[i] == nil {
			b.errs[i] = b.try(ctx, p, b.first+i, text, scratch)
		}
		if b.errs[i] != nil {
			b.texts = append(b.texts, tokenized{first: len(b.pieces)})
		}
	}
	b.tokens = len(b.ids)
	b.sequences()
}

// try is add, a panic being an error of the text alone.
func (b *block) try(ctx context.Context, p *embedPlan, index int, text string, s *tokenizer.Scratch) (err error) {
	ids, pieces, texts := len(b.ids), len(b.pieces), len(b.texts)
	defer func() {
		if err != nil {
			b.ids, b.pieces, b.texts = b.ids[:ids], b.pieces[:pieces], b.texts[:texts]
		}
	}()
	defer engine.Guard(&err)
	return b.addText(ctx, p, index, text, s)
}

// take waits for tokenized blocks, as many as a window holds; none at the end.
func (s *stream) take(ctx context.Context, into []*block) ([]*block, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.gone && (len(s.blocks) == 0 || !s.blocks[0].done) && !(s.ended && len(s.blocks) == 0) {
		s.ready.Wait()
	}
	if s.gone {
		return nil, context.Cause(ctx)
	}
	if len(s.blocks) == 0 {
		return nil, s.err
	}
	tokens, texts, n := 0, 0, 0
	for _, b := range s.blocks {
		if !b.done || n > 0 && (tokens+b.tokens > s.window || texts+len(b.bodies) > streamTexts) {
			break
		}
		into = append(into, b)
		tokens += b.tokens
		texts += len(b.bodies)
		s.bytes -= b.bytes
		n++
	}
	s.texts -= texts
	s.next -= n
	s.blocks = append(s.blocks[:0], s.blocks[n:]...)
	s.room.Signal()
	return into, nil
}

// compute runs windows until the texts end.
func (s *stream) compute(ctx context.Context) {
	defer close(s.answers)
	w := window{plan: s.plan}
	texts := 0
	for {
		var err error
		if w.blocks, err = s.take(ctx, w.blocks[:0]); err == nil && len(w.blocks) == 0 {
			return
		}
		var out []answered
		if err == nil {
			start := time.Now()
			out, err = w.embedBlocks(ctx, s.model)
			s.release(&w, time.Since(start).Seconds())
		}
		if err != nil {
			out = append(out, answered{Embedding: Embedding{Index: texts + len(out)}, err: err, last: true})
		}
		select {
		case s.answers <- out:
		case <-s.left:
			return
		}
		if err != nil {
			return
		}
		texts += len(out)
	}
}

// release takes blocks back, and fits the size of the next window to the time
// that this one took.
func (s *stream) release(w *window, seconds float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spare = append(s.spare, w.blocks...)
	if n := len(w.seqs); n > 0 && w.tokens >= leastTokens {
		s.window = min(max(int(float64(w.tokens)*windowTime/seconds), leastTokens), mostTokens)
	}
}

// ends tells errors that end a stream from those of one text.
func ends(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, ErrClosed) || errors.Is(err, ErrUnsupported)
}
