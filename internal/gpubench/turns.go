package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// built is the commit, which make card sets.
var built string

// errNoRequest says that standard input has ended.
var errNoRequest = errors.New("no further turn is asked for")

// measure reports a work: count tokens per time that run returns. With -turns it runs
// once to warm up, and then once per line of standard input.
func (b *bench) measure(work string, count float64, run func() ([]float64, error)) error {
	began := time.Now()
	times, err := run()
	if err != nil {
		return err
	}
	if b.requests == nil {
		return b.report(work, times, count, began)
	}
	for err = b.ready(work); err == nil; err = b.request() {
		began = time.Now()
		if times, err = run(); err == nil {
			err = b.report(work, times, count, began)
		}
		if err != nil {
			return err
		}
	}
	if errors.Is(err, errNoRequest) {
		return nil
	}
	return err
}

// ready tells the peer that the work is warm, and waits for the first turn.
func (b *bench) ready(work string) error {
	line, err := json.Marshal(map[string]any{"ready": work, "hotpath": built})
	if err != nil {
		return err
	}
	if _, err := fmt.Println(string(line)); err != nil {
		return err
	}
	return b.request()
}

// request waits for the next turn.
func (b *bench) request() error {
	if b.requests.Scan() {
		return nil
	}
	return errors.Join(errNoRequest, b.requests.Err())
}
