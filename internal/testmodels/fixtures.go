package testmodels

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// All names every fixture with a reference, directories first: "llama", "gguf/llama-f32".
// They are read from testdata, so that a test sees a new one without being told.
func All(t testing.TB) []string {
	t.Helper()
	data := filepath.Join(root(t), "internal", "testmodels", "testdata")
	var names []string
	for _, pattern := range []string{"*/reference.json", "gguf/*.gguf"} {
		found, err := fs.Glob(os.DirFS(data), pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("testmodels: nothing is %s under %s: %v", pattern, data, err)
		}
		for _, f := range found {
			name := strings.TrimSuffix(f, "/reference.json")
			names = append(names, strings.TrimSuffix(name, ".gguf"))
		}
	}
	return names
}

// Decoders names the fixtures that are language models.
func Decoders(t testing.TB) []string { return ofKind(t, "lm") }

// Encoders names the fixtures that embed.
func Encoders(t testing.TB) []string { return ofKind(t, "embed") }

func ofKind(t testing.TB, kind string) []string {
	t.Helper()
	return slices.DeleteFunc(All(t), func(name string) bool { return Load(t, name).Kind != kind })
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
