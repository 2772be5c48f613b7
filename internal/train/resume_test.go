package train

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/testmodels"
	"hotpath/internal/weights"
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

// A damaged file of a checkpoint is the checkpoint's fault, not that of the data or
// of the field model.
func TestResumeWithDamagedFiles(t *testing.T) {
	c := fixture(t, "llama")
	c.Out, c.Steps, c.Warmup = t.TempDir(), 1, 0
	be := cpuBackend(t, 1)
	_, err := Run(t.Context(), c, Options{Backend: be})
	must(t, err)
	c.Steps = 2
	for _, name := range []string{"tokenizer.json", "config.json"} {
		file := filepath.Join(checkpointDir(c.Out, 1), name)
		whole, err := os.ReadFile(file)
		must(t, err)
		must(t, os.WriteFile(file, whole[:len(whole)/2], 0o600))
		_, err = Run(t.Context(), c, Options{Backend: be, Resume: "auto"})
		if !errors.Is(err, ErrCheckpoint) || !errors.Is(err, weights.ErrInvalid) || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "field ") {
			t.Errorf("%s cut short: error %v", name, err)
		}
		must(t, os.WriteFile(file, whole, 0o600))
	}
	files := c
	files.Model, files.Out = t.TempDir(), t.TempDir()
	must(t, os.CopyFS(files.Model, os.DirFS(testmodels.Dir(t, "llama"))))
	must(t, os.WriteFile(filepath.Join(files.Model, "tokenizer.json"), []byte("{"), 0o600))
	if _, err := Run(t.Context(), files, Options{Backend: be}); !errors.Is(err, weights.ErrInvalid) || !strings.HasPrefix(err.Error(), "field model: ") {
		t.Errorf("a model with a damaged tokenizer: error %v", err)
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

// The checkpoint has no copy of a reference, a teacher or the base of adapters: files
// with other contents are refused although their shapes fit, and a copy elsewhere is
// not.
func TestResumeWithOtherFilesBesideTheModel(t *testing.T) {
	be := cpuBackend(t, 1)
	preferences := strings.Repeat(`{"prompt":"Hi ","chosen":"Good day","rejected":"What"}`+"\n", 6)
	vectors := func(v float32) string {
		rows := make([][]float32, 6)
		for i := range rows {
			rows[i] = slices.Repeat([]float32{v}, 32)
		}
		return npy(t, rows)
	}
	for name, c := range map[string]struct {
		model, file, text string
		set               func(c *Config, path string)
		field             string
	}{
		"reference": {"llama", "a.jsonl", preferences, func(c *Config, path string) {
			c.Objective = ObjectiveConfig{Type: "dpo", Reference: path}
		}, "objective.reference"},
		"the model as reference": {"llama", "a.jsonl", preferences, func(c *Config, path string) {
			c.Objective.Type, c.Model = "dpo", path
		}, "objective.reference"},
		"teacher": {"llama", "a.txt", "some words of a text", func(c *Config, path string) {
			c.Objective = ObjectiveConfig{Type: "distill", Teacher: path}
		}, "objective.teacher"},
		"teacher of vectors": {"bert", "a.jsonl", strings.Repeat(`{"text":"one"}`+"\n", 6), func(c *Config, path string) {
			c.Objective = ObjectiveConfig{Type: "distill_embedding", Teacher: path}
		}, "objective.teacher"},
		"vectors": {"bert", "a.jsonl", strings.Repeat(`{"text":"one"}`+"\n", 6), func(c *Config, path string) {
			v := float32(1)
			if strings.Contains(path, "other") {
				v = 2
			}
			c.Objective = ObjectiveConfig{Type: "distill_embedding", Vectors: vectors(v)}
		}, "objective.vectors"},
		"base": {"llama", "a.txt", "some words of a text", func(c *Config, path string) {
			c.Model, c.LoRA.Rank = path, 2
		}, "model"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			first, moved, other := filepath.Join(dir, "first"), filepath.Join(dir, "moved"), filepath.Join(dir, "other")
			for _, to := range []string{first, moved, other} {
				must(t, os.CopyFS(to, os.DirFS(testmodels.Dir(t, c.model))))
			}
			changeLastByte(t, filepath.Join(other, "model.safetensors"))
			cfg := fixture(t, c.model)
			cfg.Data = []string{write(t, dir, c.file, c.text)}
			cfg.Steps, cfg.Warmup = 1, 0
			run := func(path string, steps int) error {
				cfg.Steps = steps
				c.set(&cfg, path)
				_, err := Run(t.Context(), cfg, Options{Backend: be, Resume: "auto"})
				return err
			}
			must(t, run(first, 1))
			must(t, run(moved, 2))
			if err := run(other, 3); !errors.Is(err, ErrCheckpoint) || !strings.Contains(err.Error(), "field "+c.field+":") || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v", err)
			}
		})
	}
}

// changeLastByte changes the last weight of a file and nothing of its shape.
func changeLastByte(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	data[len(data)-2] ^= 1
	must(t, os.WriteFile(path, data, 0o644))
}

// The best evaluation is the best of one set of data.
func TestResumeWithOtherValidationData(t *testing.T) {
	c := fixture(t, "llama")
	c.Steps, c.Warmup = 1, 0
	c.Validation.Data = []string{write(t, t.TempDir(), "a.txt", "some words of a text")}
	_, err := Run(t.Context(), c, Options{Backend: cpuBackend(t, 1)})
	must(t, err)
	first := c.Validation.Data
	other := []string{write(t, t.TempDir(), "b.txt", "other words of a text")}
	refused := func() {
		t.Helper()
		c.Steps, c.Validation.Data = c.Steps+1, other
		if _, err := Run(t.Context(), c, Options{Backend: cpuBackend(t, 1), Resume: "auto"}); !errors.Is(err, ErrCheckpoint) || !strings.Contains(err.Error(), "field validation.data:") {
			t.Errorf("error %v", err)
		}
	}
	refused()
	for _, data := range [][]string{nil, first} { // a run may go on without, and with the same again
		c.Validation.Data = data
		_, err = Run(t.Context(), c, Options{Backend: cpuBackend(t, 1), Resume: "auto"})
		must(t, err)
		refused()
	}
}
