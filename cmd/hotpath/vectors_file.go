package main

import (
	"context"
	"errors"
	"io"
	"os"

	"hotpath/internal/atomicfile"
	"hotpath/internal/lockfile"
)

// outputFile is the file of -o: an *atomicfile.File, or with --resume a
// *grownFile.
type outputFile interface {
	io.Writer
	io.WriterAt
	Direct() bool // a pipe or a device: it is written from its beginning to its end
	Commit() error
	Close() error
}

// grownFile is an output that grows in place, so that a later run can go on
// with it. No other run that resumes writes it meanwhile; other commands may
// replace it, which inPlace finds.
type grownFile struct {
	*os.File
	path   string
	lock   *lockfile.Lock
	size   int64 // when it was opened
	closed bool
}

// createOutput begins the file of -o. Opening a FIFO waits for a reader.
func createOutput(ctx context.Context, path string) (*atomicfile.File, error) {
	return waitFor(ctx, func() (*atomicfile.File, error) { return atomicfile.Create(path) })
}

func (f *grownFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	return n, atomicfile.Named(f.path, err)
}

func (f *grownFile) WriteAt(b []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(b, at)
	return n, atomicfile.Named(f.path, err)
}

func (f *grownFile) Direct() bool { return false }

// Commit is Close: whatever was written is in its place.
func (f *grownFile) Commit() error { return f.Close() }

// inPlace says so where the path does not lead to the file any more: what is
// written to it would be lost.
func (f *grownFile) inPlace() error {
	now, err := os.Stat(f.path)
	if err == nil {
		var was os.FileInfo
		if was, err = f.Stat(); err == nil && !os.SameFile(now, was) {
			err = errors.New("another process replaced it")
		}
	}
	return atomicfile.Named(f.path, err)
}

func (f *grownFile) Close() error {
	if f.closed {
		return nil
	}
	f.closed = true
	return errors.Join(atomicfile.Named(f.path, f.File.Close()), f.lock.Release())
}
