package hotpath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"hotpath/internal/testmodels"
	"hotpath/profile"
	"hotpath/profile/export"
)

// Whatever opens a file by its path wraps what the file system says, and names
// the path.
func TestFileErrorsAreWrapped(t *testing.T) {
	llama, dir := testmodels.Dir(t, "llama"), t.TempDir()
	file, dangling := filepath.Join(dir, "file"), filepath.Join(dir, "dangling")
	if err := errors.Join(os.WriteFile(file, []byte("text"), 0o600), os.Symlink(filepath.Join(dir, "gone"), dangling)); err != nil {
		t.Fatal(err)
	}
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	trained := func(change func(*TrainConfig), o TrainOptions) error {
		c := DefaultTrainConfig()
		c.Model, c.Data, c.Out, c.Steps = llama, []string{file}, filepath.Join(dir, "out"), 1
		change(&c)
		_, err := Train(t.Context(), c, o)
		if _, planErr := PlanTraining(t.Context(), c, TrainOptions{}); o.Resume == "" && (planErr == nil || err == nil || planErr.Error() != err.Error()) {
			t.Errorf("Train: %v, PlanTraining: %v", err, planErr)
		}
		return err
	}
	for name, open := range map[string]func(path string) error{
		"Open":               func(path string) error { _, err := Open(path, Options{}); return err },
		"OpenTokenizer":      func(path string) error { _, err := OpenTokenizer(path); return err },
		"CalibratePrecision": func(path string) error { _, err := CalibratePrecision(t.Context(), path, Options{}); return err },
		"ReadTrainConfig":    func(path string) error { _, err := ReadTrainConfig(path); return err },
		"Train, model":       func(path string) error { return trained(func(c *TrainConfig) { c.Model = path }, TrainOptions{}) },
		"Train, data": func(path string) error {
			return trained(func(c *TrainConfig) { c.Data = []string{path} }, TrainOptions{})
		},
		"Train, resume":    func(path string) error { return trained(func(*TrainConfig) {}, TrainOptions{Resume: path}) },
		"profile.ReadFile": func(path string) error { _, err := profile.ReadFile(path); return err },
		"export.Export":    func(path string) error { return export.Export(filepath.Join(path, "p.json"), &profile.Profile{}) },
	} {
		cases := map[string]error{
			filepath.Join(dir, "missing"):               fs.ErrNotExist,
			filepath.Join(dir, "missing", "model.gguf"): fs.ErrNotExist,
			dangling:                                     fs.ErrNotExist,
			filepath.Join(file, "below"):                 syscall.ENOTDIR,
			filepath.Join(loop, "below"):                 syscall.ELOOP,
			filepath.Join(dir, strings.Repeat("x", 300)): syscall.ENAMETOOLONG,
		}
		if locked := filepath.Join(dir, "locked"); os.Geteuid() != 0 { // nothing is locked for root
			if err := os.MkdirAll(locked, 0); err != nil {
				t.Fatal(err)
			}
			cases[filepath.Join(locked, "model.gguf")] = fs.ErrPermission
		}
		for path, want := range cases {
			err := open(path)
			if !errors.Is(err, want) || !strings.Contains(err.Error(), filepath.Base(path)) {
				t.Errorf("%s of %s: %v, expected %v", name, path, err, want)
			}
			if missing := errors.Is(want, fs.ErrNotExist); strings.HasPrefix(name, "Open") && missing && !errors.Is(err, ErrNotModel) {
				t.Errorf("%s of %s: %v, expected ErrNotModel too", name, path, err)
			}
		}
	}
	// A folder where a file is expected.
	if _, err := profile.ReadFile(dir); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("profile.ReadFile of a folder: %v", err)
	}
	if _, err := ReadTrainConfig(dir); !errors.Is(err, ErrTrainConfig) {
		t.Errorf("ReadTrainConfig of a folder: %v", err)
	}
	if _, err := Open(dir, Options{}); !errors.Is(err, ErrNotModel) || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open of a folder without a model: %v", err)
	}
	// A description whose link leads nowhere is not taken for one that is missing.
	for _, name := range []string{"config.json", "tokenizer.json", "model.safetensors"} {
		model := t.TempDir()
		if err := os.CopyFS(model, os.DirFS(llama)); err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(model, name)
		if err := errors.Join(os.Remove(at), os.Symlink("gone", at)); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(model, Options{}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), name+": a link to gone") {
			t.Errorf("%s is a link to nowhere: %v", name, err)
		}
	}
}
