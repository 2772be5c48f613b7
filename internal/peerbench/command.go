package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// startWorker times a command from its start to the first byte of its output. The
// first run of a request warms up.
type startWorker struct{ argv []string }

func (w *startWorker) serve(in io.Reader, out io.Writer) error {
	if len(w.argv) == 0 {
		return errors.New("no command to start")
	}
	if _, err := os.Stat(w.argv[0]); err != nil {
		return err
	}
	return serve(in, out, hello{Peer: "hotpath"}, func(q request, a *answer) error {
		if q.Op != "start" {
			return fmt.Errorf("a command does not know %s", q.Op)
		}
		for i := range max(2, len(q.Batches)) {
			took, err := w.run()
			if err != nil {
				return err
			}
			if i > 0 {
				a.Amount, a.Seconds = append(a.Amount, 1), append(a.Seconds, took.Seconds())
			}
		}
		return nil
	})
}

// run is one run of the command, which has to end well.
func (w *startWorker) run() (time.Duration, error) {
	cmd := exec.Command(w.argv[0], w.argv[1:]...)
	var said tail
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	_, first := out.Read(make([]byte, 1))
	took := time.Since(began)
	_, rest := io.Copy(io.Discard, out)
	if err := errors.Join(cmd.Wait(), first, rest); err != nil {
		return 0, fmt.Errorf("%s: %w: %s", w.argv[0], err, said.last())
	}
	return took, nil
}
