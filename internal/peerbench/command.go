package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"hotpath/internal/stats"
)

// commandWorker measures a whole command: the time from its start to the first byte
// of its output ("start"), the tokens that it generates for many prompts per second of
// its whole life ("whole"), the most memory that it held ("peak"), and what it held
// while it wrote ("steady"). The first run of a request warms up.
type commandWorker struct{ argv []string }

// What an argument stands for: the prompts of a request, and the tokens to generate
// for each. With "whole" a command may also read the prompts from its input, one per line.
const textsArg, stepsArg = "{texts}", "{steps}"

func (w *commandWorker) serve(in io.Reader, out io.Writer) error {
	if len(w.argv) == 0 {
		return errors.New("no command to start")
	}
	if _, err := os.Stat(w.argv[0]); err != nil {
		return err
	}
	return serve(in, out, hello{Peer: "hotpath"}, func(q request, a *answer) error {
		texts := 0
		if len(q.Batches) > 0 {
			texts = len(q.Batches[0])
		}
		pick, ok := map[string]func(commandRun) (amount, seconds float64){
			"start":  func(r commandRun) (float64, float64) { return 1, r.first.Seconds() },
			"whole":  func(r commandRun) (float64, float64) { return float64(texts * q.Steps), r.whole.Seconds() },
			"peak":   func(r commandRun) (float64, float64) { return r.peak, 1 },
			"steady": func(r commandRun) (float64, float64) { return r.steady, 1 },
		}[q.Op]
		if !ok {
			return fmt.Errorf("a command has no op %s", q.Op)
		}
		for i := range max(2, len(q.Batches)) {
			r, err := w.runOnce(q, texts)
			if err != nil {
				return err
			}
			if i > 0 {
				amount, seconds := pick(r)
				a.Amount, a.Seconds = append(a.Amount, amount), append(a.Seconds, seconds)
			}
		}
		return nil
	})
}

// commandRun is what one run took.
type commandRun struct {
	first, whole time.Duration // until its first output, and its end
	peak, steady float64       // resident MiB: the most, and the median from the first to the last output
}

// runOnce is one run of the command, which has to end well. Its memory is looked at
// only where that is asked for, because looking takes time from it.
func (w *commandWorker) runOnce(q request, texts int) (r commandRun, err error) {
	memory := q.Op == "peak" || q.Op == "steady"
	numbers := strings.NewReplacer(textsArg, strconv.Itoa(texts), stepsArg, strconv.Itoa(q.Steps))
	var argv []string
	for _, arg := range w.argv {
		argv = append(argv, numbers.Replace(arg))
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	if q.Op == "whole" {
		cmd.Stdin = strings.NewReader(promptLines(texts))
	}
	var said tail
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return r, err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return r, err
	}
	buf := make([]byte, 4096)
	n, err := out.Read(buf)
	if n > 0 {
		r.first = time.Since(began)
	}
	var held []float64
	for err == nil {
		if memory {
			if now := residentMiB(cmd.Process.Pid); now > 0 {
				held = append(held, now)
			}
		}
		_, err = out.Read(buf)
	}
	if err == io.EOF {
		err = nil
	}
	err = errors.Join(err, cmd.Wait())
	if r.whole = time.Since(began); err != nil {
		return r, fmt.Errorf("%s: %w: %s", w.argv[0], err, said.last())
	}
	if r.first == 0 {
		return r, fmt.Errorf("%s: no output: %s", w.argv[0], said.last())
	}
	if memory {
		if r.peak = peakMiB(cmd.ProcessState); r.peak == 0 || len(held) == 0 {
			return r, fmt.Errorf("%s: it ended before its memory was read, or the system does not report it", w.argv[0])
		}
		r.steady = stats.Median(held)
	}
	return r, nil
}

// residentMiB is what a process holds. It is 0 where the system does not tell, or
// the process has ended.
func residentMiB(pid int) float64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		if name, value, _ := strings.Cut(line, ":"); name == "VmRSS" {
			kb, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
			return float64(kb) / 1024
		}
	}
	return 0
}

// promptLines are different prompts of decodePrompt tokens or a few more or less, which
// depends on the vocabulary.
func promptLines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "Letter %d: The ship had left the harbour in the morning, and when the wind came up from the west, the people on the shore could see that her captain\n", i+1)
	}
	return b.String()
}
