package hotpath

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"hotpath/internal/engine"
	"hotpath/internal/testmodels"
)

const rerankModel = "internal/model/testdata/encoders/rerank-bert"

// extremes are numbers that nobody means.
var extremes = []int{math.MinInt, math.MinInt + 1, -1, 0, 1, math.MaxInt32, math.MaxInt - 1, math.MaxInt}

var floats = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), -1, 0, math.SmallestNonzeroFloat32, 0.5, 1, math.MaxFloat32}

// texts that nobody means.
var extremeTexts = []string{"", "\x00", "\xff\xfe", strings.Repeat("a", 1<<16), strings.Repeat("\n", 3000)}

func drain[T any](seq iter.Seq2[T, error]) (last error) {
	for _, err := range seq {
		last = err
	}
	return last
}

// checkExtreme holds the end of a call: well, or with an error that says what is
// wrong with the argument.
func checkExtreme(t *testing.T, what string, err error) {
	t.Helper()
	var p *PanicError
	if errors.As(err, &p) {
		t.Errorf("%s: %v\n%s", what, err, p.Stack)
	}
	if err != nil && !errors.Is(err, ErrInput) && !errors.Is(err, ErrTooLong) && !errors.Is(err, ErrTrainConfig) {
		t.Errorf("%s: %v, expected ErrInput or ErrTooLong", what, err)
	}
}

// No number and no text makes a call panic or hang, and the model answers the
// next call and closes after it.
func TestExtremeArguments(t *testing.T) {
	ctx := t.Context()
	bert, llama := open(t, testmodels.Dir(t, "bert"), Options{}), open(t, testmodels.Dir(t, "llama"), Options{Ctx: 16})
	rerank := open(t, filepath.FromSlash(rerankModel), Options{})
	generate := func(what string, o GenerateOptions) {
		checkExtreme(t, what, drain(llama.Generate(ctx, "once", o)))
	}
	embed := func(what string, o EmbedOptions) {
		_, err := bert.Embed(ctx, []string{"one", "two"}, o)
		checkExtreme(t, what, err)
		checkExtreme(t, what+" in a stream", drain(bert.EmbedStream(ctx, func(yield func(string, error) bool) { yield("one", nil) }, o)))
	}
	for _, n := range extremes {
		generate(fmt.Sprint("MaxTokens ", n), GenerateOptions{MaxTokens: n})
		generate(fmt.Sprint("TopK ", n), GenerateOptions{MaxTokens: 2, Temperature: 1, TopK: n, Seed: uint64(n)})
		embed(fmt.Sprint("Dim ", n), EmbedOptions{Dim: n})
		embed(fmt.Sprint("ChunkTokens ", n), EmbedOptions{Chunk: true, ChunkTokens: n})
		embed(fmt.Sprint("ChunkOverlap ", n), EmbedOptions{Chunk: true, ChunkOverlap: n, ChunkTokens: 8})
		for _, o := range []PerplexityOptions{{Ctx: n}, {Ctx: 8, Stride: n}, {Ctx: 8, Windows: n}, {Ctx: n, Stride: n, Windows: n}} {
			_, err := llama.Perplexity(ctx, strings.Repeat("many words ", 10), o)
			checkExtreme(t, fmt.Sprintf("%+v", o), err)
		}
		for _, o := range []Options{{Threads: n}, {Ctx: n}, {BatchTokens: n}} {
			if o.Threads > 1 || o.BatchTokens > MaxBatchTokens || o.Ctx != 0 || n < 1 { // others are merely large
				m, err := Open(testmodels.Dir(t, "llama"), o)
				checkExtreme(t, fmt.Sprintf("%+v", o), err)
				if m != nil {
					checkExtreme(t, "Close", m.Close())
				}
			}
		}
		_, err := llama.ScoreIDs(ctx, [][]int32{{int32(n), 1, int32(n)}})
		checkExtreme(t, fmt.Sprint("ScoreIDs ", n), err)
		llama.Token(int32(n))
		llama.Valid(int32(n))
		llama.Detokenize([]int32{int32(n), math.MinInt32, math.MaxInt32}, true)
		if n < 0 || n > 128 {
			_, err = Calibrate(ctx, n)
			checkExtreme(t, fmt.Sprint("Calibrate ", n), err)
			_, err = MeasureCeilings(ctx, n)
			checkExtreme(t, fmt.Sprint("MeasureCeilings ", n), err)
			_, err = Train(ctx, DefaultTrainConfig(), TrainOptions{Threads: n})
			checkExtreme(t, fmt.Sprint("Train on threads ", n), err)
		}
		for _, set := range []func(*TrainConfig){
			func(c *TrainConfig) { c.Steps = n }, func(c *TrainConfig) { c.BatchTokens = n }, func(c *TrainConfig) { c.SeqLen = n },
			func(c *TrainConfig) { c.Warmup = n }, func(c *TrainConfig) { c.CheckpointEvery = n }, func(c *TrainConfig) { c.Keep = n },
		} {
			c := DefaultTrainConfig()
			c.Model, c.Data, c.Out = "model", []string{"data"}, "out"
			set(&c)
			checkExtreme(t, fmt.Sprintf("%+v", c), c.Validate())
		}
	}
	for _, f := range floats {
		generate(fmt.Sprint("Temperature ", f), GenerateOptions{MaxTokens: 2, Temperature: f})
		generate(fmt.Sprint("TopP ", f), GenerateOptions{MaxTokens: 2, Temperature: 1, TopP: f})
		generate(fmt.Sprint("MinP ", f), GenerateOptions{MaxTokens: 2, Temperature: 1, MinP: f})
		for _, x := range []float64{float64(f), 1e300, -1e300} {
			c := DefaultTrainConfig()
			c.Model, c.Data, c.Out = "model", []string{"data"}, "out"
			c.LR, c.MinLR, c.Eps, c.WeightDecay, c.Clip, c.Betas = x, x, x, x, x, [2]float64{x, x}
			checkExtreme(t, fmt.Sprintf("%+v", c), c.Validate())
		}
	}
	for _, text := range extremeTexts {
		what := fmt.Sprintf("a text of %d bytes", len(text))
		checkExtreme(t, what, drain(llama.Generate(ctx, text, GenerateOptions{MaxTokens: 1, Stop: []string{text, ""}})))
		_, err := bert.Embed(ctx, []string{text, text}, EmbedOptions{Prompt: text})
		checkExtreme(t, what, err)
		_, err = bert.Embed(ctx, []string{text}, EmbedOptions{Chunk: true, ChunkTokens: 8, ChunkOverlap: 5})
		checkExtreme(t, what, err)
		for _, o := range []EmbedOptions{{Pooling: text}, {Task: text}, {PromptName: text}} {
			_, err = bert.Embed(ctx, []string{"a"}, o)
			checkExtreme(t, what, err)
		}
		_, err = rerank.Rerank(ctx, text, []string{text, "", text})
		checkExtreme(t, what, err)
		_, err = llama.Score(ctx, []string{text, ""}, ScoreOptions{Special: true})
		checkExtreme(t, what, err)
		_, err = llama.Perplexity(ctx, text, PerplexityOptions{Ctx: 4, Windows: 2})
		checkExtreme(t, what, err)
	}
	_, err := bert.Embed(ctx, nil, EmbedOptions{})
	checkExtreme(t, "no texts", err)
	checkExtreme(t, "no room", bert.EmbedInto(ctx, nil, []string{"a"}, EmbedOptions{}))
	_, err = rerank.Rerank(ctx, "", nil)
	checkExtreme(t, "no documents", err)
	checkExtreme(t, "no room for scores", rerank.RerankInto(ctx, nil, "", []string{"a"}, RerankOptions{}))
	_, err = llama.ScoreIDs(ctx, [][]int32{nil, {}, {1}})
	checkExtreme(t, "no tokens", err)
	checkExtreme(t, "no messages", drain(llama.Generate(ctx, "", GenerateOptions{Raw: true, MaxTokens: 1})))
	for _, m := range []*Model{bert, llama, rerank} {
		if _, err := m.Info(); err != nil {
			t.Errorf("Info after all of it: %v", err)
		}
		if err := m.Close(); err != nil {
			t.Errorf("Close after all of it: %v", err)
		}
	}
}

// Vectors that are no numbers, and memory that is too short, are written as far
// as they go.
func TestQuantizeExtremes(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, v := range [][]float32{nil, {nan}, {inf, -inf}, {nan, 1, inf, -2}, {0, 0}, {math.SmallestNonzeroFloat32}, {math.MaxFloat32, -math.MaxFloat32}} {
		for room := range len(v) + 1 {
			dst := make([]int8, room)
			scale := QuantizeInt8(dst, v)
			if scale != scale || scale > math.MaxFloat32 {
				t.Errorf("%v: scale %v", v, scale)
			}
			for i, x := range dst {
				if want := v[i]; want == want && (x > 0) != (want > 0) || want != want && x != 0 {
					t.Errorf("%v: %v", v, dst)
				}
			}
			QuantizeBinary(make([]byte, room), v)
		}
	}
}

// calls are all that take a context, on a decoder and an encoder.
func everyCall(decoder, encoder, ranker *Model) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Embed": func(ctx context.Context) error {
			_, err := encoder.Embed(ctx, []string{"a"}, EmbedOptions{})
			return err
		},
		"EmbedInto": func(ctx context.Context) error {
			return encoder.EmbedInto(ctx, make([]float32, encoder.Dim()), []string{"a"}, EmbedOptions{})
		},
		"EmbedStream": func(ctx context.Context) error {
			return drain(encoder.EmbedStream(ctx, func(yield func(string, error) bool) { yield("a", nil) }, EmbedOptions{}))
		},
		"Generate": func(ctx context.Context) error {
			return drain(decoder.Generate(ctx, "a", GenerateOptions{MaxTokens: 3}))
		},
		"Complete": func(ctx context.Context) error {
			_, err := decoder.Complete(ctx, "a", GenerateOptions{MaxTokens: 3})
			return err
		},
		"Score": func(ctx context.Context) error {
			_, err := decoder.Score(ctx, []string{"a b c"}, ScoreOptions{})
			return err
		},
		"ScoreIDs": func(ctx context.Context) error { _, err := decoder.ScoreIDs(ctx, [][]int32{{1, 2}}); return err },
		"Perplexity": func(ctx context.Context) error {
			_, err := decoder.Perplexity(ctx, "many words of it", PerplexityOptions{Ctx: 4})
			return err
		},
		"Rerank": func(ctx context.Context) error { _, err := ranker.Rerank(ctx, "a", []string{"b"}); return err },
		"Info":   func(context.Context) error { _, err := encoder.Info(); return err },
	}
}

// The nil context is an ErrInput of every call that takes one.
func TestNilContext(t *testing.T) {
	dir := testmodels.Dir(t, "bert")
	decoder, encoder, ranker := open(t, testmodels.Dir(t, "llama"), Options{}), open(t, dir, Options{}), open(t, filepath.FromSlash(rerankModel), Options{})
	calls := everyCall(decoder, encoder, ranker)
	delete(calls, "Info")
	calls["OpenContext"] = func(ctx context.Context) error { _, err := OpenContext(ctx, dir, Options{}); return err }
	calls["Chat"] = func(ctx context.Context) error {
		return drain(decoder.Chat(ctx, []Message{{Role: "user", Content: "a"}}, GenerateOptions{}))
	}
	calls["Digest"] = func(ctx context.Context) error { _, err := encoder.Digest(ctx); return err }
	calls["TokenizeAllContext"] = func(ctx context.Context) error { _, err := encoder.TokenizeAllContext(ctx, nil, false); return err }
	calls["Calibrate"] = func(ctx context.Context) error { _, err := Calibrate(ctx, 1); return err }
	calls["CalibratePrecision"] = func(ctx context.Context) error { _, err := CalibratePrecision(ctx, dir, Options{}); return err }
	calls["MeasureCeilings"] = func(ctx context.Context) error { _, err := MeasureCeilings(ctx, 1); return err }
	calls["PeakFLOPs"] = func(ctx context.Context) error { _, err := PeakFLOPs(ctx, TrainOptions{}); return err }
	calls["Train"] = func(ctx context.Context) error { _, err := Train(ctx, TrainConfig{}, TrainOptions{}); return err }
	calls["PlanTraining"] = func(ctx context.Context) error {
		_, err := PlanTraining(ctx, TrainConfig{}, TrainOptions{})
		return err
	}
	var none context.Context
	for name, call := range calls {
		if err := call(none); !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), "ctx is nil") {
			t.Errorf("%s: %v, expected an ErrInput about the context", name, err)
		}
	}
}

// The zero Model and the zero Tokenizer answer with ErrClosed, or with nothing where
// there is no error to return.
func TestZeroValues(t *testing.T) {
	var m Model
	calls := everyCall(&m, &m, &m)
	calls["Info"] = func(context.Context) error { _, err := m.Info(); return err }
	calls["Chat"] = func(ctx context.Context) error { return drain(m.Chat(ctx, nil, GenerateOptions{})) }
	calls["ChatPrompt"] = func(context.Context) error { _, err := m.ChatPrompt(nil); return err }
	calls["Digest"] = func(ctx context.Context) error { _, err := m.Digest(ctx); return err }
	calls["TokenizeAllContext"] = func(ctx context.Context) error { _, err := m.TokenizeAllContext(ctx, []string{"a"}, false); return err }
	for name, call := range calls {
		if err := call(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("%s of the zero Model: %v, expected ErrClosed", name, err)
		}
	}
	m.HoldGenerations()()
	if m.Stats() != (Stats{}) || m.Dim() != 0 || m.DeviceChoice() != "" || m.DeviceNote() != "" {
		t.Errorf("the zero Model: %+v, %d dimensions, device %q %q", m.Stats(), m.Dim(), m.DeviceChoice(), m.DeviceNote())
	}
	var k Tokenizer
	if k.Size() != 0 || k.Valid(0) || k.Token(0) != "" || k.Detokenize([]int32{0}, true) != "" || k.Tokenize("a", true) != nil {
		t.Error("the zero Tokenizer has tokens")
	}
	if err := m.Close(); err != nil {
		t.Errorf("Close of the zero Model: %v", err)
	}
}

// Calls after Close say so, and tokenizing works as before.
func TestUseAfterClose(t *testing.T) {
	for _, path := range []string{testmodels.Dir(t, "llama"), testmodels.Dir(t, "gguf/llama-f32.gguf")} {
		decoder, encoder, ranker := open(t, path, Options{}), open(t, testmodels.Dir(t, "bert"), Options{}), open(t, filepath.FromSlash(rerankModel), Options{})
		want := decoder.Tokenize("some words", true)
		for _, m := range []*Model{decoder, encoder, ranker} {
			for range 2 {
				if err := m.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
		for name, call := range everyCall(decoder, encoder, ranker) {
			if err := call(t.Context()); !errors.Is(err, ErrClosed) {
				t.Errorf("%s after Close: %v", name, err)
			}
		}
		if got := decoder.Tokenize("some words", true); fmt.Sprint(got) != fmt.Sprint(want) || decoder.Detokenize(got, false) == "" {
			t.Errorf("Tokenize after Close: %v, expected %v", got, want)
		}
		_, _ = decoder.ChatPrompt([]Message{{Role: "user", Content: "a"}})
		_ = encoder.Dim()
	}
}

// Close from many goroutines, in the middle of calls from many others: each call
// ends well or with ErrClosed.
func TestCloseDuringUse(t *testing.T) {
	decoder, encoder, ranker := open(t, testmodels.Dir(t, "llama"), Options{}), open(t, testmodels.Dir(t, "bert"), Options{}), open(t, filepath.FromSlash(rerankModel), Options{})
	var work sync.WaitGroup
	begun := make(chan struct{}, 1)
	for name, call := range everyCall(decoder, encoder, ranker) {
		for range 2 {
			work.Go(func() {
				for range 50 {
					err := call(t.Context())
					select {
					case begun <- struct{}{}:
					default:
					}
					if errors.Is(err, ErrClosed) {
						return
					}
					if err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			})
		}
	}
	<-begun
	for _, m := range []*Model{decoder, encoder, ranker} {
		for range 3 {
			work.Go(func() {
				if err := m.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
		}
	}
	work.Wait()
}

// A loop that is left in the middle, by break or by a panic of its body, leaves
// the model free.
func TestLoopsLeftInTheMiddle(t *testing.T) {
	ctx := t.Context()
	decoder, encoder := open(t, testmodels.Dir(t, "llama"), Options{}), open(t, testmodels.Dir(t, "bert"), Options{})
	for name, loop := range map[string]func(body func()){
		"Generate": func(body func()) {
			for range decoder.Generate(ctx, "a", GenerateOptions{}) {
				body()
				break
			}
		},
		"Chat": func(body func()) {
			for range decoder.Chat(ctx, []Message{{Role: "user", Content: "a"}}, GenerateOptions{}) {
				body()
				break
			}
		},
		"EmbedStream": func(body func()) {
			for range encoder.EmbedStream(ctx, endless, EmbedOptions{}) {
				body()
				break
			}
		},
	} {
		loop(func() {})
		func() {
			defer func() {
				if p := recover(); p != "mine" {
					t.Errorf("%s: the body's panic arrives as %v", name, p)
				}
			}()
			loop(func() { panic("mine") })
		}()
	}
	next, stop := iter.Pull2(decoder.Generate(ctx, "a", GenerateOptions{}))
	if _, err, ok := next(); err != nil || !ok {
		t.Error(err, ok)
	}
	stop()
	for _, m := range []*Model{decoder, encoder} {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A panic of the source of texts is an error of the stream.
func TestPanicOfTheSource(t *testing.T) {
	m := open(t, testmodels.Dir(t, "bert"), Options{})
	err := drain(m.EmbedStream(t.Context(), func(yield func(string, error) bool) {
		yield("one", nil)
		panic("no more")
	}, EmbedOptions{}))
	var p *engine.PanicError
	if !errors.As(err, &p) || p.Value != "no more" {
		t.Errorf("the stream ended with %v", err)
	}
}

// A Queued that panics or leaves its goroutine ends its generation, and only that.
func TestPanicOfQueued(t *testing.T) {
	m := open(t, testmodels.Dir(t, "llama"), Options{})
	generate := func(prompt string, queued func()) error {
		return drain(m.Generate(t.Context(), prompt, GenerateOptions{Raw: true, IgnoreEOS: true, Queued: queued}))
	}
	release := m.HoldGenerations() // none begins before its call ends
	var p *PanicError
	if err := generate("a", func() { panic("no more") }); !errors.As(err, &p) || p.Value != "no more" || !errors.Is(err, ErrInternal) {
		t.Errorf("the generation ended with %v", err)
	}
	tooLong := strings.Repeat("a b ", 5000)
	if err := generate(tooLong, func() { panic("no more") }); !errors.Is(err, ErrInternal) || !errors.Is(err, ErrTooLong) {
		t.Errorf("a prompt that is too long ended with %v, expected ErrTooLong and ErrInternal", err)
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		_ = generate("a", runtime.Goexit)
	}()
	<-left
	release()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if n := m.Stats().GeneratedTokens; n > 0 {
		t.Errorf("%d tokens were generated for calls that had ended", n)
	}
}
