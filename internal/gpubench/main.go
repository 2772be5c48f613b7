// Command gpubench measures a model on a device, for scripts/peers_gpu.py: one line
// of JSON per kind of work. Token ids are drawn from a fixed seed, so that the
// peers get the same.
//
//	gpubench -m DIR -device cuda -work "embed 32x128" -work "decode 8" -work "prefill 4096" -work "train 32x1024"
//	gpubench -m DIR -work "soak 1000"
//	gpubench -work "gemm 512x2048x2048"
//	gpubench -m DIR -convert FILE.gguf -type Q4_0
//
// With -turns a work is opened once and measured once per line of standard input, so
// that a peer can take its turns in between (turns.go).
//
// Training reads DIR/data.txt. Products need no model; their tok_s are TFLOP/s. With
// -shape minilm, smollm2 or llama-1b in place of -m the model is made with random weights; what
// embedding reaches of the device's rate is shown where the backend measures that.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	_ "hotpath/cuda"
	"hotpath/internal/backend/cuda"
	"hotpath/internal/backend/opencl"
	"hotpath/internal/engine"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/shapes"
	"hotpath/internal/stats"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
	_ "hotpath/opencl"
	"hotpath/profile"
	"hotpath/profile/export"
)

// works collects the -work flags.
type works []string

func (w *works) String() string     { return strings.Join(*w, ", ") }
func (w *works) Set(s string) error { *w = append(*w, s); return nil }

type bench struct {
	path, device, precision, profile string
	rounds, tokens                   int
	oldCodes                         bool
	budget                           time.Duration
	shape, convert, kind             string
	requests                         *bufio.Scanner // one line per turn; nil: works are measured once
	ids                              uint64         // hash of what the last decode generated first
	rate                             float64        // f32 operations per second that were measured; 0: unknown
}

func main() {
	var b bench
	var ws works
	flag.StringVar(&b.path, "m", "", "directory or .gguf file of the model")
	flag.StringVar(&b.shape, "shape", "", "minilm, smollm2 or llama-1b: random weights in place of -m")
	flag.StringVar(&b.device, "device", "cuda", "device")
	flag.StringVar(&b.precision, "precision", "", "f32, or empty for the device's default")
	flag.StringVar(&b.profile, "profile", "", "write a profile of each work to this path with .N.txt behind it")
	flag.IntVar(&b.rounds, "rounds", 30, "rounds at most")
	flag.DurationVar(&b.budget, "time", 2*time.Second, "time per work at most")
	flag.IntVar(&b.tokens, "tokens", 0, "tokens per run at most; 0 for the device's default")
	flag.BoolVar(&b.oldCodes, "old-codes", false, "on a card, decode one sequence by the kernels in f32")
	flag.StringVar(&b.convert, "convert", "", "write the model of -m to this .gguf file and measure nothing")
	flag.StringVar(&b.kind, "type", "Q8_0", "type of -convert's matrices")
	turns := flag.Bool("turns", false, "measure a work once per line of standard input")
	flag.Var(&ws, "work", `"embed SEQSxTOKENS", "decode SEQS", "prefill TOKENS", "train SEQSxTOKENS", "soak CALLS" or "gemm MxNxK"; may be repeated`)
	flag.Parse()
	if b.rounds < 1 {
		fmt.Fprintf(os.Stderr, "gpubench: -rounds %d, expected 1 or more\n", b.rounds)
		os.Exit(2)
	}
	if *turns {
		b.requests = bufio.NewScanner(os.Stdin)
	}
	if b.convert != "" {
		if err := b.writeGGUF(); err != nil {
			fmt.Fprintf(os.Stderr, "gpubench: %s as %s: %v\n", b.path, b.kind, err)
			os.Exit(1)
		}
		return
	}
	remove, err := b.prepare()
	if err != nil {
		fmt.Fprintf(os.Stderr, "gpubench: %v\n", err)
		os.Exit(1)
	}
	failed := b.all(ws)
	if remove(); failed {
		os.Exit(1)
	}
}

// prepare makes the model of -shape; what it returns removes it.
func (b *bench) prepare() (remove func(), err error) {
	if b.shape == "" {
		return func() {}, nil
	}
	s, ok := shapes.Known[b.shape]
	if !ok {
		return nil, fmt.Errorf("-shape %q, expected minilm, smollm2 or llama-1b", b.shape)
	}
	folder, err := os.MkdirTemp("", "gpubench")
	if err != nil {
		return nil, err
	}
	remove = func() { os.RemoveAll(folder) }
	if b.path = folder; b.shape == "minilm" {
		err = s.WriteDir(folder)
	} else {
		b.path = filepath.Join(folder, "model.gguf")
		err = s.WriteGGUF(b.path, tensor.Q4_1)
	}
	if err != nil {
		remove()
		return nil, err
	}
	return remove, nil
}

// all does the works, and reports whether one failed.
func (b *bench) all(ws works) (failed bool) {
	if err := b.rates(); err != nil {
		fmt.Fprintf(os.Stderr, "gpubench: rates: %v\n", err)
		failed = true
	}
	for i, w := range ws {
		if err := b.one(i, w); err != nil {
			fmt.Fprintf(os.Stderr, "gpubench: %s: %v\n", w, err)
			failed = true
		}
	}
	return failed
}

// rates tells what the device does at most, where its backend measures that. Turns
// do without it: it opens the device once more.
func (b *bench) rates() error {
	if b.requests != nil {
		return nil
	}
	be, err := engine.NewBackend(b.device, engine.BackendOptions{Precision: b.precision})
	if err != nil {
		return err
	}
	defer be.Close()
	r, ok := be.(*opencl.Backend)
	if !ok {
		return nil
	}
	rates, err := r.Rates()
	if b.rate = rates.FLOPs; err == nil {
		fmt.Printf("{\"device\":%q,\"tflops\":%.1f,\"gb_s\":%.0f}\n", r.About(), rates.FLOPs/1e12, rates.Bytes/1e9)
	}
	return err
}

// one opens the model anew: each kind of work has sizes of its own.
func (b *bench) one(i int, work string) error {
	b.ids = 0
	var what string
	var seqs, tokens, calls, n int
	switch {
	case scan(work, "gemm %dx%dx%d", &seqs, &n, &tokens):
		return b.gemm(work, seqs, n, tokens)
	case scan(work, "soak %d", &calls):
		what = "soak"
	case scan(work, "embed %dx%d", &seqs, &tokens):
		what = "embed"
	case scan(work, "decode %d", &seqs):
		what, tokens = "decode", 16
	case scan(work, "prefill %d", &tokens):
		what, seqs = "prefill", 1
	case scan(work, "train %dx%d", &seqs, &tokens):
		return b.train(i, work, seqs, tokens)
	default:
		return fmt.Errorf("expected embed SEQSxTOKENS, decode SEQS, prefill TOKENS, train SEQSxTOKENS, soak CALLS or gemm MxNxK")
	}
	st, err := weights.Open(b.path)
	if err != nil {
		return err
	}
	defer st.Close()
	m, err := model.Open(st)
	if err != nil {
		return err
	}
	be, err := b.backend()
	if err != nil {
		return err
	}
	defer be.Close()
	if what == "soak" {
		return b.soak(work, be, m, calls)
	}
	o := engine.Options{MaxBatchTokens: b.tokens, KVType: tensor.F16}
	if what != "embed" {
		o.MaxSeqs = max(seqs, 1)
		o.Ctx = min(m.Config().MaxSeq, max(256, tokens+64))
		o.KVBlocks = (seqs + 1) * (o.Ctx/64 + 1)
		o.NoPrefix = true
	}
	var rec *profile.Recorder
	if b.profile != "" {
		rec = profile.NewRecorder(profile.Options{})
		o.Recorder = rec
	}
	e, err := engine.Open(m, be, o)
	if err != nil {
		return err
	}
	defer e.Close()
	if rec != nil {
		e.Pause(true)
	}
	r := rand.New(rand.NewPCG(1, 2))
	ids := make([][]int32, seqs)
	for s := range ids {
		for range tokens {
			ids[s] = append(ids[s], 1000+int32(r.IntN(m.Config().Vocab-2000)))
		}
	}
	var times []float64
	run := func() (_ []float64, err error) {
		switch what {
		case "embed":
			times, err = b.embed(e, m, ids)
		default:
			times, err = b.generate(e, ids, what)
		}
		return times, err
	}
	count := float64(seqs * tokens)
	if what == "decode" {
		count = float64(seqs)
	}
	if err := b.measure(work, count, run); err != nil {
		return err
	}
	if r, ok := be.(*opencl.Backend); ok {
		c := r.Enqueued()
		runs := float64(max(c.Runs, 1))
		fmt.Printf("{\"work\":%q,\"runs\":%d,\"launches_per_run\":%.1f,\"enqueue_us_per_run\":%.1f,\"buffers\":%d}\n", work, c.Runs, float64(c.Launches)/runs, c.Enqueuing.Seconds()*1e6/runs, r.Allocations())
	}
	if s, ok := shapes.Known[b.shape]; ok && what == "embed" && b.rate > 0 {
		slices.Sort(times)
		rate := s.FLOPs(tokens) * count / times[len(times)/2]
		fmt.Printf("{\"work\":%q,\"tflops\":%.3g,\"percent_of_rate\":%.1f}\n", work, rate/1e12, 100*rate/b.rate)
	}
	if rec == nil {
		return nil
	}
	// Rounds with and without the profile take turns.
	var plain, profiled []float64
	for range 4 {
		for _, pause := range []bool{true, false} {
			e.Pause(pause)
			if _, err := run(); err != nil {
				return err
			}
			if pause {
				plain = append(plain, times...)
			} else {
				profiled = append(profiled, times...)
			}
		}
	}
	slices.Sort(plain)
	slices.Sort(profiled)
	off, on := stats.MedianSorted(plain), stats.MedianSorted(profiled)
	fmt.Printf("{\"work\":%q,\"profiled_ms\":%.4f,\"ms\":%.4f,\"overhead_percent\":%.2f}\n", work+" profiled", on*1e3, off*1e3, 100*(on/off-1))
	return export.Export(fmt.Sprintf("%s.%d.csv", b.profile, i), rec.Snapshot())
}

// backend opens the device.
func (b *bench) backend() (plan.Backend, error) {
	if b.device == "cuda" && b.oldCodes {
		return cuda.New(cuda.Options{F32: b.precision == "f32", OldCodes: true})
	}
	return engine.NewBackend(b.device, engine.BackendOptions{Precision: b.precision})
}

// report prints the median of rounds that take count tokens each.
func (b *bench) report(work string, times []float64, count float64, began time.Time) error {
	slices.Sort(times)
	median := stats.MedianSorted(times)
	fields := map[string]any{"work": work, "ms": median * 1e3, "best_ms": times[0] * 1e3, "tok_s": count / median, "rounds": len(times), "all_s": time.Since(began).Seconds()}
	if b.ids != 0 {
		fields["ids"] = fmt.Sprintf("%016x", b.ids)
	}
	line, err := json.Marshal(fields)
	if err == nil {
		_, err = fmt.Println(string(line))
	}
	return err
}

func scan(s, format string, to ...any) bool {
	n, err := fmt.Sscanf(s, format, to...)
	return err == nil && n == len(to)
}

// embed times whole calls.
func (b *bench) embed(e *engine.Engine, m *model.Model, ids [][]int32) (times []float64, err error) {
	dst := make([]float32, len(ids)*m.Config().EmbedDim)
	for end := time.Now().Add(b.budget); len(times) < b.rounds+3 && (len(times) < 4 || time.Now().Before(end)); {
		begin := time.Now()
		if err := e.EmbedIDs(context.Background(), ids, dst, model.EmbedOptions{Pooling: m.Config().Pooling, Normalize: true}); err != nil {
			return nil, err
		}
		times = append(times, time.Since(begin).Seconds())
	}
	return times[3:], same(e, m, ids, dst)
}

// same holds some vectors of a batch to those of the texts alone, which take other
// kernels.
func same(e *engine.Engine, m *model.Model, ids [][]int32, dst []float32) error {
	dim := m.Config().EmbedDim
	alone := make([]float32, dim)
	for _, i := range []int{0, len(ids) / 3, len(ids) - 1} {
		if err := e.EmbedIDs(context.Background(), ids[i:i+1], alone, model.EmbedOptions{Pooling: m.Config().Pooling, Normalize: true}); err != nil {
			return err
		}
		var cosine float64
		for j, v := range alone {
			cosine += float64(v) * float64(dst[i*dim+j])
		}
		if !(cosine > 0.998) {
			return fmt.Errorf("text %d in a batch of %d: cosine %.4f with the text alone", i, len(ids), cosine)
		}
	}
	return nil
}
