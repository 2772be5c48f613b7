package main

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// A batch is what one call of the model gets: enough to keep it busy, little
// enough that a file of any length is answered in bounded memory.
const (
	batchTexts = 256
	batchBytes = 1 << 20
)

// answer is what a command says about one text: an object for scripts and a
// line for people.
type answer struct {
	record any
	line   string
}

// answerAll asks for batches of texts and writes the answers in input order,
// those before an error included. Every batch is flushed: somebody may be
// waiting for it before writing the next text.
func answerAll(ctx context.Context, w io.Writer, format string, in *texts, ask func([]text) ([]answer, error)) error {
	rec := newRecords(w, format)
	var batch []text
	for {
		var err error
		if batch, err = in.next(ctx, batch[:0], batchTexts, batchBytes); err != nil {
			return err
		}
		if len(batch) == 0 {
			return rec.end()
		}
		answers, err := ask(batch)
		for i, a := range answers {
			if format == "text" {
				rec.line(a.line)
			} else if err := rec.encode(a.record, batch[i].carry); err != nil {
				return err
			}
		}
		if err := errors.Join(err, rec.flush()); err != nil {
			return err
		}
	}
}

// eachWhereNeeded asks for a batch at once. Where that fails it asks for one
// text at a time, so that the error names its text and those before it get
// their answers.
func eachWhereNeeded[T any](ctx context.Context, batch []text, ask func([]text) ([]T, error)) ([]T, error) {
	all, err := ask(batch)
	if err == nil || ctx.Err() != nil {
		return all, err
	}
	all = nil
	for i := range batch {
		one, err := ask(batch[i : i+1])
		if err != nil {
			return all, fmt.Errorf("%s: %w", batch[i].where, err)
		}
		all = append(all, one...)
	}
	return all, nil
}

func bodies(batch []text) []string {
	out := make([]string, len(batch))
	for i, t := range batch {
		out[i] = t.body
	}
	return out
}
