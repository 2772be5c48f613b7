package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"hotpath/internal/engine"
)

// Ways of one engine to share a batch are closer to each other than a machine
// whose speed changes within seconds is to itself. So they are no processes that
// take turns of a second: one process with one model goes from way to way call
// by call, each batch is run every way, and the ratio of a turn is that of calls
// which followed one another. A way that is there twice shows what is left of
// the noise.

// turn is what one way did in a request.
type turn struct {
	Amount  []float64 `json:"amount"`
	Seconds []float64 `json:"seconds"`
	Ran     ran       `json:"ran"`
}

// ran is how calls were run, by the engine's own count.
type ran struct {
	Fine   int `json:"fine"`   // threads shared steps
	Coarse int `json:"coarse"` // threads had texts of their own
	One    int `json:"one"`    // one thread did it all
}

func (r *ran) add(o ran) { r.Fine, r.Coarse, r.One = r.Fine+o.Fine, r.Coarse+o.Coarse, r.One+o.One }

// String says which part of the calls ran how.
func (r ran) String() string {
	all := r.Fine + r.Coarse + r.One
	var parts []string
	for _, p := range []struct {
		n    int
		name string
	}{{r.Fine, "fine"}, {r.Coarse, "coarse"}, {r.One, "one thread"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%.0f %% %s", 100*float64(p.n)/float64(all), p.name))
		}
	}
	return strings.Join(parts, ", ")
}

// ways runs every batch each way, beginning with another one each time and going
// back and forth. The first batch warms up.
func (w *hotpathWorker) ways(q request, a *answer) error {
	modes := make([]engine.Mode, len(q.Ways))
	for i, name := range q.Ways {
		m, err := engine.ParseMode(name)
		if err != nil {
			return err
		}
		modes[i] = m
	}
	a.Turns = make([]turn, len(modes))
	for k, batch := range q.Batches {
		for j := range modes {
			i := (j + k) % len(modes)
			if k/len(modes)%2 == 1 {
				i = len(modes) - 1 - i
			}
			w.eng.SetParallel(modes[i])
			before := w.eng.Stats()
			amount, seconds, err := w.embedBatch(batch)
			if err != nil {
				return err
			}
			if k == 0 {
				continue
			}
			t, s := &a.Turns[i], w.eng.Stats()
			t.Amount, t.Seconds = append(t.Amount, amount), append(t.Seconds, seconds)
			switch {
			case s.FineRuns > before.FineRuns:
				t.Ran.Fine++
			case s.CoarseRuns > before.CoarseRuns+1:
				t.Ran.Coarse++
			default:
				t.Ran.One++
			}
		}
	}
	return nil
}

// together gives all ways a turn at every work, in one request each.
func (b bench) together(ctx context.Context, g Group, src *source, entries []*entry) error {
	for i, work := range g.Works {
		q := request{Op: work.Op}
		for range 1 + work.Reps {
			q.Batches = append(q.Batches, src.batch(work))
		}
		var asked []*entry
		for _, e := range entries {
			if e.rows[i].Problem == "" {
				asked, q.Ways = append(asked, e), append(q.Ways, e.runner.Way)
			}
		}
		if len(asked) == 0 {
			continue
		}
		time.Sleep(settle)
		a, err := asked[0].w.ask(ctx, q)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil && len(a.Turns) != len(asked) {
			err = fmt.Errorf("%d turns, expected %d", len(a.Turns), len(asked))
		}
		for k, e := range asked {
			row, err := e.rows[i], err
			if err == nil {
				row.Ran.add(a.Turns[k].Ran)
				err = row.add(answer{Amount: a.Turns[k].Amount, Seconds: a.Turns[k].Seconds})
			}
			if err != nil {
				row.Problem, row.Samples = err.Error(), nil
			}
		}
	}
	return nil
}

// sharing finds an entry whose process a runner can use: of the same command,
// where both are ways of it.
func sharing(r Runner, entries []*entry) *entry {
	for _, e := range entries {
		if r.Way != "" && e.runner.Way != "" && slices.Equal(r.Argv, e.runner.Argv) && slices.Equal(r.Env, e.runner.Env) {
			return e
		}
	}
	return nil
}
