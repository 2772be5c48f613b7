package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// selfPath is this program, which is also hotpath's worker.
var selfPath = func() string {
	p, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return p
}()

// request and answer are the protocol that scripts/peers/serve.py describes.
type request struct {
	Op      string      `json:"op"`
	Batches [][][]int32 `json:"batches,omitempty"`
	Steps   int         `json:"steps,omitempty"`
	IDs     [][]int32   `json:"ids,omitempty"`
	Ways    []string    `json:"ways,omitempty"`    // of hotpath to run each batch
	Calls   int         `json:"calls,omitempty"`   // of each way in a turn
	Seconds float64     `json:"seconds,omitempty"` // that turns may go on for
	Skip    int         `json:"skip,omitempty"`    // tokens, or reads of all memory, before what is timed
}

type answer struct {
	Error   string      `json:"error,omitempty"`
	Amount  []float64   `json:"amount,omitempty"`
	Seconds []float64   `json:"seconds,omitempty"`
	Vectors [][]float32 `json:"vectors,omitempty"`
	IDs     [][]int32   `json:"ids,omitempty"`
	Leads   [][]float64 `json:"leads,omitempty"` // of each token
	Turns   []turn      `json:"turns,omitempty"` // of each way
}

// hello is a worker's first line.
type hello struct {
	Peer    string `json:"peer"`
	Version string `json:"version"`
	Detail  string `json:"detail"`
}

// quiet keeps threads that have nothing to do from spinning on: after settle
// all of them sleep. During its own turn an engine may spin as it likes, up to
// the block time.
const settle = 60 * time.Millisecond

var quiet = []string{"KMP_BLOCKTIME=20", "TOKENIZERS_PARALLELISM=false", "HF_HUB_OFFLINE=1", "TQDM_DISABLE=1", "TRANSFORMERS_VERBOSITY=error", "PYTHONUNBUFFERED=1"}

// worker is a running engine.
type worker struct {
	hello  hello
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *json.Decoder
	stderr tail

	idle     time.Duration // CPU time that it used while others worked
	watched  time.Duration // for how long that was looked at
	cpuStart time.Duration
}

// start runs a worker on the given cores and waits until it is ready.
func start(ctx context.Context, r Runner, cores string) (*worker, error) {
	argv := r.Argv
	if cores != "" {
		argv = append([]string{"taskset", "-c", cores}, argv...)
	}
	w := &worker{cmd: exec.CommandContext(ctx, argv[0], argv[1:]...)}
	w.cmd.Env = slices.Concat(os.Environ(), quiet, []string{"OMP_NUM_THREADS=" + threadsOf(cores)}, r.Env)
	w.cmd.Stderr = &w.stderr
	in, err := w.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.in, w.out = in, json.NewDecoder(out)
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	if err := w.out.Decode(&w.hello); err != nil {
		return nil, w.broken(ctx, err)
	}
	return w, nil
}

func threadsOf(cores string) string { return strconv.Itoa(1 + strings.Count(cores, ",")) }

// broken ends a worker that does not answer and says what it said last.
func (w *worker) broken(ctx context.Context, err error) error {
	w.close()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("no answer (%w): %s", err, w.stderr.last())
}

func (w *worker) ask(ctx context.Context, q request) (answer, error) {
	var a answer
	line, err := json.Marshal(q)
	if err != nil {
		return a, err
	}
	if _, err := w.in.Write(append(line, '\n')); err != nil {
		return a, w.broken(ctx, err)
	}
	if err := w.out.Decode(&a); err != nil {
		return a, w.broken(ctx, err)
	}
	if a.Error != "" {
		return a, fmt.Errorf("%s", a.Error)
	}
	return a, nil
}

// close ends a worker by ending its input, or after a while by force.
func (w *worker) close() {
	w.in.Close()
	timer := time.AfterFunc(10*time.Second, func() { w.cmd.Process.Kill() })
	w.cmd.Wait()
	timer.Stop()
}

// cpu is the CPU time that the process has used, 0 where the system does not
// tell.
func (w *worker) cpu() time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", w.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	// The name in parentheses may hold anything; utime and stime are the 12th
	// and 13th fields behind it.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// watch notes what idle workers use until the function that it returns is
// called.
func watch(workers []*worker, busy *worker) (done func()) {
	began := time.Now()
	for _, w := range workers {
		w.cpuStart = w.cpu()
	}
	return func() {
		took := time.Since(began)
		for _, w := range workers {
			if w != busy {
				w.idle += w.cpu() - w.cpuStart
				w.watched += took
			}
		}
	}
}

// tail keeps the end of what a worker writes to standard error.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailBytes = 4096

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if n := len(t.buf) - tailBytes; n > 0 {
		t.buf = append(t.buf[:0], t.buf[n:]...)
	}
	return len(p), nil
}

// last is the last line.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.buf)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
