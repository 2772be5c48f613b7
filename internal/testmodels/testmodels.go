// Package testmodels locates the models that tests run on, and holds what other
// implementations answer on them. Only tests import it.
//
// Small random models with their references are committed under testdata, made by
// scripts/goldens_models.py and scripts/goldens_train.py. The two real models are
// fetched by scripts/fetch_models.sh; a test that wants one is skipped without it.
//
// Errors end the test that asked: a missing fixture is a broken checkout.
package testmodels

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Reference is what transformers answers on a fixture (reference.json of a Hugging
// Face directory, or FILE.json beside gguf/FILE.gguf).
type Reference struct {
	Kind      string // "lm" or "embed"
	Pooling   string // of an encoder: mean, cls or last
	MaxTokens int    `json:"max_tokens"` // of an encoder: longer texts are cut to this
	Cases     []Case
	Hidden    Hidden
}

// Case is one text and the answers to it. An lm has NLL to Margins, an encoder the rest.
type Case struct {
	Text string
	IDs  []int // what the model saw; lm: without special tokens
	// NLL[i] is -log p(IDs[i+1] | IDs[..i]), natural logarithm.
	NLL []float64
	// Greedy continues IDs by the best token; Margins says by how many logits it was the
	// best, so that a test can stop where rounding may decide.
	Greedy  []int
	Margins []float64
	// FullIDs are the ids before the text was cut to MaxTokens; nil when it was not.
	FullIDs   []int                `json:"full_ids"`
	Embedding []float32            // [width], the model's own pooling, unit length
	Pooled    map[string][]float32 // mean, cls, last: [width], unit length
	Norms     map[string]float64   // of Pooled before it was made unit length
}

// Hidden is the last token's state of one case: after the embedding and after every
// block, the last one behind the final norm where the model has one. GGUF references
// keep the last one only.
type Hidden struct {
	Case      int
	LastToken [][]float32 `json:"last_token"` // [layers+1][width]
}

// Dir gives the path of a fixture under testdata: a directory such as "llama", or a
// file such as "gguf/llama-q8_0", whose name may have its ".gguf".
func Dir(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(root(t), "internal", "testmodels", "testdata", filepath.FromSlash(name))
	_, err := os.Stat(path)
	if err != nil {
		if _, gguf := os.Stat(path + ".gguf"); gguf == nil {
			return path + ".gguf"
		}
		t.Fatalf("testmodels: no fixture %q: %v", name, err)
	}
	return path
}

// Load reads the reference of a fixture: Load(t, "llama"), Load(t, "gguf/llama-q8_0").
func Load(t testing.TB, name string) Reference {
	t.Helper()
	path := filepath.Join(root(t), "internal", "testmodels", "testdata", filepath.FromSlash(name))
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "reference.json")
	} else {
		path += ".json"
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("testmodels: no reference for %q: %v", name, err)
	}
	var r Reference
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatalf("testmodels: %s: %v", path, err)
	}
	return r
}

// Real gives the path of a real model, "all-MiniLM-L6-v2" or
// "SmolLM2-135M-Instruct.Q4_1.gguf", in $HOTPATH_MODELS or .cache/models, and skips
// the test when it was not fetched.
func Real(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("HOTPATH_MODELS")
	if dir == "" {
		dir = filepath.Join(root(t), ".cache", "models")
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is not there; scripts/fetch_models.sh fetches it", path)
	} else if err != nil {
		t.Fatalf("testmodels: %v", err)
	}
	return path
}

// RealOrInside is Real for tests that hold for any trained model: where the real
// one was not fetched, it gives the file of the model inside the program that
// does the same work.
func RealOrInside(t testing.TB, name string) string {
	t.Helper()
	dir := cmp.Or(os.Getenv("HOTPATH_MODELS"), filepath.Join(root(t), ".cache", "models"))
	if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
		return Real(t, name)
	}
	inside := "hotpath-embedder.gguf"
	if strings.HasPrefix(name, "SmolLM2") {
		inside = "hotpath-generator.gguf"
	}
	return filepath.Join(root(t), "internal", "builtin", inside)
}

// Mine reports whether a process runs case i of a list: every one, unless several
// processes share the list. Of these HOTPATH_TEST_PART=2/8 has every eighth case, from
// the second one on.
func Mine(t testing.TB, i int) bool {
	t.Helper()
	part := os.Getenv("HOTPATH_TEST_PART")
	if part == "" {
		return true
	}
	var k, n int
	if _, err := fmt.Sscanf(part, "%d/%d", &k, &n); err != nil || k < 1 || k > n {
		t.Fatalf("testmodels: HOTPATH_TEST_PART=%q, expected 2/8 or the like", part)
	}
	return i%n == k-1
}

// root is the repository's root. Tests run in their package's directory, so go.mod is
// above; the path compiled into the binary would be wrong under -trimpath.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatalf("testmodels: %v", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("testmodels: no go.mod above the working directory")
		}
		dir = up
	}
}
