package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// hangs is how long a process may go on after a signal, or in all, on a machine
// that does other things too.
const hangs = 2 * time.Minute

// commands is the part that runs the command.
type commands struct {
	s      *settings
	f      *findings
	work   string // folder of everything
	out    string // folder that outputs go to
	lines  []line
	known  map[string]string // what lines with the same answer each time answered first
	ran    int
	killed int
}

// line is a command line.
type line struct {
	args    string // OUT stands for the folder of outputs
	status  int    // of a run to its end
	stdin   string
	same    bool // standard output and files are the same each time
	resumes bool // it goes on with what an earlier run left
}

func newCommands(s *settings, work string, f *findings) (*commands, error) {
	c := &commands{s: s, f: f, work: work, out: filepath.Join(work, "out"), known: map[string]string{}}
	in := filepath.Join(work, "in")
	for _, dir := range []string{in, c.out, filepath.Join(work, "home")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	for name, content := range inputs(s, work) {
		if err := os.WriteFile(filepath.Join(in, name), []byte(content), 0o600); err != nil {
			return nil, err
		}
	}
	c.lines = commandLines(s, in)
	return c, nil
}

// fates are what happens to a process, as often as they stand here.
var fates = []syscall.Signal{0, 0, 0, 0, syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL, syscall.SIGKILL}

// round runs commands for a while.
func (c *commands) round(ctx context.Context, round int) {
	random := rand.New(rand.NewPCG(c.s.seed, 1<<40+uint64(round)))
	for end := time.Now().Add(c.s.round); time.Now().Before(end) && ctx.Err() == nil; {
		l := c.lines[random.IntN(len(c.lines))]
		c.clean()
		times := 1
		if l.resumes {
			times += random.IntN(4)
		}
		killed := false
		for range times {
			fate := fates[random.IntN(len(fates))]
			p := c.runLine(l, fate, time.Duration(random.ExpFloat64()*float64(60*time.Millisecond)))
			c.judge(l, fate, p)
			killed = fate == syscall.SIGKILL && p.signalled
			if killed {
				c.killed++
			}
		}
		// Whatever was left, the same command goes on or begins anew, and what it
		// leaves is all that there is.
		if killed || l.resumes {
			c.judge(l, 0, c.runLine(l, 0, 0))
		}
	}
	c.clean()
}

// clean empties the folder of outputs.
func (c *commands) clean() {
	if err := errors.Join(os.RemoveAll(c.out), os.Mkdir(c.out, 0o700)); err != nil {
		c.f.addFinding("the folder of outputs", err.Error())
	}
}

// process is how a process ended.
type process struct {
	status      int
	signalled   bool // by the signal that it was sent, and not by its own end
	hung        bool
	stdout, err string
}

func (c *commands) runLine(l line, fate syscall.Signal, after time.Duration) (p process) {
	c.ran++
	cmd := exec.Command(c.s.hotpath, strings.Fields(strings.ReplaceAll(l.args, "OUT", c.out))...)
	cmd.Dir = c.out
	cmd.Env = append(os.Environ(), "HOME="+filepath.Join(c.work, "home"), "HF_HUB_OFFLINE=1", "HF_HOME="+filepath.Join(c.work, "home"))
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(l.stdin), &out, &errs
	if err := cmd.Start(); err != nil {
		c.f.addFinding("a process did not start", err.Error())
		return p
	}
	if fate != 0 {
		time.AfterFunc(after, func() { _ = cmd.Process.Signal(fate) })
	}
	stacks := time.AfterFunc(hangs, func() { p.hung = true; _ = cmd.Process.Signal(syscall.SIGQUIT) })
	err := cmd.Wait()
	stacks.Stop()
	p.status, p.stdout, p.err = cmd.ProcessState.ExitCode(), out.String(), errs.String()
	var exit *exec.ExitError
	p.signalled = errors.As(err, &exit) && !exit.Exited()
	return p
}

// judge holds the end of a process against what was asked.
func (c *commands) judge(l line, fate syscall.Signal, p process) {
	found := func(kind, format string, args ...any) {
		c.f.addFinding(fmt.Sprintf("%s: %s", l.args, kind), fmt.Sprintf(format, args...))
	}
	switch {
	case p.hung:
		found("it hangs", "after signal %v: %s", fate, p.err)
		return
	case fate == syscall.SIGKILL && p.signalled:
		return // files are looked at after the next run
	case p.signalled && fate != 0 && p.stdout == "" && p.err == "":
		return // before main could ask for the signal
	case p.signalled:
		found("killed by a signal", "%v: %s", fate, p.err)
	case p.status != l.status && !(fate != 0 && p.status == 130):
		found("exit status", "%d after signal %v, expected %d: %s", p.status, fate, l.status, last(p.err))
	case strings.Contains(p.err, "goroutine ") || strings.Contains(p.err, "panic") || strings.Contains(p.err, "internal error"):
		found("stack trace", "%s", p.err)
	case p.status != 0 && !strings.HasPrefix(last(p.err), "hotpath: "):
		found("no line of its own at the end", "%s", last(p.err))
	}
	// A process that was killed leaves its lock and half a checkpoint. One that is
	// interrupted may have ended before it swept them: the next that is not does.
	if left := c.leftovers(); len(left) > 0 && fate == 0 {
		found("files are left", "%v", left)
		for _, path := range left {
			os.RemoveAll(path)
		}
	}
	if l.same && p.status == l.status && !p.signalled && fate == 0 {
		got := p.stdout + c.contents()
		if want, ok := c.known[l.args]; !ok {
			c.known[l.args] = got
		} else if got != want {
			found("another answer", "%d bytes, before %d, first difference at %d: %.60q, before %.60q", len(got), len(want), differ(got, want), got[differ(got, want):], want[differ(got, want):])
		}
	}
}

func last(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

func differ(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// leftovers are files that no command is meant to leave: in the folder for
// temporary files, hidden ones beside outputs, and those named as such.
func (c *commands) leftovers() (out []string) {
	walk := func(root string, bad func(name string) bool) {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && path != root && bad(d.Name()) {
				out = append(out, path)
			}
			return nil
		})
	}
	walk(filepath.Join(c.work, "tmp"), func(string) bool { return true })
	temporary := func(name string) bool {
		return strings.HasPrefix(name, ".") || strings.Contains(name, ".tmp") || strings.HasPrefix(name, "tmp-")
	}
	walk(c.out, temporary)
	walk(filepath.Join(c.work, "cache"), func(name string) bool { return temporary(name) && name != ".locks" })
	return out
}

// contents are the files of the folder of outputs, with their names. The times
// in logs and states are no part of an answer.
func (c *commands) contents() string {
	var b strings.Builder
	_ = filepath.WalkDir(c.out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || slices.Contains([]string{".resume"}, filepath.Ext(path)) {
			return nil
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(&b, "\n%s %v\n%s", strings.TrimPrefix(path, c.out), err, data)
		return nil
	})
	return b.String()
}
