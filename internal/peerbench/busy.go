package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// startBusy starts processes that keep a core busy each, as long as they get one, until
// stop is called or this process ends.
func startBusy(count int) (stop func(), err error) {
	var inputs []io.Closer
	var started []*exec.Cmd
	stop = func() {
		for i, c := range started {
			_ = inputs[i].Close()
			_ = c.Wait()
		}
	}
	for range count {
		c := exec.Command(selfPath, "worker", "--spin")
		c.Stderr = os.Stderr
		in, err := c.StdinPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			stop()
			return nil, fmt.Errorf("a busy process: %w", err)
		}
		inputs, started = append(inputs, in), append(started, c)
	}
	return stop, nil
}

// keepBusy computes until the input ends.
func keepBusy(in io.Reader) error {
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, in)
		ended <- err
	}()
	for x := uint64(1); ; {
		for range 1 << 16 {
			x = x*6364136223846793005 + 1442695040888963407
		}
		select {
		case err := <-ended:
			if x == 0 {
				return errors.New("the generator has come to 0")
			}
			return err
		default:
		}
	}
}

// besideBusy sets hotpath beside busy processes against hotpath with a fixed number of
// threads.
func (p place) besideBusy(name, title string, in inputs, work Work, limit float64) (out []Group) {
	work.Reps, work.Seconds = 4, busySeconds
	for _, count := range []int{1, 2} {
		g := Group{
			Name: fmt.Sprintf("busy-%s-%d", name, count), Title: fmt.Sprintf("%s beside %d busy processes", title, count), Lead: "hotpath",
			Note:      "One process goes from one to the other call by call, while others compute on the same cores. hotpath chooses how many of its threads take part; the other rows have all of theirs in every run.",
			Reference: p.reference(in.Model), Inputs: in, Paired: true, Works: []Work{work},
		}
		if count == 1 {
			g.Title = title + " beside a busy process"
		}
		add := func(name, way string) {
			r := p.hotpath(name, in.Model, limit, "--beside", fmt.Sprint(count))
			if r.Way = way; way != "default" {
				r.Op, r.Limit = work.Op, 0
			}
			g.Runners = append(g.Runners, r)
		}
		add("hotpath", "default")
		add("1 thread", "fixed=1")
		add(fmt.Sprintf("%d threads", p.threads), fmt.Sprintf("fixed=%d", p.threads))
		out = append(out, g)
	}
	return out
}

// busySeconds are some dozen turns in which workers lose their cores at other moments.
const busySeconds = 6
