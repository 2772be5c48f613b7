package train

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotpath/internal/testmodels"
)

// A checkpoint has a model, an objective and adapters of its own: a run that
// names others is refused before it goes on with the checkpoint's.
func TestResumeWithAnotherModel(t *testing.T) {
	be := cpuBackend(t, 1)
	files := fixture(t, "llama")
	files.Steps, files.Warmup = 1, 0
	described := files
	described.Out, described.Model, described.Init = t.TempDir(), "", "random"
	described.Shape = &Shape{Architecture: "llama", DModel: 16, NLayers: 1, NHeads: 2, Context: 64, Tied: true, RopeTheta: 1e4, Tokenizer: "char"}
	for name, c := range map[string]struct {
		config Config
		field  string
		change func(c *Config)
	}{
		"files":     {files, "model", func(c *Config) { c.Model = testmodels.Dir(t, "gpt2") }},
		"objective": {files, "objective", func(c *Config) { c.Objective = ObjectiveConfig{Type: "distill", Teacher: c.Model} }},
		"lora":      {files, "lora", func(c *Config) { c.LoRA.Rank = 2 }},
		"shape": {described, "model", func(c *Config) {
			shape := *c.Shape
			shape.NLayers, c.Shape = 2, &shape
		}},
		"shape for files": {files, "model", func(c *Config) { c.Model, c.Shape, c.Init = "", described.Shape, "random" }},
	} {
		c.config.Out = t.TempDir()
		_, err := Run(t.Context(), c.config, Options{Backend: be})
		must(t, err)
		c.config.Steps = 2
		c.change(&c.config)
		_, err = Run(t.Context(), c.config, Options{Backend: be, Resume: "auto"})
		if !errors.Is(err, ErrCheckpoint) || !strings.Contains(err.Error(), "field "+c.field+":") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// A tokenizer's folder may move and sizes may be written out: the checkpoint's model
// is the same.
func TestResumeWithTheSameShape(t *testing.T) {
	c := fixture(t, "llama")
	c.Model, c.Init, c.Steps, c.Warmup = "", "random", 1, 0
	folder := filepath.Join(t.TempDir(), "before")
	must(t, os.CopyFS(folder, os.DirFS(testmodels.Dir(t, "llama"))))
	c.Shape = &Shape{Architecture: "llama", DModel: 16, NLayers: 1, NHeads: 2, Context: 64, Tied: true, RopeTheta: 1e4, Tokenizer: folder}
	_, err := Run(t.Context(), c, Options{Backend: cpuBackend(t, 1)})
	must(t, err)
	must(t, os.Rename(folder, folder+"-moved"))
	shape := *c.Shape
	shape.Tokenizer, shape.NKVHeads, shape.DFF = folder+"-moved", 2, 64
	c.Shape, c.Steps = &shape, 2
	res, err := Run(t.Context(), c, Options{Backend: cpuBackend(t, 1), Resume: "auto"})
	must(t, err)
	if res.Steps != 2 {
		t.Errorf("result %+v", res)
	}
	shape.Tokenizer = "char"
	if _, err := Run(t.Context(), c, Options{Backend: cpuBackend(t, 1), Resume: "auto"}); !errors.Is(err, ErrCheckpoint) {
		t.Errorf("error %v of another kind of tokenizer", err)
	}
}

// Defaults of LoRA may be written out, but the weights beside it must be the same.
func TestResumeWithTheSameLoRA(t *testing.T) {
	c := fixture(t, "llama")
	c.LoRA, c.Steps, c.Warmup, c.Schedule = LoRAConfig{Rank: 2}, 1, 0, "constant"
	_, err := Run(t.Context(), c, Options{Backend: cpuBackend(t, 1)})
	must(t, err)
	c.LoRA, c.Steps = LoRAConfig{Rank: 2, Alpha: 4, Roles: []string{"v", "q"}}, 2
	_, err = Run(t.Context(), c, Options{Backend: cpuBackend(t, 1), Resume: "auto"})
	must(t, err)
	merged := c
	merged.Model, merged.Steps = checkpointDir(c.Out, 2), 3
	if _, err := Run(t.Context(), merged, Options{Backend: cpuBackend(t, 1), Resume: "auto"}); !errors.Is(err, ErrCheckpoint) || !strings.Contains(err.Error(), "field model: ") {
		t.Errorf("error %v of adapters that would be merged twice", err)
	}
	c.LoRA.Alpha, c.Steps = 5, 3
	if _, err := Run(t.Context(), c, Options{Backend: cpuBackend(t, 1), Resume: "auto"}); !errors.Is(err, ErrCheckpoint) {
		t.Errorf("error %v of another alpha", err)
	}
}
