package main

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"hotpath"
)

// answersAhead is how many prompts are read before the answers to those in front
// of them are written. The engine decides how many of them are in a step.
const answersAhead = 256

// generating is a prompt and the answer that comes to it.
type generating struct {
	text
	queued chan struct{}      // closed when the engine has it
	tokens chan hotpath.Token // closed at the end; answer and err are valid then
	answer hotpath.Completion
	err    error
}

// eachAnswer generates for prompts as they are read, many at once. do gets them
// in input order, each of them while its tokens come. What do leaves of the
// tokens stops nobody.
//
// The engine gets prompts in input order too. Those of a regular file wait until
// answersAhead of them, or all, are there. So steps are composed in the same way in
// every run, and equal seeds give equal answers. Prompts after these join when a place
// is free, which depends on the time.
func eachAnswer(ctx context.Context, m *hotpath.Model, in *texts, o hotpath.GenerateOptions, do func(*generating) error) error {
	in.progress.begin()
	defer in.progress.finish()
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()

	queue := make(chan *generating, answersAhead)
	room := semaphore.NewWeighted(maxAhead) // bytes of prompts under way; one may be longer
	bytes := func(t *text) int64 { return min(t.weight(), maxAhead) }
	begin := func() {}
	if !in.eager {
		begin = m.HoldGenerations()
	}
	running.Go(func() {
		defer close(queue)
		defer begin()
		for t := range in.each(ctx) {
			g := &generating{text: t, tokens: make(chan hotpath.Token, 64), queued: make(chan struct{}), err: t.err}
			if !room.TryAcquire(bytes(&g.text)) {
				begin() // those before it have to end
				if room.Acquire(ctx, bytes(&g.text)) != nil {
					return
				}
			}
			if len(queue) == cap(queue) {
				begin()
			}
			select {
			case queue <- g:
			case <-ctx.Done():
				return
			}
			if g.err != nil {
				close(g.tokens)
				continue
			}
			running.Go(func() { g.generateAll(ctx, m, o) })
			<-g.queued
		}
	})
	for g := range queue {
		if err := do(g); err != nil {
			return err
		}
		room.Release(bytes(&g.text))
		in.progress.addDone(g.size, g.answer.CompletionTokens)
		in.progress.show()
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return in.ended()
}

// generateAll generates to the end of the answer.
func (g *generating) generateAll(ctx context.Context, m *hotpath.Model, o hotpath.GenerateOptions) {
	defer close(g.tokens)
	queued := sync.OnceFunc(func() { close(g.queued) })
	defer queued()
	o.Completion, o.Queued = &g.answer, queued
	for tok, err := range m.Generate(ctx, g.body, o) {
		if err != nil {
			g.err = err
			return
		}
		select {
		case g.tokens <- tok:
		case <-ctx.Done():
		}
	}
}
