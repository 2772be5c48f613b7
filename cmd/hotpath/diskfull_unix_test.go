//go:build unix

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"hotpath/internal/testmodels"
)

// fileLimit is how many bytes a file of a child process may have. Writing more
// fails in the middle, as it does on a full disk.
const fileLimit = "HOTPATH_TEST_FILE_LIMIT"

func init() {
	if n, err := strconv.ParseUint(os.Getenv(fileLimit), 10, 63); err == nil {
		signal.Ignore(syscall.SIGXFSZ)
		limit := syscall.Rlimit{}
		if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			panic(err)
		}
		limit.Cur = min(limit.Max, n)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			panic(err)
		}
	}
}

// limited runs a command whose files may have so many bytes.
func limited(t *testing.T, bytesPerFile int, args ...string) result {
	t.Helper()
	cmd := process(t, args...)
	cmd.Env = append(cmd.Env, fmt.Sprint(fileLimit, "=", bytesPerFile))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if _, ended := err.(*exec.ExitError); err != nil && !ended {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// fullCase is a command that writes more than fits.
type fullCase struct {
	name    string
	prepare func(t *testing.T, dir string)
	args    func(dir string) []string
	file    string // that the error names, in dir
	limit   int    // bytes that a file may have, or that the disk has left
	grows   string // beginning of the names of files that may change
}

// fullCases are all commands that write files.
func fullCases(t *testing.T) []fullCase {
	bert, llama := testmodels.Dir(t, "bert"), testmodels.Dir(t, "llama")
	texts := write(t, "texts.txt", strings.Repeat("some words of a text\n", 1500))
	recording := filepath.Join(t.TempDir(), "recording.json")
	ok(t, "score", "-m", llama, "some words", "--profile="+recording)
	config := trainConfig(t, "llama", map[string]any{"steps": 1, "keep": 1})
	old := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	to := func(args ...string) func(string) []string {
		return func(dir string) []string {
			out := make([]string, len(args))
			for i, a := range args {
				out[i] = strings.ReplaceAll(a, "DIR", dir)
			}
			return out
		}
	}
	return []fullCase{
		{"convert", old("out.gguf"), to("convert", llama, "-o", "DIR/out.gguf", "--type", "F32"), "out.gguf", 64 << 10, ""},
		{"convert without any space", old("out.gguf"), to("convert", llama, "-o", "DIR/out.gguf"), "out.gguf", 0, ""},
		{"quantize", old("out.gguf"), to("quantize", testmodels.Dir(t, "gguf/llama-f32.gguf"), "DIR/out.gguf", "F16"), "out.gguf", 64 << 10, ""},
		{"embed", old("out.npy"), to("embed", "-m", bert, "-f", texts, "-o", "DIR/out.npy"), "out.npy", 64 << 10, ""},
		{"embed jsonl", old("out.jsonl"), to("embed", "-m", bert, "-f", texts, "-o", "DIR/out.jsonl"), "out.jsonl", 64 << 10, ""},
		{"profile export", old("out.html"), to("profile", "export", recording, "-o", "DIR/out.html"), "out.html", 8 << 10, ""},
		{"profile", old("out.json"), to("score", "-m", llama, "some words", "--profile=DIR/out.json"), "out.json", 4 << 10, ""},
		{"profile compare", old("out.json"), to("profile", "compare", recording, recording, "-o", "DIR/out.json"), "out.json", 0, ""},
		{"train", func(t *testing.T, dir string) { ok(t, "train", config, "-o", filepath.Join(dir, "out")) },
			to("train", config, "-o", "DIR/out", "--set", "steps=2", "--resume", "auto"), "out/step-00000002/model.safetensors", 64 << 10, "out/log."},
		{"train log", func(t *testing.T, dir string) {}, to("train", config, "-o", "DIR/out", "--set", "steps=300"), "out/log.jsonl", 4 * 4096, "out"},
	}
}

// check fails unless the command failed with one line that names the file and
// the reason, and left everything as it was.
func (c fullCase) check(t *testing.T, dir string, r result, before map[string]string, reason string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(r.err, "\n"), "\n")
	last := lines[len(lines)-1]
	if r.status != exitFailed || !strings.HasPrefix(last, "hotpath: ") || !strings.Contains(last, filepath.Join(dir, c.file)+": cannot be written: "+reason) {
		t.Errorf("exit %d: %q, expected one line with %s and %q", r.status, last, c.file, reason)
	}
	after := files(t, dir)
	for name, text := range after {
		if was, ok := before[name]; c.grows != "" && strings.Contains(name, "tfevents") {
			if !wholeRecords(text) {
				t.Errorf("%s ends with %q, expected a whole record", name, text[max(0, len(text)-20):])
			}
		} else if c.grows != "" && strings.HasPrefix(name, c.grows) {
			if !strings.HasSuffix(text, "\n") {
				t.Errorf("%s ends with %q, expected a whole line", name, text[max(0, len(text)-20):])
			}
		} else if !ok || was != text {
			t.Errorf("%s is new or changed: %.40q", name, text)
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			t.Errorf("%s is gone", name)
		}
	}
	if a, b := strings.Count(after["out/log.jsonl"], "\n"), strings.Count(after["out/log.csv"], "\n"); a > 0 && a != b-1 {
		t.Errorf("%d steps in one log, %d in the other", a, b-1)
	}
	for name := range after {
		if strings.HasPrefix(filepath.Base(name), ".") {
			t.Errorf("left behind: %s", name)
		}
	}
}

// wholeRecords reports whether a log of TensorBoard's has nothing behind its last
// record: a length, two checksums and as many bytes.
func wholeRecords(log string) bool {
	for len(log) >= 16 {
		n := 16 + binary.LittleEndian.Uint64([]byte(log))
		if n > uint64(len(log)) {
			return false
		}
		log = log[n:]
	}
	return log == ""
}

func TestFileTooLarge(t *testing.T) {
	for _, c := range fullCases(t) {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			c.prepare(t, dir)
			before := files(t, dir)
			c.check(t, dir, limited(t, c.limit, c.args(dir)...), before, "file too large")
		})
	}
}

// With --resume what was written stays certain, and a later run completes it.
func TestResumeAfterFileTooLarge(t *testing.T) {
	bert := testmodels.Dir(t, "bert")
	texts := write(t, "texts.txt", strings.Repeat("some words of a text\n", 1500))
	for _, format := range []string{"jsonl", "npy", "csv"} {
		dir := t.TempDir()
		whole, out := filepath.Join(dir, "whole."+format), filepath.Join(dir, "out."+format)
		ok(t, "embed", "-m", bert, "-f", texts, "-o", whole, "--invariant")
		args := []string{"embed", "-m", bert, "-f", texts, "-o", out, "--resume"}
		r := limited(t, 64<<10, args...)
		if r.status != exitFailed || strings.Count(r.err, "\n") != 1 || !strings.Contains(r.err, out+": cannot be written: file too large") {
			t.Errorf("%s: exit %d: %q", format, r.status, r.err)
		}
		if have := files(t, dir); len(have) != 3 || have["out."+format+".resume"] == "" {
			t.Errorf("%s: %d files, expected the output with its state", format, len(have))
		}
		ok(t, args...)
		if have := files(t, dir); have["out."+format] != have["whole."+format] {
			t.Errorf("%s: another file than that of one run", format)
		}
	}
}

// A pull that fails says which file, and goes on later.
func TestPullAfterFileTooLarge(t *testing.T) {
	pretendHub(t)
	r := limited(t, 16<<10, "pull", hubModel)
	if r.status != exitFailed || !strings.Contains(r.err, "file too large") || strings.Contains(r.err, "goroutine") {
		t.Errorf("exit %d: %q", r.status, r.err)
	}
	t.Log(r.err)
	ok(t, "pull", hubModel)
}

// Go's own profiles are written completely or the command fails.
func TestGoProfilesTooLarge(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "pprof")
	r := limited(t, 0, "score", "-m", testmodels.Dir(t, "llama"), "some words", "--pprof="+folder)
	if r.status != exitFailed || !strings.Contains(r.err, filepath.Join(folder, execTrace)+": cannot be written: file too large") {
		t.Errorf("exit %d: %q", r.status, r.err)
	}
	if have := files(t, folder); len(have) != 0 {
		t.Errorf("left behind: %v", have)
	}
}
