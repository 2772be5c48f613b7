package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"hotpath/internal/atomicfile"
	"hotpath/internal/format/gguf"
	"hotpath/internal/testmodels"
	"hotpath/internal/weights"
)

// splitModel is a fixture as a set of two GGUF files.
func splitModel(t *testing.T, name string) string {
	t.Helper()
	in, err := weights.Open(testmodels.Dir(t, name))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	dir, names := t.TempDir(), in.Names()
	part := func(i int) string { return filepath.Join(dir, fmt.Sprintf("m-%05d-of-00002.gguf", i+1)) }
	for i := range 2 {
		var w gguf.Writer
		err := errors.Join(w.Set("split.no", uint16(i)), w.Set("split.count", uint16(2)), w.Set("split.tensors.count", int32(len(names))))
		if i == 0 {
			for _, key := range in.GGUF().Keys() {
				v, _ := in.GGUF().Value(key)
				err = errors.Join(err, w.SetValue(key, v))
			}
		}
		for j, name := range names {
			if j%2 == i {
				d, getErr := in.Get(name)
				err = errors.Join(err, getErr, w.Add(name, d.DType, d.Dims, d.Data))
			}
		}
		if err := errors.Join(err, w.WriteFile(part(i))); err != nil {
			t.Fatal(err)
		}
	}
	return part(0)
}

// nested is a sentence-transformers model whose transformer has its own folder.
func nested(t *testing.T, from string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	inner := filepath.Join(dir, "0_Transformer")
	if err := os.Mkdir(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "sentence_bert_config.json"} {
		if err := os.Rename(filepath.Join(dir, name), filepath.Join(inner, name)); err != nil {
			t.Fatal(err)
		}
	}
	modules := filepath.Join(dir, "modules.json")
	text, err := os.ReadFile(modules)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(modules, []byte(strings.Replace(string(text), `"path": ""`, `"path": "0_Transformer"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Whichever kind of model training began with, every command opens the
// checkpoint's folder, with the tokenizer, pooling and prompts of that model.
func TestCheckpointOpensAsTheModelDid(t *testing.T) {
	sentence, err := filepath.Abs("../../internal/model/testdata/encoders/qwen3-embedding")
	if err != nil {
		t.Fatal(err)
	}
	for name, model := range map[string]string{
		"directory": testmodels.Dir(t, "llama"), "gguf": testmodels.Dir(t, "gguf/llama-q8_0.gguf"), "gpt2 gguf": testmodels.Dir(t, "gguf/gpt2-f16.gguf"),
		"split gguf": splitModel(t, "gguf/llama-f16.gguf"), "sentence": sentence, "nested": nested(t, sentence),
	} {
		t.Run(name, func(t *testing.T) {
			// With this rate no weight changes, so that answers are the same.
			config := trainConfig(t, "llama", map[string]any{"model": model, "lr": 1e-30, "seq_len": 16})
			out := filepath.Join(t.TempDir(), "out")
			ok(t, "train", config, "-o", out, "--set", "steps=1")
			ok(t, "train", config, "-o", out, "--resume", "auto")
			checkpoint := filepath.Join(out, "step-00000002")
			ok(t, "inspect", checkpoint)
			if a, b := ok(t, "tokenize", "-m", model, "some words"), ok(t, "tokenize", "-m", checkpoint, "some words"); a != b {
				t.Errorf("tokens %q, of the model %q", b, a)
			}
			embed := []string{"embed", "some words", "--precision", "f32", "--format", "jsonl", "-m"}
			if name == "sentence" || name == "nested" {
				embed = append([]string{"embed", "--prompt", "query"}, embed[1:]...)
			}
			type answer struct{ Embedding []float64 }
			was, is := lines[answer](t, ok(t, append(embed, model)...)), lines[answer](t, ok(t, append(embed, checkpoint)...))
			if len(was) != 1 || len(is) != 1 || len(was[0].Embedding) != len(is[0].Embedding) {
				t.Fatalf("%v, of the model %v", is, was)
			}
			for i, x := range is[0].Embedding {
				if math.Abs(x-was[0].Embedding[i]) > 1e-3 {
					t.Fatalf("element %d of the vector is %g, of the model %g", i, x, was[0].Embedding[i])
				}
			}
			generate := []string{"run", "--raw", "-p", "some words", "-n", "3", "--temp", "0", "--precision", "f32", "-m"}
			if a, b := ok(t, append(generate, model)...), ok(t, append(generate, checkpoint)...); a != b {
				t.Errorf("goes on with %q, the model with %q", b, a)
			}
			if left, err := fs.Glob(os.DirFS(out), ".*"); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// Ready-made configurations are named, printed and taken in place of a file, and
// what is wrong with a configuration is one line that says what was meant.
func TestReadyMadeConfigs(t *testing.T) {
	for line := range strings.Lines(ok(t, "train", "--list-configs")) {
		name := strings.Fields(line)[0]
		text := ok(t, "train", name, "--list-configs")
		ok(t, "train", name, "--validate")
		ok(t, "train", write(t, "c.json", text), "--validate")
	}
	fails(t, exitFailed, []string{"train", "--list-configs", "none"}, "expected one of the ready-made configurations gpt2-124m")
	data := "data=" + testmodels.Dir(t, "shakespeare.txt")
	plan := ok(t, "train", "shakespeare-char", "--set", data, "--dry-run")
	if !strings.Contains(plan, "parameters") {
		t.Errorf("--dry-run: %q", plan)
	}
	out := filepath.Join(t.TempDir(), "out")
	ok(t, "train", "shakespeare-char", "--set", data, "--set", "steps=2", "--set", "warmup=1", "-o", out)
	ok(t, "run", "-m", filepath.Join(out, "step-00000002"), "--raw", "-p", "ROMEO", "-n", "3")
	for set, want := range map[string]string{
		"lerning_rate=1":       `unknown field "lerning_rate", did you mean lr?`,
		"steps=many":           "field steps: expected an integer, found \"many\"",
		"model.d_model=130":    "field model.d_model: expected a multiple of n_heads (4), such as 128 or 132, found 130",
		"model.vocab=4":        "field model.vocab: vocab size 4, expected at least 50: special tokens, and an alphabet of 49",
		"model.tokenizer=none": "none/tokenizer.json: no such file",
		"data=none.txt":        "none.txt",
	} {
		fails(t, exitFailed, []string{"train", "shakespeare-char", "--set", data, "--set", set, "--dry-run"}, want)
	}
}

// A folder that cannot be written is one clear line before anything is read,
// and leaves nothing.
func TestTrainWithoutAFolder(t *testing.T) {
	config := trainConfig(t, "llama", map[string]any{"data": "missing.txt"})
	file := write(t, "file", "not a folder")
	fails(t, exitFailed, []string{"train", config, "-o", filepath.Join(file, "out")}, "field out: ", file)
	if os.Getuid() == 0 {
		return // who may write everywhere
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	fails(t, exitFailed, []string{"train", config, "-o", filepath.Join(dir, "out")}, "field out: ", "permission denied")
}

// files are the contents of a folder and of those in it.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var data []byte
			data, err = os.ReadFile(filepath.Join(dir, name))
			out[name] = string(data)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// loggedSteps are the losses of a run's log.
func loggedSteps(t *testing.T, out string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(out, "log.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var losses []string
	for line := range bytes.Lines(data) {
		var s struct {
			Step int
			Loss json.Number
			Norm json.Number `json:"grad_norm"`
			Val  json.Number `json:"val_loss"`
		}
		if err := json.Unmarshal(line, &s); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		losses = append(losses, fmt.Sprint(s.Step, " ", s.Loss, " ", s.Norm, " ", s.Val))
	}
	return losses
}

// trainUntil starts a run as a process and returns when it has made n steps.
// Its standard error goes on to be read.
func trainUntil(t *testing.T, n int, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	cmd := process(t, args...)
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said, lines := &bytes.Buffer{}, bufio.NewScanner(pipe)
	for i := 0; i < n && lines.Scan(); i++ {
		fmt.Fprintln(said, lines.Text())
	}
	return cmd, said
}

// killsWanted is how many times TestTrainAfterKill kills; make kill-test sets it.
const killsWanted = "HOTPATH_TEST_KILLS"

// TestTrainAfterKill: whatever moment SIGKILL comes at, the next run is not
// held up by the lock of the dead one, and ends as one run would have ended.
// Every other kill waits until a checkpoint is being written.
func TestTrainAfterKill(t *testing.T) {
	random := rand.New(rand.NewPCG(9, uint64(os.Getpid())))
	config := trainConfig(t, "llama", map[string]any{"steps": 40, "checkpoint_every": 1,
		"dropout": 0.1, "skip_above": 4, "validation": map[string]any{"share": 0.2, "every": 3}})
	dir := t.TempDir()
	whole, out := filepath.Join(dir, "whole"), filepath.Join(dir, "out")
	ok(t, "train", config, "-o", whole)
	args := []string{"train", config, "-o", out, "--resume", "auto"}
	kills := 8
	if testing.Short() {
		kills = 3
	}
	if n, err := strconv.Atoi(os.Getenv(killsWanted)); err == nil {
		kills = n
	}
	killed, writing := 0, 0
	half := func() bool { // of a checkpoint is there
		left, err := fs.Glob(os.DirFS(out), ".tmp-*")
		return err == nil && len(left) > 0
	}
	for i := range kills {
		steps := 1 + random.IntN(3)
		if kills >= 20 {
			steps = 1 // so that the run does not end before the last kill
		}
		cmd, said := trainUntil(t, steps, args...)
		for try := 0; i%2 == 1 && try < 1000 && !half(); try++ {
			time.Sleep(100 * time.Microsecond)
		}
		if i%2 == 0 {
			time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
		}
		_ = cmd.Process.Kill()
		var exit *exec.ExitError
		if err := cmd.Wait(); errors.As(err, &exit) && exit.Exited() {
			t.Fatalf("exit %d after %q", exit.ExitCode(), said)
		} else if err != nil {
			killed++
			if half() {
				writing++
			}
		}
	}
	t.Logf("killed %d times, %d of them while a checkpoint was written", killed, writing)
	if kills >= 20 && writing == 0 {
		t.Error("no kill came while a checkpoint was written")
	}
	if killed == 0 {
		t.Error("every run ended before it was killed")
	}
	ok(t, args...)
	if a, b := loggedSteps(t, whole), loggedSteps(t, out); fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("steps of one run and of killed ones differ:\n%v\n%v", a, b)
	}
	if a, b := files(t, whole)["best.json"], files(t, out)["best.json"]; a == "" || a != b {
		t.Errorf("the best step is %s of one run, %s of killed ones", a, b)
	}
	a, b := files(t, filepath.Join(whole, "step-00000040")), files(t, filepath.Join(out, "step-00000040"))
	for name := range a {
		if a[name] != b[name] && name != "train.json" { // its out is another
			t.Errorf("%s differs after kills", name)
		}
	}
	for name := range files(t, out) {
		if base := filepath.Base(name); strings.HasPrefix(base, ".") || strings.HasPrefix(name, ".") {
			t.Errorf("left behind: %s", name)
		}
	}
}

// A run at work keeps others out of its folder; one that was killed does not.
func TestTrainLock(t *testing.T) {
	config := trainConfig(t, "llama", map[string]any{"steps": 1 << 20})
	out := filepath.Join(t.TempDir(), "out")
	cmd, _ := trainUntil(t, 2, "train", config, "-o", out)
	for _, more := range [][]string{nil, {"--resume", "auto"}} {
		fails(t, exitFailed, append([]string{"train", config, "-o", out}, more...), out, fmt.Sprint("pid ", cmd.Process.Pid, " on "))
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the run ended before it was killed")
	}
	if _, err := os.Stat(filepath.Join(out, ".lock")); err != nil {
		t.Errorf("%v: expected the dead process to leave its lock", err)
	}
	ok(t, "train", config, "-o", out, "--set", "steps=2")
	if n := len(loggedSteps(t, out)); n != 2 {
		t.Errorf("%d steps in the log, expected 2", n)
	}
}

// Two commands do not write one file: the second is told who does, and changes
// nothing.
func TestOneWriterPerFile(t *testing.T) {
	llama, bert := testmodels.Dir(t, "llama"), testmodels.Dir(t, "bert")
	for name, args := range map[string][]string{
		"convert":  {"convert", llama, "-o", "OUT"},
		"quantize": {"quantize", testmodels.Dir(t, "gguf/llama-f32.gguf"), "OUT", "Q8_0"},
		"embed":    {"embed", "-m", bert, "one", "-o", "OUT", "--format", "csv", "--resume"},
	} {
		dir := t.TempDir()
		out := filepath.Join(dir, "out")
		for i, a := range args {
			if a == "OUT" {
				args[i] = out
			}
		}
		lock, err := atomicfile.Lock(out)
		if err != nil {
			t.Fatal(err)
		}
		fails(t, exitFailed, args, out+": another process writes it: ", fmt.Sprint("pid ", os.Getpid(), " on "))
		if have := files(t, dir); len(have) != 1 {
			t.Errorf("%s: %v, expected nothing but the lock", name, have)
		}
		if err := lock.Release(); err != nil {
			t.Fatal(err)
		}
		ok(t, args...)
		for file := range files(t, dir) {
			if strings.HasPrefix(file, ".") {
				t.Errorf("%s: left behind: %s", name, file)
			}
		}
	}
}
