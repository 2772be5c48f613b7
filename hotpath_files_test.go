package hotpath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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

// A damaged description is an ErrInvalid or an ErrTruncated of whatever opens it, and
// names its file.
func TestDamagedFilesAreTyped(t *testing.T) {
	replace := func(old, now string) func(string) string {
		return func(s string) string {
			if !strings.Contains(s, old) {
				t.Fatalf("the fixture has no %q", old)
			}
			return strings.Replace(s, old, now, 1)
		}
	}
	field := func(name, value string) func(string) string {
		return func(s string) string { // of the top level: it comes first
			return `{"` + name + `": ` + value + "," + regexp.MustCompile(`(?s)"`+name+`": (null|\{.*?\n  \}),`).ReplaceAllString(s[1:], "")
		}
	}
	half := func(s string) string { return s[:len(s)/2] }
	behind := func(key, value string) func(string) string { // in GGUF, behind a key
		return func(s string) string {
			i := strings.Index(s, key)
			if i < 0 {
				t.Fatalf("the fixture has no %q", key)
			}
			i += len(key)
			return s[:i] + value + s[i+len(value):]
		}
	}
	strs := "\x09\x00\x00\x00\x08\x00\x00\x00G\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00"
	floats := "\x09\x00\x00\x00\x06\x00\x00\x00\xae\x01\x00\x00\x00\x00\x00\x00"
	for name, c := range map[string]struct {
		model, file string
		change      func(string) string
		tokens      bool // the tokenizer alone is damaged too
	}{
		"tokenizer.json cut short":            {"llama", "tokenizer.json", half, true},
		"tokenizer.json empty":                {"llama", "tokenizer.json", func(string) string { return "" }, true},
		"vocabulary id below 0":               {"llama", "tokenizer.json", replace(`"!": 3`, `"!": -5`), true},
		"post_processor a string":             {"llama", "tokenizer.json", field("post_processor", `"x"`), true},
		"tokenizer_config.json cut short":     {"llama", "tokenizer_config.json", half, true},
		"a layer without tensors":             {"llama", "config.json", replace(`"num_hidden_layers": 2`, `"num_hidden_layers": 3`), false},
		"a width without a number":            {"llama", "config.json", replace(`"hidden_size": `, `"hidden_size": "x", "was": `), false},
		"NUL in the folder of a module":       {"bert", "modules.json", replace(`"path":"1_Pooling"`, `"path": "1_Pool\u0000ing"`), false},
		"a folder of a module of 300 letters": {"bert", "modules.json", replace(`"path":"1_Pooling"`, `"path": "`+strings.Repeat("x", 300)+`"`), false},
		"model.safetensors cut short":         {"llama", "model.safetensors", half, false},
		"a merge of unknown tokens":           {"gguf/llama-f32.gguf", "", behind("tokenizer.ggml.merges", strs+"\x01 \x02\x03"), true},
		"a score that is no number":           {"gguf/embeddinggemma-f16.gguf", "", behind("tokenizer.ggml.scores", floats+"\x00\x00\xc0\x7f"), true},
		"an end that is no token":             {"gguf/llama-f32.gguf", "", behind("tokenizer.ggml.eos_token_id", "\x04\x00\x00\x00\xff\xff\x00\x00"), true},
		"a file of GGUF cut short":            {"gguf/llama-f32.gguf", "", half, true},
	} {
		path := filepath.Join(t.TempDir(), "model.gguf")
		file := path
		if from := testmodels.Dir(t, c.model); c.file != "" {
			path = t.TempDir()
			file = filepath.Join(path, c.file)
			if err := os.CopyFS(path, os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
		} else if data, err := os.ReadFile(from); err != nil || os.WriteFile(path, data, 0o600) != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(c.change(string(data))), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = Open(path, Options{})
		if !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrTruncated) || errors.Is(err, ErrInternal) || !strings.Contains(err.Error(), filepath.Base(path)) {
			t.Errorf("Open with %s: %v, expected an ErrInvalid or an ErrTruncated", name, err)
		}
		if _, err = OpenTokenizer(path); c.tokens && !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrTruncated) {
			t.Errorf("OpenTokenizer with %s: %v, expected an ErrInvalid or an ErrTruncated", name, err)
		}
	}
}
