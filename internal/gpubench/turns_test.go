package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hotpath/internal/engine"
	"hotpath/internal/model"
	"hotpath/internal/testmodels"
	"hotpath/internal/weights"
)

// inTurns does a work on the CPU with a number of requests, and returns what each line
// of its output says.
func inTurns(t *testing.T, path, work string, requests int) (lines []map[string]any, err error) {
	t.Helper()
	out, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	b := bench{path: path, device: "cpu", rounds: 4, budget: time.Millisecond, requests: bufio.NewScanner(strings.NewReader(strings.Repeat("\n", requests)))}
	stdout := os.Stdout
	os.Stdout = out
	err = b.one(0, work)
	os.Stdout = stdout
	if _, err := out.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	for s := bufio.NewScanner(out); s.Scan(); {
		line := map[string]any{}
		if err := json.Unmarshal(s.Bytes(), &line); err != nil {
			t.Fatalf("%q: %v", s.Text(), err)
		}
		lines = append(lines, line)
	}
	return lines, err
}

// A work says when it is warm, and then answers each request with one line.
func TestTurns(t *testing.T) {
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS(testmodels.Dir(t, "gpt2"))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "data.txt"), []byte(strings.Repeat("some words to learn ", 200)), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, work := range []string{"gemm 16x32x32", "train 2x8"} {
		t.Run(work, func(t *testing.T) {
			lines, err := inTurns(t, folder, work, 2)
			if err != nil || len(lines) != 3 {
				t.Fatalf("%v, %v, expected a line that it is ready and one per request", lines, err)
			}
			if lines[0]["ready"] != work {
				t.Errorf("first %v, expected that it is ready", lines[0])
			}
			for _, line := range lines[1:] {
				if rate, _ := line["tok_s"].(float64); !(rate > 0) || line["work"] != work {
					t.Errorf("%v, expected a rate of %s", line, work)
				}
			}
		})
	}
}

// A turn that fails ends the work with its error.
func TestTurnFails(t *testing.T) {
	b := bench{requests: bufio.NewScanner(strings.NewReader("\n\n"))}
	lost, runs := errors.New("lost"), 0
	err := b.measure("w", 1, func() ([]float64, error) {
		if runs++; runs == 2 {
			return nil, lost
		}
		return []float64{1}, nil
	})
	if !errors.Is(err, lost) || runs != 2 {
		t.Errorf("%v after %d runs, expected the error of the second", err, runs)
	}
}

// A reader that comes late does not make steps shorter.
func TestStep(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	if got := step(at(0), at(28), at(147), 128); got != 0.001 {
		t.Errorf("%v s per step, expected 119 steps of a millisecond", got)
	}
	if got := step(at(0), at(127), at(128), 128); got != 0.001 {
		t.Errorf("%v s per step for a late reader, expected the whole generation's", got)
	}
	if got := step(at(0), at(50), at(147), 128); got != 0.147/128 {
		t.Errorf("%v s per step for a reader that slept until 50 ms, expected the whole generation's", got)
	}
}

// One round of each kind has one time: that of prefill comes behind one to warm up.
func TestOneRound(t *testing.T) {
	st, err := weights.Open(testmodels.Dir(t, "llama"))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	m, err := model.Open(st)
	if err != nil {
		t.Fatal(err)
	}
	be, err := engine.NewBackend("cpu", engine.BackendOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	e, err := engine.Open(m, be, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	b := bench{rounds: 1, budget: time.Millisecond}
	if times, err := b.generate(e, [][]int32{{5, 6, 7}}, "prefill"); err != nil || len(times) != 1 {
		t.Errorf("%v, %v, expected one time", times, err)
	}
}

func TestConvert(t *testing.T) {
	b := bench{path: testmodels.Dir(t, "llama"), convert: filepath.Join(t.TempDir(), "m.gguf"), kind: "Q8_0"}
	if err := b.writeGGUF(); err != nil {
		t.Fatal(err)
	}
	st, err := weights.Open(b.convert)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if b.kind = "Q9"; b.writeGGUF() == nil {
		t.Error("a type Q9 was written")
	}
}

// The script that compares with PyTorch has tests of its own, which need no card.
func TestPeersScript(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	if out, err := exec.Command(python, filepath.Join("..", "..", "scripts", "peers_gpu_test.py")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
