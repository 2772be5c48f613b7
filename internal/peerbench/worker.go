package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	_ "hotpath" // registers its devices
	"hotpath/internal/calib"
	"hotpath/internal/engine"
	"hotpath/internal/kernel/ceiling"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/sample"
	"hotpath/internal/weights"
)

// hotpathWorker answers with the engine that package hotpath opens, but from
// token ids. The clock runs over whole calls, sampling included.
type hotpathWorker struct {
	threads     int
	precision   string
	ctx         int              // most tokens of a sequence; 0: the engine chooses
	batchTokens int              // most tokens of a run; 0: the engine chooses
	parallel    engine.Mode      // of embedding
	fixed       bool             // all threads take part in every run
	beside      int              // busy processes while ways take turns
	others      []*hotpathWorker // on other numbers of threads, or fixed
	store       *weights.Store
	model       *model.Model
	backend     plan.Backend
	eng         *engine.Engine
	embed       model.EmbedOptions
	dst         []float32
	now         func() time.Time // when turns have to end by
	trains      trainers
}

// runWorker serves requests from standard input until it ends. Without a
// model it only measures the machine.
func runWorker(args []string) (err error) {
	f := flag.NewFlagSet("worker", flag.ContinueOnError)
	path := f.String("model", "", "GGUF file or Hugging Face directory")
	threads := f.Int("threads", 0, "threads, 0 for all")
	precision := f.String("precision", "auto", "f32, bf16 or auto")
	ctx := f.Int("context", 0, "most tokens of a sequence, 0 for the engine's own choice")
	batchTokens := f.Int("batch-tokens", 0, "most tokens of a run, 0 for the engine's own choice")
	parallel := f.String("parallel", "auto", "how threads share a batch: auto, fine or coarse")
	training := f.String("train", "", "folder with the training that is measured in place of a model: train.json, tokenizer.json, data.txt")
	beside := f.Int("beside", 0, "busy processes that run while ways take turns")
	spin := f.Bool("spin", false, "be a busy process until the input ends")
	command := f.Bool("command", false, "measure the command that follows: its start and its memory")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *spin {
		return keepBusy(os.Stdin)
	}
	if *command {
		return (&commandWorker{argv: f.Args()}).serve(os.Stdin, os.Stdout)
	}
	if err := isa.Err(); err != nil {
		return err
	}
	mode, err := engine.ParseMode(*parallel)
	if err != nil {
		return err
	}
	w := &hotpathWorker{threads: *threads, ctx: *ctx, batchTokens: *batchTokens, parallel: mode, beside: *beside, now: time.Now, trains: trainers{folder: *training}}
	defer func() { err = errors.Join(err, w.close()) }()
	if *path != "" {
		if err := w.open(*path, *precision); err != nil {
			return err
		}
	}
	return w.serve(os.Stdin, os.Stdout)
}

func (w *hotpathWorker) open(path, precision string) (err error) {
	w.precision = precision
	if w.store, err = weights.Open(path); err != nil {
		return err
	}
	if w.model, err = model.Open(w.store); err != nil {
		return err
	}
	if w.backend, err = engine.NewBackend("cpu", engine.BackendOptions{Threads: w.threads, Precision: precision}); err != nil {
		return err
	}
	return w.engine(min(w.threads, w.backend.Caps().Workers), nil)
}

// engine opens the worker's engine, beside another of the same backend if there is one.
func (w *hotpathWorker) engine(workers int, beside *engine.Engine) (err error) {
	c := w.model.Config()
	w.embed = model.EmbedOptions{Pooling: c.Pooling, Normalize: true}
	all := max(1, w.backend.Caps().Workers)
	if workers > all {
		return fmt.Errorf("%d threads, expected at most the worker's %d", workers, all)
	}
	workers = cmp.Or(workers, all)
	costs := calib.Cached(workers)
	w.eng, err = engine.Open(w.model, w.backend, engine.Options{Workers: workers, Costs: &costs, Ctx: w.ctx, MaxBatchTokens: w.batchTokens, Fixed: w.fixed,
		KVType: engine.DefaultKVType(w.precision), Beside: beside})
	if err == nil {
		w.eng.SetParallel(w.parallel)
	}
	return err
}

// on is this worker, or another in its process, on so many threads. All read the same
// weights: other copies may lie in memory that is nearer or farther away.
func (w *hotpathWorker) on(threads int, fixed bool) (*hotpathWorker, error) {
	if threads == w.threads && fixed == w.fixed {
		return w, nil
	}
	for _, o := range w.others {
		if o.threads == threads && o.fixed == fixed {
			return o, nil
		}
	}
	o := &hotpathWorker{threads: threads, fixed: fixed, ctx: w.ctx, batchTokens: w.batchTokens, parallel: w.parallel, precision: w.precision,
		store: w.store, model: w.model, backend: w.backend}
	if err := o.engine(threads, w.eng); err != nil {
		return nil, err
	}
	w.others = append(w.others, o)
	return o, nil
}

func (w *hotpathWorker) close() error {
	errs := []error{w.trains.close()}
	for _, o := range w.others { // the rest of them is w's
		errs = append(errs, o.eng.Close())
	}
	if w.eng != nil {
		errs = append(errs, w.eng.Close())
	}
	if err := errors.Join(errs...); errors.Is(err, engine.ErrBusy) {
		return err // a run reads the store
	}
	if w.backend != nil {
		errs = append(errs, w.backend.Close())
	}
	if w.store != nil {
		errs = append(errs, w.store.Close())
	}
	return errors.Join(errs...)
}

func (w *hotpathWorker) serve(in io.Reader, out io.Writer) error {
	return serve(in, out, hello{Peer: "hotpath", Version: runtime.Version(), Detail: isa.Active().String()}, func(q request, a *answer) error {
		err := w.answer(q, a)
		// What a request left behind is collected in its own time, not in the
		// next one's.
		runtime.GC()
		return err
	})
}

// serve answers requests until they end.
func serve(in io.Reader, out io.Writer, h hello, to func(q request, a *answer) error) error {
	enc := json.NewEncoder(out)
	if err := enc.Encode(h); err != nil {
		return err
	}
	dec := json.NewDecoder(bufio.NewReader(in))
	for {
		var q request
		if err := dec.Decode(&q); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		var a answer
		if err := to(q, &a); err != nil {
			a = answer{Error: err.Error()}
		}
		if err := enc.Encode(a); err != nil {
			return err
		}
	}
}

func (w *hotpathWorker) answer(q request, a *answer) error {
	ctx := context.Background()
	if q.Op == "read" {
		a.Amount, a.Seconds = []float64{ceiling.Measure(ctx, w.threads).Read / 1e9}, []float64{1}
		return nil
	}
	if q.Op == "train" {
		return w.ways(q, a)
	}
	if w.eng == nil {
		return fmt.Errorf("%s without a model", q.Op)
	}
	if q.Op == "reads" {
		rate := ceiling.ReadOf(ctx, int(w.tokenBytes()), w.threads, readFor)
		a.Amount, a.Seconds = []float64{rate / 1e9}, []float64{1}
		return nil
	}
	if len(q.Batches) == 0 {
		return fmt.Errorf("%s without batches", q.Op)
	}
	switch q.Op {
	case "embed":
		if len(q.Ways) > 0 {
			return w.ways(q, a)
		}
		return w.timed(q, a, w.embedBatch)
	case "prefill":
		if len(q.Ways) > 0 {
			return w.ways(q, a)
		}
		return w.timed(q, a, w.prefillBatch)
	case "decode":
		if len(q.Ways) > 0 {
			return w.ways(q, a)
		}
		return w.timed(q, a, w.decodeBatch(q, sample.Params{}))
	case "bytes":
		each := w.decodeBatch(q, sample.Params{})
		return w.timed(q, a, func(batch [][]int32) (float64, float64, error) {
			tokens, seconds, err := each(batch)
			return tokens / float64(len(batch)) * float64(w.tokenBytes()) / 1e9, seconds, err
		})
	case "vectors":
		name := "auto"
		if len(q.Ways) > 0 {
			name = q.Ways[0]
		}
		run, err := w.way(name, q)
		if err != nil {
			return err
		}
		batch, d := q.Batches[0], w.model.Config().Dim
		w.dst = make([]float32, len(batch)*d)
		if _, _, err := run(batch, 0); err != nil {
			return err
		}
		for i := range batch {
			a.Vectors = append(a.Vectors, w.dst[i*d:(i+1)*d])
		}
		return nil
	case "greedy":
		var err error
		a.IDs, _, _, err = w.generate(ctx, q.Batches[0], 0, q.Steps, sample.Params{})
		return err
	}
	return fmt.Errorf("hotpath has no op %s", q.Op)
}

// timed measures all batches but the first, which warms up.
func (w *hotpathWorker) timed(q request, a *answer, run func(batch [][]int32) (amount, seconds float64, err error)) error {
	for i, batch := range q.Batches {
		amount, seconds, err := run(batch)
		if err != nil {
			return err
		}
		if i > 0 {
			a.Amount, a.Seconds = append(a.Amount, amount), append(a.Seconds, seconds)
		}
	}
	return nil
}

func (w *hotpathWorker) embedBatch(batch [][]int32) (amount, seconds float64, err error) {
	if n := len(batch) * w.model.Config().Dim; n > len(w.dst) {
		w.dst = make([]float32, n)
	}
	began := time.Now()
	err = w.eng.EmbedIDs(context.Background(), batch, w.dst, w.embed)
	return float64(tokensOf(batch)), time.Since(began).Seconds(), err
}

// prefillBatch generates the first token of each prompt.
func (w *hotpathWorker) prefillBatch(batch [][]int32) (amount, seconds float64, err error) {
	began := time.Now()
	_, _, _, err = w.generate(context.Background(), batch, 0, 1, sample.Params{})
	return float64(tokensOf(batch)), time.Since(began).Seconds(), err
}

// decodeBatch generates q.Steps tokens behind the first of each prompt and q.Skip others.
func (w *hotpathWorker) decodeBatch(q request, how sample.Params) func(batch [][]int32) (amount, seconds float64, err error) {
	return func(batch [][]int32) (float64, float64, error) {
		_, tokens, seconds, err := w.generate(context.Background(), batch, q.Skip, q.Skip+q.Steps+1, how)
		return tokens, seconds, err
	}
}

// tokenBytes is how many bytes of weights a token reads: all but a table of
// embeddings that is not the head too.
func (w *hotpathWorker) tokenBytes() (bytes int64) {
	for _, name := range w.store.Names() {
		if t, err := w.store.Get(name); err == nil && (name != "token_embd.weight" || !w.store.Has("output.weight")) {
			bytes += int64(len(t.Data))
		}
	}
	return bytes
}

// generate goes on for n tokens with all prompts at once. amount
// tokens in so many seconds are those made while every sequence was past its
// prompt and so many tokens behind it, and none had ended.
func (w *hotpathWorker) generate(ctx context.Context, prompts [][]int32, skip, n int, how sample.Params) (ids [][]int32, amount, seconds float64, err error) {
	times := make([][]time.Time, len(prompts)) // of each token
	streams := make([]*engine.Stream, len(prompts))
	for i, prompt := range prompts {
		times[i] = make([]time.Time, 0, n)
		streams[i], err = w.eng.Generate(ctx, engine.Request{Prompt: prompt, MaxTokens: n, Sample: how, End: func(int32) bool {
			times[i] = append(times[i], time.Now()) // called for each token as it is made
			return false
		}})
		if err != nil {
			return nil, 0, 0, err
		}
	}
	ids = make([][]int32, len(prompts))
	for i, s := range streams {
		for id, ok := s.Next(); ok; id, ok = s.Next() {
			ids[i] = append(ids[i], id)
		}
		if err := s.Err(); err != nil {
			return nil, 0, 0, err
		}
		if c := s.Timing().Cached; c > 0 {
			return nil, 0, 0, fmt.Errorf("%d tokens of a prompt were cached, expected none", c)
		}
	}
	from, to := times[0][skip], times[0][n-1]
	for _, t := range times {
		if t[skip].After(from) {
			from = t[skip]
		}
		if t[n-1].Before(to) {
			to = t[n-1]
		}
	}
	for _, t := range times {
		for _, at := range t {
			if at.After(from) && !at.After(to) {
				amount++
			}
		}
	}
	return ids, amount, to.Sub(from).Seconds(), nil
}

func tokensOf(batch [][]int32) int {
	n := 0
	for _, ids := range batch {
		n += len(ids)
	}
	return n
}
