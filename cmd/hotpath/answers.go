package main

import (
	"context"
	"errors"
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
