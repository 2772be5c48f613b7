package bench

import (
	"context"
	"errors"
	"slices"
	"time"

	"hotpath/internal/engine"
	"hotpath/internal/model"
	"hotpath/internal/stats"
)

const (
	// leastCancels is how many calls a sample cancels, however short its time is.
	leastCancels = 20
	// mostMissed are the calls that may be complete before their time has come,
	// as short ones are on a busy machine, until it takes what it has.
	mostMissed = 100 * leastCancels
)

// cancelCases cancel calls at moments all over their length, and tell how long
// each took to return from then on.
func cancelCases(e *Env) []*Case {
	h := e.model
	c := h.model.Config()
	var out []*Case
	how := model.EmbedOptions{Pooling: c.Pooling, Normalize: true}
	for _, z := range [][2]int{{8, 16}, {32, 128}, {1, 256}, {1, 512}} {
		seqs, length := z[0], z[1]
		if !c.CanEmbed || length > c.MaxSeq {
			continue
		}
		e.cancelled(&out, func(ctx context.Context, eng *engine.Engine) error {
			return eng.EmbedIDs(ctx, h.texts(seqs, length), make([]float32, seqs*c.EmbedDim), how)
		}, "Cancel/call=embed/model=%s/precision=%s/batch=%d/len=%d", h.name, e.precision(), seqs, length)
	}
	if !c.CanGenerate || c.MaxSeq <= 512 {
		return out
	}
	e.cancelled(&out, func(ctx context.Context, eng *engine.Engine) error {
		_, err := generate(ctx, eng, h.texts(1, 512), 1)
		return err
	}, "Cancel/call=prefill/model=%s/precision=%s/len=512", h.name, e.precision())
	e.cancelled(&out, func(ctx context.Context, eng *engine.Engine) error {
		_, err := eng.ScoreIDs(ctx, h.texts(1, 512))
		return err
	}, "Cancel/call=score/model=%s/precision=%s/len=512", h.name, e.precision())
	return out
}

// cancelled makes a case for each number of workers of a call that is cut short.
func (e *Env) cancelled(out *[]*Case, call func(ctx context.Context, eng *engine.Engine) error, format string, args ...any) {
	e.models(out, func(ctx context.Context, eng *engine.Engine) (*Work, error) {
		return &Work{Rates: func() ([]Value, error) {
			return cancelTimes(ctx, e.Time, func(ctx context.Context) error { return call(ctx, eng) })
		}}, nil
	}, format, args...)
}

// cancelTimes cancels a call again and again for d.
func cancelTimes(ctx context.Context, d time.Duration, call func(context.Context) error) ([]Value, error) {
	if err := call(ctx); err != nil { // packs weights
		return nil, err
	}
	start := time.Now()
	if err := call(ctx); err != nil {
		return nil, err
	}
	whole := time.Since(start)
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	var took []float64 // in ms
	for i := 0; time.Since(start) < d || len(took) < leastCancels && i-len(took) < mostMissed; i++ {
		// The golden ratio spreads the moments evenly, however many there will be.
		part := float64(i) * 0.6180339887
		wait := time.Duration((part - float64(int(part))) * float64(whole))
		inner, cancel := context.WithCancel(ctx)
		var at time.Time // written before the call returns with the error
		timer := time.AfterFunc(wait, func() {
			at = time.Now()
			cancel()
		})
		began := time.Now()
		err := call(inner)
		end := time.Now()
		timer.Stop()
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, context.Canceled):
			took = append(took, ms(end.Sub(at)))
		case err != nil:
			return nil, err
		default:
			whole = min(whole, end.Sub(began))
		}
	}
	if len(took) == 0 {
		return nil, errors.New("every call was complete before it could be cancelled")
	}
	slices.Sort(took)
	return []Value{
		{stats.MedianSorted(took), "p50-ms"}, {stats.Quantile(took, 0.99), "p99-ms"}, {took[len(took)-1], "max-ms"},
		{ms(whole), "whole-ms"}, {float64(len(took)), "calls"},
	}, nil
}
