package hotpath

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hotpath/internal/testmodels"
)

var devices = []string{"cpu", "ref", "null"}

func open(t testing.TB, path string, o Options) *Model {
	t.Helper()
	m, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func cosine(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab += float64(a[i]) * float64(b[i])
		aa += float64(a[i]) * float64(a[i])
		bb += float64(b[i]) * float64(b[i])
	}
	return ab / math.Sqrt(aa*bb)
}

func TestEmbedTexts(t *testing.T) {
	for _, name := range testmodels.Encoders(t) {
		for _, device := range devices {
			t.Run(name+"/"+device, func(t *testing.T) {
				r := testmodels.Load(t, name)
				m := open(t, testmodels.Dir(t, name), Options{Device: device, Precision: "f32", Threads: 2})
				var texts []string
				cut := []int(nil)
				for i, c := range r.Cases {
					texts = append(texts, c.Text)
					if c.FullIDs != nil {
						cut = append(cut, i)
					}
				}
				var usage EmbedUsage
				got, err := m.Embed(context.Background(), texts, EmbedOptions{Usage: &usage})
				if err != nil {
					t.Fatal(err)
				}
				for i, c := range r.Cases {
					if cos := cosine(got[i], c.Embedding); cos < 0.9999 {
						t.Errorf("text %d: cosine %.7f", i, cos)
					}
					if usage.Tokens[i] != len(c.IDs) {
						t.Errorf("text %d: %d tokens, expected %d", i, usage.Tokens[i], len(c.IDs))
					}
				}
				if !slices.Equal(usage.Truncated, cut) {
					t.Errorf("texts %v were cut, expected %v", usage.Truncated, cut)
				}
				long := []string{strings.Repeat("long ", 100)}
				if _, err := m.Embed(context.Background(), long, EmbedOptions{NoTruncate: true}); !errors.Is(err, ErrTooLong) {
					t.Errorf("NoTruncate: %v", err)
				}
				if _, err := m.Embed(context.Background(), long, EmbedOptions{Usage: &usage}); err != nil || len(usage.Truncated) != 1 {
					t.Errorf("a long text: %v, %+v", err, usage)
				}
			})
		}
	}
}

// The default precision answers less exactly, and stays within its promise.
func TestDefaultPrecision(t *testing.T) {
	r := testmodels.Load(t, "bert")
	m := open(t, testmodels.Dir(t, "bert"), Options{})
	for i, c := range r.Cases {
		v, err := m.Embed(context.Background(), []string{c.Text}, EmbedOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if cos := cosine(v[0], c.Embedding); cos < 0.9995 {
			t.Errorf("text %d: cosine %.7f", i, cos)
		}
	}
}

func TestEmbedOptions(t *testing.T) {
	m := open(t, testmodels.Dir(t, "bert"), Options{Precision: "f32"})
	ctx := context.Background()
	whole, err := m.Embed(ctx, []string{"query: rain"}, EmbedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	short, err := m.Embed(ctx, []string{"rain"}, EmbedOptions{Dim: 8, Prompt: "query: "})
	if err != nil {
		t.Fatal(err)
	}
	if len(short[0]) != 8 || math.Abs(cosine(short[0], whole[0][:8])-1) > 1e-6 || math.Abs(cosine(short[0], short[0])-1) > 1e-6 {
		t.Errorf("%v is not the beginning of %v", short[0], whole[0][:8])
	}
	if n := norm(short[0]); math.Abs(n-1) > 1e-5 {
		t.Errorf("a cut vector of length %v", n)
	}
	// The directory ends with a module for unit length, which its file cannot say.
	own, err := m.Embed(ctx, []string{"query: rain"}, EmbedOptions{NoNormalize: true})
	if err != nil || !slices.Equal(own[0], whole[0]) {
		t.Errorf("NoNormalize undoes the model's own module: %v, %v", own, err)
	}
	file := open(t, testmodels.Dir(t, "gguf/bert-f16.gguf"), Options{Precision: "f32"})
	raw, err := file.Embed(ctx, []string{"query: rain"}, EmbedOptions{NoNormalize: true})
	if err != nil {
		t.Fatal(err)
	}
	if n := norm(raw[0]); math.Abs(n-1) < 1e-3 || math.Abs(cosine(raw[0], whole[0])-1) > 1e-4 {
		t.Errorf("NoNormalize gave a vector of length %v", n)
	}
	for _, o := range []EmbedOptions{{Pooling: "most"}, {Pooling: "mean+cls"}, {Dim: -1}} {
		if _, err := m.Embed(ctx, []string{"x"}, o); !errors.Is(err, ErrInput) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func norm(v []float32) float64 {
	var s float64
	for _, x := range v {
		s += float64(x) * float64(x)
	}
	return math.Sqrt(s)
}

// TestEmbedEmptyText: a blank line among others does not end the job, also
// where the tokenizer adds nothing to a text.
func TestEmbedEmptyText(t *testing.T) {
	for _, name := range []string{"bert", "llama", "gpt2"} {
		m := open(t, testmodels.Dir(t, name), Options{})
		vs, err := m.Embed(context.Background(), []string{"one", "", "two"}, EmbedOptions{})
		if err != nil || len(vs) != 3 || slices.Equal(vs[0], vs[1]) {
			t.Errorf("%s: %d vectors, %v", name, len(vs), err)
		}
	}
}

func TestEmbedIntoAllocatesNothing(t *testing.T) {
	for _, device := range devices {
		for _, parallel := range []string{"fine", "coarse"} {
			m := open(t, testmodels.Dir(t, "bert"), Options{Device: device, Parallel: parallel, Threads: 2})
			texts := []string{"A stitch in time saves nine.", "rain", "the boats had swung round", "to face the hills"}
			dst := make([]float32, len(texts)*m.Dim())
			usage := EmbedUsage{}
			ctx := context.Background()
			if n := testing.AllocsPerRun(5, func() {
				if err := m.EmbedInto(ctx, dst, texts, EmbedOptions{Usage: &usage}); err != nil {
					t.Fatal(err)
				}
			}); n != 0 {
				t.Errorf("%s, %s: %v allocations", device, parallel, n)
			}
		}
	}
}

func TestScoreTexts(t *testing.T) {
	r := testmodels.Load(t, "llama")
	m := open(t, testmodels.Dir(t, "llama"), Options{Precision: "f32"})
	texts := []string{""}
	for _, c := range r.Cases {
		texts = append(texts, c.Text)
	}
	got, err := m.Score(context.Background(), texts, ScoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got[0].NLL) != 0 || !math.IsNaN(got[0].Perplexity()) {
		t.Errorf("an empty text has %v", got[0])
	}
	for i, c := range r.Cases {
		var sum float64
		for k, want := range c.NLL {
			sum += want
			if diff := math.Abs(float64(got[i+1].NLL[k]) - want); diff > 2e-3*max(1, want) {
				t.Fatalf("text %d, token %d: off by %v", i, k, diff)
			}
		}
		if want := math.Exp(sum / float64(len(c.NLL))); len(c.NLL) > 0 && math.Abs(got[i+1].Perplexity()/want-1) > 1e-2 {
			t.Errorf("text %d: perplexity %v, expected %v", i, got[i+1].Perplexity(), want)
		}
	}
}

func TestErrorsAreTyped(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(text, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	bert := testmodels.Dir(t, "bert")
	for _, c := range []struct {
		path string
		o    Options
		want error
	}{
		{filepath.Join(dir, "none"), Options{}, ErrNotModel},
		{text, Options{}, ErrNotModel},
		{dir, Options{}, ErrNotModel},
		{bert, Options{Precision: "f64"}, ErrInput},
		{bert, Options{Device: "abacus"}, ErrInput},
		{bert, Options{Parallel: "both"}, ErrInput},
		{bert, Options{Threads: -1}, ErrInput},
		{bert, Options{Threads: 129}, ErrInput},
		{bert, Options{BatchTokens: 1 << 40}, ErrInput},
		{bert, Options{Ctx: 1}, ErrInput},
		{bert, Options{Ctx: 1 << 20}, ErrInput},
	} {
		if m, err := Open(c.path, c.o); !errors.Is(err, c.want) || m != nil {
			t.Errorf("%s %+v: %v, expected %v", c.path, c.o, err, c.want)
		}
	}
	m := open(t, bert, Options{})
	ctx := context.Background()
	if _, err := m.Complete(ctx, "x", GenerateOptions{}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("an encoder generates: %v", err)
	}
	if _, err := m.ChatPrompt(nil); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a chat without template: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Embed(ctx, []string{"x"}, EmbedOptions{}); !errors.Is(err, ErrClosed) {
		t.Errorf("embed after Close: %v", err)
	}
}

func TestCloseLeavesNoGoroutine(t *testing.T) {
	for _, device := range devices {
		before := runtime.NumGoroutine()
		m, err := Open(testmodels.Dir(t, "llama"), Options{Device: device, Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		for range m.Generate(context.Background(), "A stitch", GenerateOptions{Raw: true}) {
			break
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		for i := 0; runtime.NumGoroutine() > before; i++ {
			if i == 500 {
				buf := make([]byte, 1<<16)
				t.Fatalf("%s: %d goroutines, %d before:\n%s", device, runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// TestDamagedWeights: an answer that is no number is an error, never a result.
func TestDamagedWeights(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(testmodels.Dir(t, "bert"))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "model.safetensors")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(data) / 2; i < len(data); i++ {
		data[i] = 0xff // NaN as F32
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if v, err := m.Embed(context.Background(), []string{"a text"}, EmbedOptions{}); err == nil {
		t.Errorf("damaged weights gave %v", v[0][:3])
	}
}

// Every call says of damaged weights that they are damaged, by whatever kernels and
// sampling.
func TestDamagedWeightsOfADecoder(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(testmodels.Dir(t, "llama"))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "model.safetensors")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(data) / 4; i < len(data); i++ {
		data[i] = 0xff
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	m := open(t, dir, Options{})
	_, scored := m.Score(t.Context(), []string{"some text"}, ScoreOptions{})
	_, greedy := m.Complete(t.Context(), "some text", GenerateOptions{Raw: true})
	_, drawn := m.Complete(t.Context(), "some text", GenerateOptions{Raw: true, Temperature: 1, TopK: 5, RepeatPenalty: 1.1})
	for name, err := range map[string]error{"Score": scored, "Generate": greedy, "Generate at a temperature": drawn} {
		if err == nil || !strings.Contains(err.Error(), "its weights are damaged, or overflow at this precision") {
			t.Errorf("%s: %v, expected that the weights are damaged", name, err)
		}
	}
}

// TestCallsBesideClose: whatever is called while the model closes ends with a
// result or with ErrClosed, and never touches what is gone.
func TestCallsBesideClose(t *testing.T) {
	for range 10 {
		m, err := Open(testmodels.Dir(t, "bert"), Options{Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		var calls sync.WaitGroup
		for range 4 {
			calls.Go(func() {
				for {
					_, err := m.Info()
					if err == nil {
						_, err = m.Embed(context.Background(), []string{"some text"}, EmbedOptions{})
					}
					if errors.Is(err, ErrClosed) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		calls.Wait()
	}
}

func TestInfo(t *testing.T) {
	for _, name := range []string{"llama", "bert", "gguf/llama-q8_0.gguf"} {
		m := open(t, testmodels.Dir(t, name), Options{})
		i, err := m.Info()
		if err != nil {
			t.Fatal(err)
		}
		var params int64
		for _, d := range i.DTypes {
			params += d.Params
		}
		// Two operations a weight, embedding tables aside.
		if i.Layers == 0 || params < i.Params || i.FLOPsPerToken <= 0 || i.FLOPsPerToken > 4*i.Params || i.Device != "cpu" {
			t.Errorf("%s: %+v", name, i)
		}
	}
}

func TestQuickstartBuildsAndRuns(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "quickstart")
	build := exec.Command("go", "build", "-o", bin, ".")
	build.Dir = filepath.Join("examples", "quickstart")
	build.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\ngo mod tidy in %s where it asks for updates", err, out, build.Dir)
	}
	out, err := exec.Command(bin, testmodels.Dir(t, "bert"), "a stitch in time", "a stitch in time", "rain").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if lines := strings.Split(string(out), "\n"); len(lines) != 3 || lines[0] != "1.000 a stitch in time" || !strings.HasSuffix(lines[1], " rain") {
		t.Errorf("%s", out)
	}
}
