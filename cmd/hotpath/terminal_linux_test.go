package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hotpath/internal/testmodels"
)

// terminal is a pseudo-terminal: what a program writes to tty, a person would
// see. close returns it.
func terminal(t *testing.T) (tty *os.File, closed func() string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 100}); err != nil {
		t.Fatal(err)
	}
	var seen bytes.Buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		seen.ReadFrom(master) // until the last copy of tty is closed
	}()
	return tty, func() string {
		tty.Close()
		<-done
		master.Close()
		return seen.String()
	}
}

// A command that works long shows a bar on the terminal that standard error
// is, unless its results appear there meanwhile.
func TestBarOnTerminal(t *testing.T) {
	bert, llama, gguf := testmodels.Dir(t, "bert"), testmodels.Dir(t, "llama"), testmodels.Dir(t, "gguf/llama-f32.gguf")
	reranker := filepath.Join(repositoryRoot(t), "internal", "model", "testdata", "encoders", "rerank-bert")
	pretendHub(t)
	dir := t.TempDir()
	texts, corpus := write(t, "texts.txt", strings.Repeat("some rain\n", 300)), write(t, "corpus.txt", strings.Repeat("many words ", 100))
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, c := range []struct {
		line     string
		piped    bool // texts come through a pipe
		toFile   bool // standard output is a file, else the terminal
		terminal bool // a bar is shown
	}{
		{"embed -m " + bert + " -f " + texts + " -o " + at("v.npy"), false, false, true},
		{"embed -m " + bert + " -f " + texts + " -o " + at("r.npy") + " --resume", false, false, true},
		{"embed -m " + bert + " -f " + texts + " -o " + at("r.npy") + " --resume --profile", false, false, true},
		{"embed -m " + bert + " -f - -o " + at("p.npy"), true, false, true},
		{"embed -m " + bert + " -f - --format csv", true, true, true},
		{"embed -m " + bert + " -f " + texts + " -o /dev/tty --format csv", false, false, false},
		{"embed -m " + bert + " -f " + texts, false, true, true},
		{"embed -m " + bert + " -f " + texts, false, false, false},
		{"similar rain -m " + bert + " -f " + texts, false, false, true},
		{"similar rain -m " + bert + " -f -", true, false, true},
		{"rerank rain -m " + reranker + " -f " + texts, false, false, true},
		{"tokenize -m " + bert + " -f " + texts, false, true, true},
		{"tokenize -m " + bert + " -f " + texts, false, false, false},
		{"score -m " + llama + " -f " + texts, false, true, true},
		{"score -m " + llama + " -f " + texts, false, false, false},
		{"run -m " + llama + " -n 1 --format jsonl -f " + write(t, "few.txt", "one\ntwo\n"), false, true, true},
		{"run -m " + llama + " -n 1 -f " + write(t, "few.txt", "one\ntwo\n"), false, false, false},
		{"perplexity -m " + llama + " --ctx 8 -f " + corpus, false, false, true},
		{"convert " + llama + " -o " + at("c.gguf"), false, false, true},
		{"quantize " + gguf + " " + at("q.gguf") + " Q8_0", false, false, true},
		{"bench rope --filter heads=9/.*len=1-1$ --count 2 --time 1us --format json", false, false, true},
		{"bench rope --filter heads=9/.*len=1-1$ --count 2 --time 1us", false, true, true},
		{"bench rope --filter heads=9/.*len=1-1$ --count 2 --time 1us", false, false, false},
		{"profile run -m " + bert + " --iterations 1 --tokens 4 -o " + at("p.md"), false, false, true},
		{"study cache --quick -o " + at("study"), false, false, true},
		{"pull " + hubModel, false, false, true},
	} {
		if testing.Short() && strings.HasPrefix(c.line, "study") {
			continue
		}
		name := c.line
		for _, place := range []string{dir, repositoryRoot(t)} {
			name = strings.ReplaceAll(name, place, "")
		}
		t.Run(fmt.Sprintf("%s/%t/%t", name, c.piped, c.toFile), func(t *testing.T) {
			tty, closed := terminal(t)
			cmd := process(t, strings.Fields(strings.ReplaceAll(c.line, "/dev/tty", tty.Name()))...)
			cmd.Stdout, cmd.Stderr = tty, tty
			if c.piped {
				cmd.Stdin = strings.NewReader(strings.Repeat("some rain\n", 300))
			}
			if c.toFile {
				out, err := os.Create(filepath.Join(t.TempDir(), "out"))
				if err != nil {
					t.Fatal(err)
				}
				defer out.Close()
				cmd.Stdout = out
			}
			err := cmd.Run()
			seen := closed()
			if err != nil {
				t.Fatalf("%v: %s", err, seen)
			}
			// A bar, a spinner and a line of progress go back to the beginning of
			// theirs; a terminal ends lines with \r\n.
			drawn := strings.Contains(strings.ReplaceAll(seen, "\r\n", "\n"), "\r")
			if drawn != c.terminal {
				t.Errorf("a bar was shown: %t, expected %t: %q", drawn, c.terminal, seen)
			}
			// Nothing of it stays, and no result stands behind it on its line.
			for line := range strings.Lines(strings.ReplaceAll(seen, "\r\n", "\n")) {
				if at := strings.LastIndexByte(line, '\r'); at >= 0 && strings.Contains(line[at:], "%") && !strings.Contains(c.line, "profile") {
					t.Errorf("left on its line: %q", line)
				}
			}
		})
	}
}
