package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"hotpath/internal/backend/cuda"
	"hotpath/internal/engine"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/sample"
	"hotpath/internal/tensor"
)

// soak calls embed with random shapes, or generates with random cancellations, count
// times. It fails if the driver is asked for memory after the first tenth, or if the
// card has less free memory at the end.
func (b *bench) soak(work string, be plan.Backend, m *model.Model, count int) error {
	card, ok := be.(*cuda.Backend)
	if !ok {
		return fmt.Errorf("expected a card of CUDA, whose driver counts allocations")
	}
	e, err := engine.Open(m, be, engine.Options{KVType: tensor.F16})
	if err != nil {
		return err
	}
	defer e.Close()
	began, rng := time.Now(), rand.New(rand.NewPCG(1, 2))
	call := func() error { return generateSome(e, m, rng) }
	if m.Config().CanEmbed && !m.Config().CanGenerate {
		call = func() error { return embedSome(e, m, rng) }
	}
	var warm, end cuda.Memory
	for i := range count {
		if err := call(); err != nil {
			return fmt.Errorf("call %d: %w", i, err)
		}
		if i == count/10 {
			if warm, err = card.Memory(); err != nil {
				return err
			}
		}
	}
	if end, err = card.Memory(); err != nil {
		return err
	}
	line, err := json.Marshal(map[string]any{"work": work, "calls": count, "allocations_warm": warm.Allocations, "allocations": end.Allocations,
		"free_warm": warm.Free, "free": end.Free, "all_s": time.Since(began).Seconds()})
	if err != nil {
		return err
	}
	fmt.Println(string(line))
	if end.Allocations != warm.Allocations || end.Free < warm.Free {
		return fmt.Errorf("%d allocations and %d free bytes after the first tenth, %d and %d at the end, expected the same", warm.Allocations, warm.Free, end.Allocations, end.Free)
	}
	return nil
}

// embedSome embeds up to 200 texts of random lengths.
func embedSome(e *engine.Engine, m *model.Model, rng *rand.Rand) error {
	c := m.Config()
	texts := make([][]int32, 1+rng.IntN(1+rng.IntN(200)))
	for i := range texts {
		texts[i] = make([]int32, 1+rng.IntN(min(c.MaxSeq, 1+rng.IntN(256))))
		for k := range texts[i] {
			texts[i][k] = int32(rng.IntN(c.Vocab))
		}
	}
	return e.EmbedIDs(context.Background(), texts, make([]float32, len(texts)*c.EmbedDim), model.EmbedOptions{Pooling: c.Pooling, Normalize: true})
}

// generateSome generates up to 8 texts at once; some are cancelled on their way.
func generateSome(e *engine.Engine, m *model.Model, rng *rand.Rand) error {
	c := m.Config()
	type text struct {
		s     *engine.Stream
		until int
		stop  context.CancelFunc
	}
	var texts []text
	for range 1 + rng.IntN(8) {
		prompt := make([]int32, 1+rng.IntN(200))
		for k := range prompt {
			prompt[k] = int32(rng.IntN(c.Vocab))
		}
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		s, err := e.Generate(ctx, engine.Request{Prompt: prompt, MaxTokens: 1 + rng.IntN(60), Sample: sample.Params{Temperature: float32(rng.IntN(2)), Seed: rng.Uint64()}})
		if err != nil {
			return err
		}
		texts = append(texts, text{s, 1 + rng.IntN(80), stop})
	}
	for _, t := range texts {
		n := 0
		for _, ok := t.s.Next(); ok; _, ok = t.s.Next() {
			if n++; n == t.until {
				t.stop()
			}
		}
		if err := t.s.Err(); err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return nil
}
