package testmodels

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Except has fixtures that a test leaves out, by name, and why.
type Except map[string]string

// What this build does not read. The model package's tests hold that each of these
// is refused, so that an entry goes when its reason does.
var (
	UnreadWeights   = Except{}
	UnreadTokenizer = Except{}
)

// All names every fixture with a reference, directories first: "llama", "gguf/llama-f32".
// They are read from testdata, so that a test sees a new one without being told.
func All(t testing.TB) []string {
	t.Helper()
	data := filepath.Join(root(t), "internal", "testmodels", "testdata")
	var names []string
	for _, pattern := range []string{"*/reference.json", "gguf/*.gguf"} {
		found, err := filepath.Glob(filepath.Join(data, filepath.FromSlash(pattern)))
		if err != nil || len(found) == 0 {
			t.Fatalf("testmodels: nothing is %s under %s: %v", pattern, data, err)
		}
		for _, f := range found {
			rel, err := filepath.Rel(data, f)
			if err != nil {
				t.Fatalf("testmodels: %v", err)
			}
			name := strings.TrimSuffix(filepath.ToSlash(rel), "/reference.json")
			names = append(names, strings.TrimSuffix(name, ".gguf"))
		}
	}
	return names
}

// Decoders names the fixtures that are language models, less the exceptions.
func Decoders(t testing.TB, except ...Except) []string {
	t.Helper()
	return ofKind(t, "lm", except)
}

// Encoders names the fixtures that embed, less the exceptions.
func Encoders(t testing.TB, except ...Except) []string {
	t.Helper()
	return ofKind(t, "embed", except)
}

func ofKind(t testing.TB, kind string, except []Except) []string {
	t.Helper()
	all := All(t)
	for _, e := range except {
		for name := range e {
			if !slices.Contains(all, name) {
				t.Fatalf("testmodels: %q is an exception, but no fixture", name)
			}
		}
	}
	return slices.DeleteFunc(all, func(name string) bool {
		if Load(t, name).Kind != kind {
			return true
		}
		for _, e := range except {
			if why, ok := e[name]; ok {
				t.Logf("without %s: %s", name, why)
				return true
			}
		}
		return false
	})
}

// Directories keeps the fixtures in Hugging Face's layout, for tests above the reading
// of files, to which a GGUF file of the same model is the same model again.
func Directories(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.Contains(name, "/") })
}

// Trained names the fixtures with a training run: LoadTraining reads it.
func Trained(t testing.TB) []string {
	t.Helper()
	files, err := os.ReadDir(Dir(t, "train"))
	if err != nil {
		t.Fatalf("testmodels: %v", err)
	}
	var names []string
	for _, f := range files {
		if name, ok := strings.CutSuffix(f.Name(), ".json"); ok {
			names = append(names, name)
		}
	}
	return names
}
