package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"hotpath/internal/engine"
	"hotpath/internal/experiment"
	"hotpath/internal/kernel/ceiling"
	"hotpath/internal/sample"
)

// Ways are modes of one engine: how threads share a batch, one thread or two, and
// what a second core gives at most. Their differences are smaller than the drift of
// a machine whose speed changes within seconds. So one process with one model
// alternates between them call by call: each batch is run every way, and the ratio
// of a turn compares calls that followed each other. A way that is listed twice
// shows the noise.
//
// A turn is some calls of each way, and its rate counts all of them: a median of
// calls would leave out the calls that auto spends on exploration.

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
	Both   int `json:"both"`   // one after the other
	One    int `json:"one"`    // one thread did it all
}

func (r *ran) addCounts(o ran) {
	r.Fine, r.Coarse, r.Both, r.One = r.Fine+o.Fine, r.Coarse+o.Coarse, r.Both+o.Both, r.One+o.One
}

// String says which part of the calls ran how.
func (r ran) String() string {
	all := r.Fine + r.Coarse + r.Both + r.One
	var parts []string
	for _, p := range []struct {
		n    int
		name string
	}{{r.Fine, "fine"}, {r.Coarse, "coarse"}, {r.Both, "both"}, {r.One, "one thread"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%.0f %% %s", 100*float64(p.n)/float64(all), p.name))
		}
	}
	return strings.Join(parts, ", ")
}

// how is a way of a worker: a function that runs a batch and says what it did,
// and in which time. One thread is on the cores in turn, by the number of the
// call.
type how func(batch [][]int32, call int) (amount, seconds float64, err error)

// alone is a way of one thread, all of which runs on the caller's.
func alone(h how) how {
	return func(batch [][]int32, call int) (amount, seconds float64, err error) {
		failed := onCore(call, func() { amount, seconds, err = h(batch, call) })
		return amount, seconds, errors.Join(failed, err)
	}
}

// samplings are the ways to choose tokens, by the name of their runner.
var samplings = map[string]sample.Params{
	"greedy":                    {},
	"temperature 0.8, top-k 40": {Temperature: 0.8, TopK: 40, Seed: 1},
	"temperature 0.8":           {Temperature: 0.8, Seed: 1},
	"top-p 0.9":                 {Temperature: 0.8, TopP: 0.9, Seed: 1},
	"min-p 0.05":                {Temperature: 0.8, MinP: 0.05, Seed: 1},
	"penalties, top-k 40":       {Temperature: 0.8, TopK: 40, Seed: 1, Penalties: sample.Penalties{Repeat: 1.1, Frequency: 0.1, Presence: 0.1}},
}

// readFor is how long reads of memory last, so that a short disturbance is a small part.
const readFor = 200 * time.Millisecond

// readsWeights is a backend that can say how fast its packed weights are read.
type readsWeights interface {
	ReadWeights(ctx context.Context, threads, times int, d time.Duration) float64
}

// way finds a way of a request by its name: a sampling; a mode of sharing a batch;
// "threads=1", hotpath on so many threads; "fixed=1", on so many threads that take part in
// every run, on any core; "f32=2", so many threads at what the machine does at most
// in a compute class; "reads=2", so many threads that read the weights, where they lie; or
// "default".
func (w *hotpathWorker) way(name string, q request) (how, error) {
	if p, ok := samplings[name]; ok {
		return func(batch [][]int32, _ int) (float64, float64, error) { return w.decodeBatch(q, p)(batch) }, nil
	}
	work := func(other *hotpathWorker) how {
		run := other.embedBatch
		switch q.Op {
		case "decode":
			run = other.decodeBatch(q, sample.Params{})
		case "prefill":
			run = other.prefillBatch
		}
		return func(batch [][]int32, _ int) (float64, float64, error) {
			other.dst = w.dst
			return run(batch)
		}
	}
	if name == "default" {
		return work(w), nil
	}
	kind, count, counted := strings.Cut(name, "=")
	if !counted {
		m, err := engine.ParseMode(name)
		return func(batch [][]int32, _ int) (float64, float64, error) {
			w.eng.SetParallel(m)
			return w.embedBatch(batch)
		}, err
	}
	threads, err := strconv.Atoi(count)
	if err != nil || threads < 1 {
		return nil, fmt.Errorf("way %q, expected a number of threads", name)
	}
	var h how
	switch kind {
	case "fixed":
		other, err := w.on(threads, true)
		if err != nil {
			return nil, err
		}
		return work(other), nil
	case "threads":
		if q.Op == "train" {
			return w.trains.way(threads)
		}
		other, err := w.on(threads, false)
		if err != nil {
			return nil, err
		}
		if h = work(other); q.Op != "embed" {
			return h, nil // the engine's own goroutine runs it
		}
	case "reads":
		return func([][]int32, int) (float64, float64, error) {
			if err := w.eng.Prepare(context.Background()); err != nil { // it packs the weights
				return 0, 0, err
			}
			b, ok := w.backend.(readsWeights)
			if !ok {
				return 0, 0, fmt.Errorf("backend %s cannot read its weights alone", w.backend.Caps().Name)
			}
			rate := b.ReadWeights(context.Background(), threads, q.Skip, readFor)
			if rate == 0 {
				return 0, 0, errors.New("the model's weights stay in its file, or are fewer than are measured")
			}
			return rate / 1e9, 1, nil
		}, nil
	case "f32", "bf16":
		h = func([][]int32, int) (float64, float64, error) {
			return ceiling.Sustained(context.Background(), kind, threads, peakTime) / 1e9, 1, nil
		}
	default:
		return nil, fmt.Errorf("way %q, expected %s, default, auto, fine, coarse, threads=N, fixed=N, f32=N, bf16=N or reads=N", name, strings.Join(slices.Sorted(maps.Keys(samplings)), ", "))
	}
	if threads == 1 {
		h = alone(h)
	}
	return h, nil
}

// ways runs every batch each way, in the order of experiment.Place. The first batch
// warms up. The others follow turn by turn, and start again while there is time
// left.
func (w *hotpathWorker) ways(q request, a *answer) error {
	hows := make([]how, len(q.Ways))
	for i, name := range q.Ways {
		h, err := w.way(name, q)
		if err != nil {
			return err
		}
		hows[i] = h
	}
	a.Turns = make([]turn, len(hows))
	if len(q.Batches) < 2 {
		return fmt.Errorf("%d batches, expected one to warm up and one to measure", len(q.Batches))
	}
	alone, err := startBusy(w.beside)
	if err != nil {
		return err
	}
	defer alone()
	calls := max(1, q.Calls)
	began := w.now()
	first := 0
	if w.trains.warm || q.Skip > 0 {
		first = 1 // another step, or what is skipped twice, would only take long
	}
	for k := first; k <= calls || w.now().Sub(began).Seconds() < q.Seconds || (k-1)%calls != 0; k++ {
		batch := q.Batches[0]
		if k > 0 {
			batch = q.Batches[1+(k-1)%(len(q.Batches)-1)]
		}
		for j := range hows {
			i := experiment.Place(max(0, k-1), j, len(hows))
			before := w.stats()
			amount, seconds, err := hows[i](batch, k)
			if err != nil {
				return err
			}
			if k > 0 {
				a.Turns[i].addCall(amount, seconds, before, w.stats())
			}
		}
		if k == 0 {
			began = w.now()
		}
	}
	w.trains.warm = q.Op == "train"
	return nil
}

// stats are the engine's, or none while training is measured.
func (w *hotpathWorker) stats() (s engine.Stats) {
	if w.eng != nil {
		s = w.eng.Stats()
	}
	return s
}

// addCall is a call, and what the engine counted before and after it.
func (t *turn) addCall(amount, seconds float64, before, after engine.Stats) {
	t.Amount, t.Seconds = append(t.Amount, amount), append(t.Seconds, seconds)
	switch {
	case after.FineRuns > before.FineRuns && after.CoarseRuns > before.CoarseRuns:
		t.Ran.Both++
	case after.FineRuns > before.FineRuns:
		t.Ran.Fine++
	case after.CoarseRuns > before.CoarseRuns+1:
		t.Ran.Coarse++
	case after.CoarseRuns > before.CoarseRuns:
		t.Ran.One++
	}
}

// together gives all ways turns at every work, in one request each.
func (b bench) together(ctx context.Context, g Group, src *source, entries []*entry) error {
	for i, work := range g.Works {
		q := request{Op: work.Op, Steps: work.Steps, Calls: work.Reps, Seconds: work.Seconds, Skip: work.Skip}
		warm := work
		warm.Texts = min(warm.Texts, max(1, warmTokens*work.Texts/work.tokens()))
		q.Batches = append(q.Batches, src.batch(warm))
		for range work.Reps {
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
			err = fmt.Errorf("turns of %d ways, expected %d", len(a.Turns), len(asked))
		}
		for k, e := range asked {
			row, err := e.rows[i], err
			if err == nil {
				row.Ran.addCounts(a.Turns[k].Ran)
				err = row.addTurns(a.Turns[k], work)
			}
			if err != nil {
				row.Problem, row.Samples = err.Error(), nil
			}
		}
	}
	return nil
}

// peakTime is how long a peak is measured: some turns of the system's scheduler.
const peakTime = 20 * time.Millisecond

// warmTokens are enough to warm up with, whatever the work is.
const warmTokens = 4096

// addTurns takes the turns of a round, each of which is a sample.
func (r *Row) addTurns(t turn, w Work) error {
	if len(t.Seconds) != len(t.Amount) || len(t.Seconds) == 0 || len(t.Seconds)%w.Reps != 0 {
		return fmt.Errorf("%d times for %d amounts, expected turns of %d", len(t.Seconds), len(t.Amount), w.Reps)
	}
	for i := 0; i < len(t.Seconds); i += w.Reps {
		amount, seconds, rates := 0.0, 0.0, 0.0
		for k := i; k < i+w.Reps; k++ {
			if !(t.Seconds[k] > 0 && t.Amount[k] > 0) {
				return fmt.Errorf("%v in %v s", t.Amount[k], t.Seconds[k])
			}
			amount, seconds, rates = amount+t.Amount[k], seconds+t.Seconds[k], rates+t.Amount[k]/t.Seconds[k]
		}
		if w.Cores {
			r.Samples = append(r.Samples, rates/float64(w.Reps))
		} else {
			r.Samples = append(r.Samples, amount/seconds)
		}
	}
	r.ends = append(r.ends, len(r.Samples))
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
