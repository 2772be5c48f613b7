package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"hotpath"
)

// A batch is what one call of the model gets: enough to keep it busy, little
// enough that a file of any length is answered in bounded memory.
const (
	batchTexts = 256
	batchBytes = 1 << 20
)

// answer is what a command says about one text: an object for scripts and a
// line for people, or why there is none.
type answer struct {
	record any
	line   string
	err    error
}

// answers writes what a command says about texts, in input order. In jsonl a
// text without an answer is an object with "error", and the others go on;
// elsewhere it ends the work.
type answers struct {
	format string
	rec    *records
	tally
}

func newAnswers(w io.Writer, format string) *answers {
	return &answers{format: format, rec: newRecords(w, format)}
}

// write writes one answer; its error ends the work.
func (a *answers) write(in text, one answer) error {
	switch {
	case one.err != nil && a.format != "jsonl":
		return fmt.Errorf("%s: %w", in.where, one.err)
	case one.err != nil:
		err := a.fail(in, one.err)
		a.rec.buf.Reset()
		a.rec.w.Write(appendFailure(a.rec.buf.AvailableBuffer(), in, err))
		return nil
	case a.format == "text":
		a.rec.line(one.line)
	default:
		if err := a.rec.encode(one.record, in.carry); err != nil {
			return err
		}
	}
	a.n++
	return nil
}

// end completes the output; errors in it are one.
func (a *answers) end() error {
	return errors.Join(a.rec.end(), a.failures())
}

// ofOneText says whether an error of asking about a text is about that text,
// so that others may have answers.
func ofOneText(ctx context.Context, err error) bool {
	return ctx.Err() == nil && !errors.Is(err, hotpath.ErrUnsupported)
}

// answerAll asks for batches of texts and writes the answers, those before an
// error included. Every batch is flushed: somebody may be waiting for it before
// writing the next text.
func answerAll(ctx context.Context, w io.Writer, format string, in *texts, ask func([]text) ([]answer, error)) error {
	out := newAnswers(w, format)
	in.progress.begin()
	defer in.progress.finish()
	var batch []text
	for {
		var err error
		if batch, err = in.next(ctx, batch[:0], batchTexts, batchBytes); err != nil {
			return err
		}
		if len(batch) == 0 {
			return out.end()
		}
		all, err := out.ask(ctx, batch, ask)
		for i := range all {
			if wrong := out.write(batch[i], all[i]); wrong != nil {
				err = wrong
				break
			}
		}
		if err := errors.Join(err, out.rec.flush()); err != nil {
			return err
		}
	}
}

// ask asks for the readable texts of a batch at once. Where that fails it asks
// for one at a time, so that an error stands with its text and the others get
// their answers. Its own error is about all of them.
func (a *answers) ask(ctx context.Context, batch []text, ask func([]text) ([]answer, error)) ([]answer, error) {
	all := make([]answer, len(batch))
	var readable []text
	for i, t := range batch {
		if all[i].err = t.err; t.err == nil {
			readable = append(readable, t)
		} else if a.format != "jsonl" {
			all = all[:i+1] // it will end the work
			break
		}
	}
	got, err := ask(readable)
	if err != nil && !ofOneText(ctx, err) {
		return nil, err
	}
	next := 0
	for i := range all {
		if all[i].err != nil {
			continue
		}
		if err == nil {
			all[i] = got[next]
			next++
			continue
		}
		one, err := ask(batch[i : i+1])
		switch {
		case err == nil:
			all[i] = one[0]
		case !ofOneText(ctx, err):
			return all[:i], err
		case a.format != "jsonl":
			all[i].err = err
			return all[:i+1], nil
		default:
			all[i].err = err
		}
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

// tally counts answers, and those of them that are errors.
type tally struct {
	n, failed int
	first     error
}

// fail counts a text that has no answer; the error that it returns names it.
func (t *tally) fail(in text, err error) error {
	err = fmt.Errorf("%s: %w", in.where, err)
	if t.failed++; t.first == nil {
		t.first = err
	}
	t.n++
	return err
}

// failures is the error of an output that holds errors.
func (t *tally) failures() error {
	switch {
	case t.failed == 0:
		return nil
	case t.first == nil:
		return fmt.Errorf("%d of %d texts failed, all of them in an earlier run", t.failed, t.n)
	case t.n == 1:
		return t.first
	}
	return fmt.Errorf("%d of %d texts failed, the first: %w", t.failed, t.n, t.first)
}
