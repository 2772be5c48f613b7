package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"hotpath/internal/engine"
	"hotpath/internal/testmodels"
)

// asCommand makes the test binary behave as hotpath, so that signals and pipes
// are tested on a real process.
const asCommand = "HOTPATH_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		resumeEvery = 10 * time.Millisecond
		commands = append(commands, newHang)
		main()
	}
	os.Exit(m.Run())
}

// newHang is a command that says when it runs and when it was interrupted, and
// does not end.
func newHang(std streams) *cobra.Command {
	return &cobra.Command{Use: "hang", RunE: func(cmd *cobra.Command, _ []string) error {
		fmt.Fprintln(std.out, "running")
		<-cmd.Context().Done()
		fmt.Fprintln(std.out, "interrupted")
		select {}
	}}
}

func process(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	return cmd
}

// converse starts a process whose lines a test writes and reads one by one.
func converse(t *testing.T, args ...string) (cmd *exec.Cmd, in io.WriteCloser, out *bufio.Reader) {
	t.Helper()
	cmd = process(t, args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, in, bufio.NewReader(pipe)
}

// A variable that a script never set is not the same as a flag that is not given.
func TestEmptyNames(t *testing.T) {
	bert := testmodels.Dir(t, "bert")
	for _, args := range [][]string{
		{"embed", "-m", bert, "one", "-o", ""},
		{"embed", "-m", bert, "one", "-f", ""},
		{"convert", bert, "-o", ""},
		{"perplexity", "-m", bert, "-f", ""},
		{"quantize", "in.gguf", "", "Q8_0"},
		{"quantize", "in.gguf", "out.gguf", "Q8_0", "--imatrix", ""},
		{"quantize", "in.gguf", "out.gguf", "Q8_0", "--output-type", ""},
		{"quantize", "", "out.gguf", "Q8_0"},
		{"train", ""},
		{"inspect", ""},
		{"convert", "", "-o", "out.gguf"},
		{"tokenizer", "train", "texts.txt", "", "-o", "tok"},
		{"bench", "compare", "", "b"},
		{"profile", "show", ""},
		{"profile", "export", "", "-o", "out.html"},
		{"profile", "compare", "a.json,", "b.json"},
		{"rm", "a", ""},
		{"embed", "-m", "", "one"},
		{"bench", "rope", "-m", ""},
		{"tokenize", "-m", "", "one"},
		{"embed", "-m", bert, "one", "--profile="},
		{"embed", "-m", bert, "one", "--pprof", ""},
		{"train", "config.json", "--resume", ""},
		{"train", "config.json", "-o", ""},
		{"tokenizer", "train", "texts.txt", "-o", ""},
		{"profile", "run", "-m", bert, "-o", ""},
		{"profile", "deep", "-o", ""},
		{"profile", "compare", "a.json", "b.json", "-o", ""},
		{"profile", "export", "a.json", "-o", ""},
		{"study", "cache", "-o", ""},
	} {
		fails(t, exitUsage, args, "expected ", "the name")
	}
	for _, c := range [][]string{
		{"bench", "compare", "a", "b", "--fail-above", "", "a percentage such as 3%"},
		{"profile", "compare", "a", "b", "--fail-above", "", "a percentage such as 3%"},
		{"embed", "-m", bert, "one", "--format", "", "text, json"},
		{"info", "--device", "", cardNames()},
		// The message names the argument.
		{"bench", "compare", "a", "", "NEW is empty, expected the name of a file"},
		{"profile", "compare", "", "b", "A is empty, expected the name of a file"},
		{"profile", "compare", "a.json,", "b.json", `A is "a.json,", expected the name of a file before and after each comma`},
		{"train", "", "CONFIG.json is empty, expected the name of a file"},
	} {
		last := len(c) - 1
		fails(t, exitUsage, c[:last], "expected ", c[last])
	}
}

func TestWrongUsage(t *testing.T) {
	bert, llama := testmodels.Dir(t, "bert"), testmodels.Dir(t, "llama")
	for _, c := range []struct {
		args string
		word string
	}{
		{"frobnicate", "unknown command"},
		{"embde text", `unknown command "embde" for "hotpath"; did you mean embed?`},
		{"profile frobnicate", "unknown command"},
		{"info --frobnicate", "unknown flag"},
		{"info extra", "unknown command"},
		{"info --threads -1", "--threads"},
		{"info --threads many", "--threads"},
		{"info --threads 129", "expected 0 to 128"},
		{"bench rope --threads 129", "expected 0 to 128"},
		{"bench rope --device null", "expected auto or cpu"},
		{"study whatif -m " + bert + " --device null", "expected auto or cpu"},
		{"profile run -m " + bert + " --device null", "expected auto or cpu"},
		{"quantize a b Q8_0 --threads 129", "expected 0 to 128"},
		{"inspect", "accepts 1 arg"},
		{"inspect a --format csv", "text, json"},
		{"rerank query text", "-m MODEL is missing"},
		{"embed -m " + bert, "no text"},
		{"embed -m " + bert + " text -f file", "not from both"},
		{"embed -m " + bert + " text --format xml", "jsonl"},
		{"embed -m " + bert + " text -o vectors.txt", "its ending names no format, expected .json, .jsonl"},
		{"embed -m " + bert + " text -o vectors", "its ending names no format"},
		{"embed -m " + bert + " text --pooling most", "mean, cls, last"},
		{"embed -m " + bert + " text --parallel both", "fine, coarse"},
		{"embed -m " + bert + " text --batch-tokens -1", "--batch-tokens"},
		{"embed -m " + bert + " text --threads -2", "--threads"},
		{"embed -m " + bert + " text --precision f64", "f32, bf16 or auto"},
		{"embed -m " + bert + " text --device abacus", "cpu"},
		{"embed -m " + bert + " text --device cpu:x", `--device "cpu:x", expected cpu or cpu:N with the number of a device from 0`},
		{"embed -m " + bert + " text --device cpu:", "expected cpu or cpu:N"},
		{"embed -m " + bert + " text --device auto:0", "expected auto without a number"},
		{"train config.json --device cpu:x", "expected cpu or cpu:N"},
		{"info --device cpu", `--device "cpu", expected ` + cardNames()},
		{"info --device auto", "expected " + cardNames()},
		{"info --device abacus", "expected " + cardNames()},
		{"embed -m " + bert + " text --profile=report.doc", ".pprof"},
		{"embed -m " + bert + " text --input xml", "jsonl"},
		{"embed -m " + bert + " text --task cooking", "code-retrieval"},
		{"embed -m " + bert + " text --task query", "none"},
		{"embed -m " + bert + " text --task query --prompt x", "exclude"},
		{"embed -m " + bert + " text --chunk --truncate=false", "exclude"},
		{"embed -m " + bert + " text --overlap 3", "--chunk"},
		{"embed -m " + bert + " text --chunk --overlap 9999", "overlap of 9999 tokens, expected 0 to"},
		{"embed -m " + bert + " text --quantize int4", "binary"},
		{"embed -m " + bert + " text --resume", "-o FILE"},
		{"embed -m " + bert + " text --resume -o x --format json", "jsonl, csv, npy or bin"},
		{"run -m " + llama, "no text"},
		{"run -m " + llama + " -p x y", "not from both"},
		{"run -m " + llama + " -p x -n -1", "-n"},
		{"run -m " + llama + " -p x --temp -1", "--temp"},
		{"run -m " + llama + " -p x --temp NaN", "--temp"},
		{"run -m " + llama + " -p x --top-p 2", "--top-p"},
		{"run -m " + llama + " -p x --min-p -1", "--min-p"},
		{"run -m " + llama + " -p x --top-k -1", "--top-k"},
		{"run -m " + llama + " -p x --seed -1", "--seed"},
		{"run -m " + llama + " -p x --seed 1e3", `invalid argument "1e3" for "--seed" flag: expected an integer from 0 (`},
		{"run -m " + llama + " -p x --seed 99999999999999999999", "expected an integer from 0 that fits 64 bits ("},
		{"run -m " + llama + " -p x -n many", `for "-n, --tokens" flag: expected an integer (`},
		{"run -m " + llama + " -p x --temp hot", "expected a number ("},
		{"run -m " + llama + " -p x --temp 1e300", "expected a number that fits 32 bits ("},
		{"embed -m " + bert + " text --dim 1e3", "expected an integer ("},
		{"embed -m " + bert + " text --dim 0", "--dim 0, expected 1 or more"},
		{"embed -m " + bert + " text --dim -1", "--dim -1, expected 1 or more"},
		{"similar -m " + bert + " query text --dim 0", "--dim 0, expected 1 or more"},
		{"embed -m " + bert + " text --normalize=perhaps", "expected true or false ("},
		{"bench rope --time fast", "expected a duration such as 500ms or 2s ("},
		{"profile show f --top all", "expected an integer ("},
		{"run -m " + llama + " -p x --ctx 100000", "512 positions"},
		{"score -m " + llama + " x --ctx -1", "--ctx"},
		{"help frobnicate", "unknown help topic"},
		{"train", "accepts 1 arg"},
		{"train config.json --precision int8", "f32, bf16 or auto"},
		{"train config.json --precision f64", "f32, bf16 or auto"},
		{"profile show", "accepts 1 arg"},
		{"profile show f --by size", "--by"},
		{"profile export f", "-o OUT"},
		{"profile export f -o report.doc", ".pprof"},
	} {
		fails(t, exitUsage, strings.Fields(c.args), c.word, "--help")
	}
}

// Devices with a number that is none are wrong usage in builds that have them.
func TestWrongDeviceNumbers(t *testing.T) {
	for _, kind := range engine.CardKinds() {
		for _, number := range []string{"", "-1", "first", "1:1"} {
			for _, args := range [][]string{
				{"info", "--device", kind + ":" + number},
				{"embed", "-m", testmodels.Dir(t, "bert"), "text", "--device", kind + ":" + number},
			} {
				fails(t, exitUsage, args, "--device", "expected "+kind+" or "+kind+":N")
			}
		}
	}
}

func TestFailures(t *testing.T) {
	bert, llama := testmodels.Dir(t, "bert"), testmodels.Dir(t, "llama")
	none := filepath.Join(t.TempDir(), "none")
	fails(t, exitFailed, []string{"embed", "-m", none, "text"}, none)
	fails(t, exitFailed, []string{"embed", "-m", bert, "-f", none}, none)
	fails(t, exitFailed, []string{"embed", "-m", bert, "-f", t.TempDir()}, "directory")
	fails(t, exitFailed, []string{"embed", "-m", bert, "text", "--dim", "99999"}, "--dim 99999")
	fails(t, exitFailed, []string{"embed", "-m", bert, "text", "-o", none + "/out.jsonl"}, "out.jsonl")
	fails(t, exitFailed, []string{"embed", "-m", bert, "text", "-o", t.TempDir()}, "directory")
	fails(t, exitFailed, []string{"inspect", t.TempDir()}, "config.json")
	fails(t, exitFailed, []string{"run", "-m", bert, "-p", "text"}, "bert")
	fails(t, exitFailed, []string{"score", "-m", bert, "text"}, "bert")
	fails(t, exitFailed, []string{"score", "-m", llama, strings.Repeat("word ", 600)}, "argument 1", "too long")
	fails(t, exitFailed, []string{"run", "-m", llama, "-p", strings.Repeat("word ", 600)}, "too long")
	fails(t, exitFailed, []string{"tokenize", "-m", llama, "--decode", "1 x"}, "argument 1", `"x"`)
	fails(t, exitFailed, []string{"train", write(t, "config.json", `{"lr": "much"}`)}, "lr")
}

// Whatever stands in a model's file, every command answers with one line.
func TestHostileModels(t *testing.T) {
	sound, err := os.ReadFile(testmodels.Dir(t, "gguf/llama-q8_0.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{
		"empty.gguf":    {},
		"noise.gguf":    []byte("this is no model at all"),
		"magic.gguf":    []byte("GGUF"),
		"counts.gguf":   append([]byte("GGUF\x03\x00\x00\x00"), strings.Repeat("\xff", 16)...),
		"line\nend":     []byte("x"),
		"half.gguf":     sound[:len(sound)/2],
		"lastbyte.gguf": sound[:len(sound)-64],
	}
	dir := t.TempDir()
	for name, data := range files {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{
			{"inspect", path},
			{"tokenize", "-m", path, "x"},
			{"embed", "-m", path, "x"},
			{"run", "-m", path, "-p", "x"},
			{"score", "-m", path, "x"},
		} {
			fails(t, exitFailed, args)
		}
	}
	for name, content := range map[string]string{
		"model.safetensors": "\xff\xff\xff\xff\xff\xff\xff\x7f{}",
		"tokenizer.json":    `{"model": {"type": "BPE", "vocab": 3}}`,
		"config.json":       `{"model_type": "bert", "hidden_size": 1e300}`,
	} {
		hf := t.TempDir()
		if err := os.CopyFS(hf, os.DirFS(testmodels.Dir(t, "bert"))); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(hf, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		fails(t, exitFailed, []string{"embed", "-m", hf, "x"}, name)
		fails(t, exitFailed, []string{"profile", "show", path}, name)
	}
}

func TestForcedTier(t *testing.T) {
	cmd := process(t, "info")
	cmd.Env = append(cmd.Env, "HOTPATH_CPU=abacus")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitFailed || !strings.Contains(string(out), "HOTPATH_CPU") {
		t.Errorf("%v: %s", err, out)
	}
}

// Another program keeps embed or score as a co-process: one line, one answer.
func TestCoProcess(t *testing.T) {
	for _, c := range [][]string{
		{"embed", "-m", testmodels.Dir(t, "bert"), "-f", "-", "--format", "jsonl"},
		{"score", "-m", testmodels.Dir(t, "llama"), "-f", "-", "--format", "jsonl"},
		{"tokenize", "-m", testmodels.Dir(t, "llama"), "-f", "-"},
		{"run", "-m", testmodels.Dir(t, "llama"), "-f", "-", "--format", "jsonl", "-n", "2"},
	} {
		cmd, in, answers := converse(t, c...)
		for _, question := range []string{"first", "second", "and third"} {
			if _, err := io.WriteString(in, question+"\n"); err != nil {
				t.Fatal(err)
			}
			// The process is killed after a minute, so a missing answer is an error.
			if line, err := answers.ReadString('\n'); err != nil {
				t.Fatalf("%s: no answer to %q: %v %q", c[0], question, err, line)
			}
		}
		in.Close()
		if rest, err := io.ReadAll(answers); err != nil || len(rest) != 0 {
			t.Errorf("%s: %q was left (%v)", c[0], rest, err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", c[0], err)
		}
	}
}

func TestInterrupt(t *testing.T) {
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(s.String(), func(t *testing.T) { interrupt(t, s) })
	}
}

func interrupt(t *testing.T, s os.Signal) {
	cmd := process(t, "embed", "-m", testmodels.Dir(t, "bert"), "-f", "-", "--format", "csv")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, "a text\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted || errs.String() != "hotpath: interrupted\n" {
		t.Errorf("%v: %q", err, errs.String())
	}
}
