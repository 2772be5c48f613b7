package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"hotpath/internal/format"
)

// outputFile is the file of -o. It appears under its name when it is complete;
// until then it is a hidden one beside it. With --resume it grows in place.
type outputFile struct {
	*os.File
	path   string
	temp   string // "" where the file grows in place
	stream bool   // it is written from its beginning to its end: a pipe or a device
	size   int64  // when it was opened
	closed bool
}

// createOutput begins a file. What is no regular file, such as a device, is
// written to directly.
func createOutput(ctx context.Context, path string) (*outputFile, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		if info.IsDir() {
			return nil, isDirectory(path)
		}
		// Opening a FIFO waits for a reader.
		f, err := waitFor(ctx, func() (*os.File, error) { return os.OpenFile(path, os.O_WRONLY, 0) })
		if err != nil {
			return nil, err
		}
		return &outputFile{File: f, path: path, stream: true}, nil
	}
	path, err := format.Followed(path)
	if err != nil {
		return nil, fmt.Errorf("-o %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".tmp-*")
	if err != nil {
		return nil, fmt.Errorf("-o %s: cannot be written: %w", path, errors.Unwrap(err))
	}
	// Readable for whom a plain file would be.
	mode := os.FileMode(0o644)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	if err := f.Chmod(mode); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return &outputFile{File: f, path: path, temp: f.Name()}, nil
}

func isDirectory(path string) error {
	return fmt.Errorf("-o %s: is a directory, expected a file", path)
}

// Errors name the file that was asked for, whatever it is called until then.

func (f *outputFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	return n, f.named(err)
}

func (f *outputFile) WriteAt(b []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(b, at)
	return n, f.named(err)
}

func (f *outputFile) named(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return &fs.PathError{Op: at.Op, Path: f.path, Err: at.Err}
	}
	var moved *os.LinkError
	if errors.As(err, &moved) {
		return &fs.PathError{Op: moved.Op, Path: f.path, Err: moved.Err}
	}
	return err
}

func (f *outputFile) empty() bool { return f.size == 0 }

// commit makes the file what its name stands for.
func (f *outputFile) commit() error {
	f.closed = true
	if f.temp == "" {
		return f.File.Close()
	}
	err := f.Sync()
	if closed := f.File.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.temp, f.path)
	}
	if err != nil {
		return errors.Join(f.named(err), os.Remove(f.temp))
	}
	return nil
}

// close removes a file that was not committed; one that grows in place stays.
func (f *outputFile) close() error {
	if f.closed {
		return nil
	}
	f.closed = true
	err := f.File.Close()
	if f.temp != "" {
		err = errors.Join(err, os.Remove(f.temp))
	}
	return err
}
