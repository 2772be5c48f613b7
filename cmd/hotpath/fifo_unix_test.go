//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"hotpath/internal/testmodels"
)

func fifoIn(t *testing.T, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip("no FIFOs here")
	}
	return path
}

// holdOpen opens a FIFO to write as soon as somebody reads it, and writes
// nothing. It gives up when ctx ends.
func holdOpen(ctx context.Context, path string) *os.File {
	for ctx.Err() == nil {
		if f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
			return f
		}
	}
	return nil
}

// stalled are command lines that wait for the other end of the FIFO %.
func stalled(t *testing.T) []string {
	bert, llama := testmodels.Dir(t, "bert"), testmodels.Dir(t, "llama")
	reranker := filepath.Join("..", "..", "internal", "model", "testdata", "encoders", "rerank-bert")
	return []string{
		"tokenize -m " + bert + " -f %",
		"embed -m " + bert + " -f % --format jsonl",
		"rerank -m " + reranker + " query -f %",
		"similar query -m " + bert + " -f %",
		"run -m " + llama + " -f %",
		"score -m " + llama + " -f %",
		"perplexity -m " + llama + " --ctx 8 -f %",
		"profile show %",
		"profile export % -o p.html",
		"profile compare % %",
		"bench compare % %",
	}
}

// An interrupt ends a command that waits for a FIFO, in open(2) or in read(2).
func TestInterruptWhileWaitingForAFIFO(t *testing.T) {
	lines := append(stalled(t), "embed -m "+testmodels.Dir(t, "bert")+" text --format csv -o %")
	for _, line := range lines {
		for _, writer := range []bool{false, true} {
			if writer && strings.HasSuffix(line, "-o %") {
				continue // opening it is all that it waits for
			}
			path := fifoIn(t, t.TempDir(), "fifo")
			line := strings.ReplaceAll(strings.ReplaceAll(line, "%", path), "p.html", path+".html")
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan result, 1)
			go func() {
				var out, errs bytes.Buffer
				status := execute(ctx, strings.Fields(line), streams{strings.NewReader(""), &out, &errs})
				done <- result{status, out.String(), errs.String()}
			}()
			if writer {
				if f := holdOpen(t.Context(), path); f != nil {
					defer f.Close()
				}
			}
			cancel()
			if r := <-done; r.status != exitInterrupted || r.err != "hotpath: interrupted\n" {
				t.Errorf("%s (with a writer: %v): status %d, %q", line, writer, r.status, r.err)
			}
		}
	}
}

// The same of a pipe as standard input that nobody writes to.
func TestInterruptWhileWaitingForInput(t *testing.T) {
	for _, line := range stalled(t) {
		if !strings.Contains(line, "-f %") {
			continue
		}
		line = strings.ReplaceAll(line, "%", "-")
		ctx, cancel := context.WithCancel(t.Context())
		in, keep := io.Pipe()
		done := make(chan result, 1)
		go func() {
			var out, errs bytes.Buffer
			status := execute(ctx, strings.Fields(line), streams{in, &out, &errs})
			done <- result{status, out.String(), errs.String()}
		}()
		if _, err := io.WriteString(keep, "a text\n"); err != nil { // it reads
			t.Fatal(err)
		}
		cancel()
		if r := <-done; r.status != exitInterrupted || !strings.HasSuffix(r.err, "hotpath: interrupted\n") {
			t.Errorf("%s: status %d, %q", line, r.status, r.err)
		}
		keep.Close()
	}
}

// A signal does what the context does above.
func TestSignalWhileWaitingForAFIFO(t *testing.T) {
	path := fifoIn(t, t.TempDir(), "fifo")
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		cmd := process(t, "score", "-m", testmodels.Dir(t, "llama"), "-f", path)
		var errs strings.Builder
		cmd.Stderr = &errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if f := holdOpen(t.Context(), path); f != nil {
			defer f.Close()
		}
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		err := cmd.Wait()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted || errs.String() != "hotpath: interrupted\n" {
			t.Errorf("%v: %v, %q", s, err, errs.String())
		}
	}
}

// A second signal ends a command that the first one does not.
func TestSecondSignal(t *testing.T) {
	for _, second := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		cmd := process(t, "hang")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		for _, s := range []os.Signal{os.Interrupt, second} {
			if _, err := lines.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
		}
		err = cmd.Wait()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
			t.Errorf("%v: %v, expected exit status %d", second, err, exitInterrupted)
		}
	}
}

// What is mapped or read whole is refused where it is a FIFO or a device.
func TestFIFOsAreNoModels(t *testing.T) {
	dir := t.TempDir()
	llama, gguf := testmodels.Dir(t, "llama"), testmodels.Dir(t, "gguf/llama-f32.gguf")
	fifo := fifoIn(t, dir, "model.gguf")
	for _, model := range []string{fifo, os.DevNull, "/dev/zero"} {
		for _, line := range []string{
			"inspect %", "tokenize -m % x", "embed -m % x", "run -m % -p x", "score -m % x", "rerank -m % q x", "similar -m % q x",
			"quantize % " + filepath.Join(dir, "q.gguf") + " Q8_0", "profile run -m %", "bench embed -m %",
			"perplexity -m % -f " + write(t, "corpus.txt", "words"),
			"train " + write(t, "config.json", `{"model": "`+model+`", "data": ["`+llama+`"], "out": "`+filepath.Join(dir, "out")+`"}`),
		} {
			fails(t, exitFailed, strings.Fields(strings.ReplaceAll(line, "%", model)), model)
		}
		data := write(t, "config.json", `{"model": "`+llama+`", "data": ["`+model+`"], "out": "`+filepath.Join(dir, "out")+`"}`)
		fails(t, exitFailed, []string{"train", data}, model)
		fails(t, exitFailed, []string{"train", model}, model)
		fails(t, exitFailed, []string{"quantize", gguf, filepath.Join(dir, "q.gguf"), "Q4_K", "--imatrix", model}, model)
	}
	for _, name := range []string{"config.json", "tokenizer.json", "model.safetensors", "generation_config.json"} {
		hf := filepath.Join(t.TempDir(), "model")
		if err := os.CopyFS(hf, os.DirFS(llama)); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(filepath.Join(hf, name))
		fifoIn(t, hf, name)
		fails(t, exitFailed, []string{"embed", "-m", hf, "x"}, name)
		fails(t, exitFailed, []string{"convert", hf, "-o", filepath.Join(dir, "c.gguf")}, name)
	}
}
