package hotpath

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/testmodels"
	"hotpath/internal/tokenizer"
)

// withPrompts is a copy of a fixture with the prompts of sentence-transformers.
func withPrompts(t testing.TB, name, config string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(testmodels.Dir(t, name))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config_sentence_transformers.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestPrompts(t *testing.T) {
	const config = `{"prompts": {"query": "search: ", "passage": "text: ", "odd": "odd "}, "default_prompt_name": "odd"}`
	m := open(t, withPrompts(t, "bert", config), Options{Precision: "f32"})
	ctx := context.Background()
	embed := func(text string, o EmbedOptions) []float32 {
		t.Helper()
		v, err := m.Embed(ctx, []string{text}, o)
		if err != nil {
			t.Fatal(err)
		}
		return v[0]
	}
	for _, c := range []struct {
		o    EmbedOptions
		text string
	}{
		{EmbedOptions{}, "odd rain"},
		{EmbedOptions{NoPrompt: true}, "rain"},
		{EmbedOptions{Task: "query"}, "search: rain"},
		{EmbedOptions{Task: "Retrieval Query"}, "search: rain"},
		{EmbedOptions{Task: "document"}, "text: rain"},
		{EmbedOptions{PromptName: "passage"}, "text: rain"},
		{EmbedOptions{Prompt: "of mine: "}, "of mine: rain"},
	} {
		if got, want := embed("rain", c.o), embed(c.text, EmbedOptions{NoPrompt: true}); !slices.Equal(got, want) {
			t.Errorf("%+v is not the vector of %q", c.o, c.text)
		}
	}
	for _, o := range []EmbedOptions{
		{Task: "cooking"}, {Task: "clustering"}, {PromptName: "none"}, {Task: "query", Prompt: "x"}, {NoPrompt: true, PromptName: "query"},
	} {
		if _, err := m.Embed(ctx, []string{"x"}, o); !errors.Is(err, ErrInput) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if info, err := m.Info(); err != nil || info.DefaultPrompt != "odd" || info.Prompts["passage"] != "text: " || info.TaskPrompts["document"] != "text: " {
		t.Errorf("%+v, %v", info, err)
	}
	for config, words := range map[string]string{
		`{"prompts": ["a"]}`:               "prompts",
		`{"prompts": {"a": 1}}`:            "prompts",
		`{"default_prompt_name": "query"}`: "default_prompt_name",
	} {
		if _, err := Open(withPrompts(t, "bert", config), Options{}); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", config, err)
		}
	}
}

// EmbeddingGemma's card names eight prompts; files in GGUF carry none of them.
func TestTasksOfEmbeddingGemma(t *testing.T) {
	m := open(t, testmodels.Dir(t, "gguf/embeddinggemma-f16.gguf"), Options{Precision: "f32"})
	info, err := m.Info()
	if err != nil {
		t.Fatal(err)
	}
	if len(info.TaskPrompts) != 8 || !slices.Equal(info.TrainedDims, []int{128, 256, 512, 768}) {
		t.Errorf("%v, %v", info.TaskPrompts, info.TrainedDims)
	}
	for task, want := range map[string]string{
		"query":              "task: search result | query: ",
		"document":           "title: none | text: ",
		"question-answering": "task: question answering | query: ",
		"fact-verification":  "task: fact checking | query: ",
		"classification":     "task: classification | query: ",
		"clustering":         "task: clustering | query: ",
		"similarity":         "task: sentence similarity | query: ",
		"code-retrieval":     "task: code retrieval | query: ",
	} {
		got, err := m.Embed(context.Background(), []string{"rain"}, EmbedOptions{Task: task})
		if err != nil {
			t.Fatal(err)
		}
		plain, err := m.Embed(context.Background(), []string{want + "rain"}, EmbedOptions{})
		if err != nil || !slices.Equal(got[0], plain[0]) || info.TaskPrompts[task] != want {
			t.Errorf("%s: %q is not before the text, %v", task, want, err)
		}
	}
}

func TestChunks(t *testing.T) {
	m := open(t, testmodels.Dir(t, "bert"), Options{Precision: "f32"})
	ctx := context.Background()
	words := strings.Repeat("rain fell on the harbour and boats swung round ", 30)
	ids := m.tok.Encode(nil, words, tokenizer.Options{}, nil)
	frame := m.tok.Encode(nil, "", tokenizer.Options{Special: true}, nil)
	if len(frame) != 2 {
		t.Fatalf("special tokens %v, expected two", frame)
	}
	const size, overlap = 20, 5
	var want []float64
	chunks, tokens := 0, 0
	for from := 0; ; from += size - 2 - overlap {
		to := min(from+size-2, len(ids))
		seq := append(append([]int32{frame[0]}, ids[from:to]...), frame[1])
		p, err := m.embedPlan(EmbedOptions{})
		if err != nil {
			t.Fatal(err)
		}
		v := make([]float32, m.Dim())
		if err := m.eng.EmbedIDs(ctx, [][]int32{seq}, v, p.model); err != nil {
			t.Fatal(err)
		}
		want = append(want, make([]float64, m.Dim()-len(want))...)
		for i, x := range v {
			want[i] += float64(x) * float64(to-from)
		}
		chunks++
		tokens += len(seq)
		if to == len(ids) {
			break
		}
	}
	var usage EmbedUsage
	got, err := m.Embed(ctx, []string{"short", words}, EmbedOptions{Chunk: true, ChunkTokens: size, ChunkOverlap: overlap, Usage: &usage})
	if err != nil {
		t.Fatal(err)
	}
	var norm float64
	for _, x := range want {
		norm += x * x
	}
	for i, x := range want {
		if d := math.Abs(x/math.Sqrt(norm) - float64(got[1][i])); d > 1e-5 {
			t.Fatalf("element %d is off by %v", i, d)
		}
	}
	if !slices.Equal(usage.Chunks, []int{1, chunks}) || usage.Tokens[1] != tokens || len(usage.Truncated) != 0 {
		t.Errorf("%+v, expected %d chunks of %d tokens", usage, chunks, tokens)
	}
	plain, err := m.Embed(ctx, []string{"short"}, EmbedOptions{})
	if err != nil || !slices.Equal(plain[0], got[0]) {
		t.Errorf("a short text changes where long ones are split (%v)", err)
	}
	// A stream splits in the same way, and a cut vector has unit length.
	o := EmbedOptions{Chunk: true, ChunkTokens: size, ChunkOverlap: overlap, Dim: 8, Prompt: "about: "}
	once, err := m.Embed(ctx, []string{words}, o)
	if err != nil || math.Abs(cosine(once[0], once[0])-1) > 1e-6 {
		t.Fatalf("%v, %v", once, err)
	}
	for e, err := range m.EmbedStream(ctx, source([]string{words}), o) {
		if err != nil || !slices.Equal(e.Vector, once[0]) || e.Chunks < chunks {
			t.Errorf("%+v, %v", e, err)
		}
	}
	for _, o := range []EmbedOptions{
		{Chunk: true, ChunkTokens: 2}, {Chunk: true, ChunkTokens: -1}, {Chunk: true, ChunkTokens: 1 << 20},
		{Chunk: true, ChunkTokens: 20, ChunkOverlap: 18}, {Chunk: true, ChunkOverlap: -1}, {ChunkTokens: 20},
	} {
		if _, err := m.Embed(ctx, []string{"x"}, o); !errors.Is(err, ErrInput) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestDimensions(t *testing.T) {
	m := open(t, testmodels.Dir(t, "bert"), Options{})
	for _, dim := range []int{-1, m.Dim() + 1} {
		if _, err := m.Embed(context.Background(), []string{"x"}, EmbedOptions{Dim: dim}); !errors.Is(err, ErrInput) {
			t.Errorf("%d dimensions: %v", dim, err)
		}
	}
	if v, err := m.Embed(context.Background(), []string{"x"}, EmbedOptions{Dim: m.Dim()}); err != nil || len(v[0]) != m.Dim() {
		t.Errorf("all dimensions: %v", err)
	}
}

func TestQuantizedVectors(t *testing.T) {
	v := []float32{0.5, -1, 0.25, 0, 1e-9, -1e-9, 0.125, -0.5, 0.75}
	q := make([]int8, len(v))
	if scale := QuantizeInt8(q, v); scale != float32(1)/127 || !slices.Equal(q, []int8{64, -127, 32, 0, 0, 0, 16, -64, 95}) {
		t.Errorf("%v %v", scale, q)
	}
	if scale := QuantizeInt8(q, make([]float32, 9)); scale != 0 || slices.Max(q) != 0 {
		t.Errorf("zeros: %v %v", scale, q)
	}
	// numpy.packbits(v > 0) is [170, 128].
	bits := []byte{1, 1}
	if QuantizeBinary(bits, v); bits[0] != 0b10101010 || bits[1] != 0b10000000 {
		t.Errorf("%b", bits)
	}
}

// truncate_dim of a directory cuts vectors as sentence-transformers does: what
// the last module made, without making it unit length again, unless asked to.
func TestDirectoryCutsVectors(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "model")
	if err := os.CopyFS(dir, os.DirFS(testmodels.Dir(t, "bert"))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config_sentence_transformers.json"), []byte(`{"truncate_dim": 12}`), 0o600); err != nil {
		t.Fatal(err)
	}
	embed := func(m *Model, o EmbedOptions) []float32 {
		t.Helper()
		v, err := m.Embed(context.Background(), []string{"some words"}, o)
		if err != nil {
			t.Fatal(err)
		}
		return v[0]
	}
	whole := embed(open(t, testmodels.Dir(t, "bert"), Options{Precision: "f32"}), EmbedOptions{})
	m := open(t, dir, Options{Precision: "f32"})
	if got := embed(m, EmbedOptions{NoNormalize: true}); m.Dim() != 12 || !slices.Equal(got, whole[:12]) {
		t.Errorf("%d dimensions, %v, expected the first 12 of %v", m.Dim(), got, whole)
	}
	if got := embed(m, EmbedOptions{}); len(got) != 12 || math.Abs(norm(got)-1) > 1e-5 {
		t.Errorf("%d dimensions of length %v", len(got), norm(got))
	}
	if got := embed(m, EmbedOptions{Dim: len(whole)}); !slices.Equal(got, whole) {
		t.Errorf("all dimensions are %v, expected %v", got, whole)
	}
}

// A static table makes zeros of a text without tokens, alone and among others,
// and its stages see them, as in sentence-transformers.
func TestEmptyTextsOfStaticTables(t *testing.T) {
	dirs := filepath.Join("internal", "model", "testdata", "encoders")
	for _, parallel := range []string{"fine", "coarse", "auto"} {
		m := open(t, filepath.Join(dirs, "static"), Options{Precision: "f32", Parallel: parallel, Threads: 2})
		alone, err := m.Embed(context.Background(), []string{""}, EmbedOptions{})
		if err != nil || slices.ContainsFunc(alone[0], func(x float32) bool { return x != 0 }) {
			t.Fatalf("%v, %v", alone, err)
		}
		with, err := m.Embed(context.Background(), []string{"", "some words", "", ""}, EmbedOptions{})
		if err != nil || slices.ContainsFunc(with[2], func(x float32) bool { return x != 0 }) || math.Abs(norm(with[1])-1) > 1e-5 {
			t.Errorf("%v, %v", with, err)
		}
		// Many of them, in calls of all sizes, while auto tries ways out.
		for n := 1; n <= 4096; n *= 4 {
			for range 4 {
				many, err := m.Embed(context.Background(), slices.Repeat([]string{"", "some words", ""}, n), EmbedOptions{})
				if err != nil || len(many) != 3*n || !slices.Equal(many[3*n-2], with[1]) || !slices.Equal(many[3*n-1], with[2]) {
					t.Fatalf("%s, %d texts: %v, or other vectors", parallel, 3*n, err)
				}
				if _, err := m.Embed(context.Background(), make([]string, n), EmbedOptions{}); err != nil {
					t.Fatalf("%s, %d empty texts: %v", parallel, n, err)
				}
			}
		}
	}
	for e, err := range open(t, filepath.Join(dirs, "static"), Options{}).EmbedStream(context.Background(), func(yield func(string, error) bool) { yield("", nil) }, EmbedOptions{}) {
		if err != nil || len(e.Vector) == 0 {
			t.Errorf("%v, %v", e, err)
		}
	}
	m := open(t, filepath.Join(dirs, "static-dense"), Options{Precision: "f32"})
	v, err := m.Embed(context.Background(), []string{""}, EmbedOptions{NoNormalize: true})
	// What sentence-transformers answers.
	want := []float64{0.173091, 0.192693, -0.172028, -0.159603, 0.158157, -0.036546, -0.052598, 0.053236, 0.170326, -0.100942, 0.141331, -0.159013}
	if err != nil || len(v[0]) != 12 {
		t.Fatalf("%v, %v", v, err)
	}
	for i, x := range want {
		if math.Abs(float64(v[0][i])-x) > 1e-5 {
			t.Errorf("%v, expected %v", v[0], want)
			break
		}
	}
}
