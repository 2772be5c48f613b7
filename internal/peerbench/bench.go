package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"hotpath/internal/experiment"
)

// bench runs groups.
type bench struct {
	cores  string
	rounds int
}

// entry is a runner in a running group.
type entry struct {
	runner Runner
	w      *worker // nil: it could not be started
	err    error
	rows   []*Row // of each work
}

// measure runs one group. Its error is of the machinery or the context; what
// is wrong with an engine is in its rows.
func (b bench) measure(ctx context.Context, g Group) (*Result, error) {
	began := time.Now()
	src, err := g.Inputs.open()
	if err != nil {
		return nil, err
	}
	var entries []*entry
	var workers []*worker
	defer func() {
		for _, w := range workers {
			w.close()
		}
	}()
	out := &Result{Name: g.Name, Title: g.Title, Note: g.Note, Lead: g.Lead, Curve: g.Curve}
	for _, r := range g.Runners {
		e := &entry{runner: r}
		if same := sharing(r, entries); same != nil {
			e.w, e.err = same.w, same.err
		} else if e.w, e.err = start(ctx, r, b.cores); e.err == nil {
			workers = append(workers, e.w)
			out.addVersion(e.w.hello)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		for _, work := range g.Works {
			e.rows = append(e.rows, newRow(work, r, e.err))
		}
		entries = append(entries, e)
	}
	if err := b.check(ctx, g, src, entries); err != nil {
		return nil, err
	}
	for round := range b.rounds {
		var err error
		if g.Paired {
			err = b.together(ctx, g, src, entries)
		} else {
			err = b.round(ctx, g, src, round, entries, workers)
		}
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(os.Stderr, "%s: round %d of %d, %.0f s\n", g.Name, round+1, b.rounds, time.Since(began).Seconds())
	}
	for i := range g.Works {
		for _, e := range entries {
			out.Rows = append(out.Rows, e.rows[i])
		}
	}
	for _, e := range entries {
		if e.w != nil && e.w.watched > 0 {
			out.Idle = append(out.Idle, Idle{Runner: e.runner.Name, Share: e.w.idle.Seconds() / e.w.watched.Seconds()})
		}
	}
	out.finish(g)
	return out, nil
}

// check holds all answers against the reference, which then leaves the
// machine to the others.
func (b bench) check(ctx context.Context, g Group, src *source, entries []*entry) error {
	if g.Reference.Argv == nil {
		return nil
	}
	ref, err := start(ctx, g.Reference, b.cores)
	if err != nil {
		return fmt.Errorf("the reference (did scripts/peers/setup.sh finish?): %w", err)
	}
	defer ref.close()
	for i, work := range g.Works {
		batch := src.batch(work)
		j := judge{ref: ref, work: work, batch: batch}
		for _, e := range entries {
			if e.w == nil || e.runner.Op != "" {
				continue
			}
			a, wrong, err := j.hold(ctx, e.w, e.runner)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			e.rows[i].Agreement = a
			if err != nil {
				e.rows[i].Problem = err.Error()
			} else if wrong {
				e.rows[i].Problem = "wrong: " + a
			}
		}
	}
	return nil
}

// round gives every engine a turn at every work, in the order of experiment.Place,
// each with the same texts.
func (b bench) round(ctx context.Context, g Group, src *source, round int, entries []*entry, workers []*worker) error {
	for i, work := range g.Works {
		q := request{Op: work.Op, Steps: work.Steps, Skip: work.Skip}
		for range 1 + work.Reps { // the first warms up
			q.Batches = append(q.Batches, src.batch(work))
		}
		for k := range entries {
			e := entries[experiment.Place(round, k, len(entries))]
			row := e.rows[i]
			if row.Problem != "" {
				continue
			}
			mine := q
			if e.runner.Op != "" {
				mine.Op = e.runner.Op
			}
			time.Sleep(settle)
			done := watch(workers, e.w)
			a, err := e.w.ask(ctx, mine)
			done()
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err == nil {
				err = row.addAnswer(a)
			}
			if err != nil {
				row.Problem, row.Samples = err.Error(), nil
			}
		}
	}
	return nil
}
