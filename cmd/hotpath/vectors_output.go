package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"hotpath"
)

// vectorOutput writes answers in input order.
type vectorOutput struct {
	format *vectorFormat
	el     *element
	dim    int // of vectors; 0 until the first is known

	out   io.Writer  // where all of it ends
	file  outputFile // nil for standard output
	spool *os.File   // of npy where nothing can be written twice: its header, which comes first, has the number of rows
	w     *bufio.Writer
	buf   []byte
	tally // of the answers in the output
}

// newVectorOutput writes to file, or to out where that is nil.
func newVectorOutput(out io.Writer, file outputFile, format *vectorFormat, el *element, dim int) (*vectorOutput, error) {
	v := &vectorOutput{format: format, el: el, dim: dim, out: out, file: file}
	if file != nil {
		v.out, out = file, file
	}
	if format.header > 0 && (file == nil || file.Direct()) {
		spool, err := os.CreateTemp("", "hotpath-*.npy")
		if err != nil {
			return nil, err
		}
		// Where the system allows it, the file goes away however the process ends.
		os.Remove(spool.Name())
		v.spool, out = spool, spool
	}
	v.w = bufio.NewWriterSize(out, 64<<10)
	if grown, ok := file.(*grownFile); !ok || grown.size == 0 {
		if v.spool == nil && format.header > 0 {
			v.w.WriteString(v.header())
		}
		if format.name == "json" {
			v.w.WriteByte('[')
		}
	}
	return v, nil
}

func (v *vectorOutput) header() string { return npyHeader(v.el, v.n, v.dim) }

// write writes one answer.
func (v *vectorOutput) write(in text, e hotpath.Embedding) error {
	var err error
	if v.buf, err = v.format.append(v.separated(), v.el, in, e); err != nil {
		return v.fail(in, err)
	}
	v.n++
	_, err = v.w.Write(v.buf)
	return err
}

// separated is an empty buffer, or what stands between two answers.
func (v *vectorOutput) separated() []byte {
	if v.format.name != "json" {
		return v.buf[:0]
	}
	if v.n > 0 {
		return append(v.buf[:0], ",\n"...)
	}
	return append(v.buf[:0], '\n')
}

// fail writes that a text has no answer, where the format can say that; the
// error ends the output elsewhere.
func (v *vectorOutput) fail(in text, err error) error {
	if v.format.fails == nil {
		return fmt.Errorf("%s: %w", in.where, err)
	}
	v.buf = v.format.fails(v.buf[:0], in, v.tally.fail(in, err))
	_, err = v.w.Write(v.buf)
	return err
}

func (v *vectorOutput) flush() error { return v.w.Flush() }

// end completes the output and makes it visible.
func (v *vectorOutput) end() error {
	if v.format.name == "json" {
		v.w.WriteString("\n]\n")
	}
	if err := v.w.Flush(); err != nil {
		return err
	}
	switch {
	case v.spool != nil:
		if err := v.unspool(); err != nil {
			return err
		}
	case v.format.header > 0:
		if _, err := v.file.WriteAt([]byte(v.header()), 0); err != nil {
			return err
		}
	}
	if v.file == nil {
		return nil
	}
	return v.file.Commit()
}

// unspool writes the header, now that it is known, and what comes behind it.
func (v *vectorOutput) unspool() error {
	if _, err := v.spool.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.WriteString(v.out, v.header()); err != nil {
		return err
	}
	_, err := io.Copy(v.out, v.spool)
	return err
}

// close lets go of files; what end did not complete is removed.
func (v *vectorOutput) close() error {
	var errs []error
	if v.spool != nil {
		errs = append(errs, v.spool.Close())
		os.Remove(v.spool.Name())
	}
	if v.file != nil {
		errs = append(errs, v.file.Close())
	}
	return errors.Join(errs...)
}
