package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"hotpath/internal/atomicfile"
	"hotpath/internal/format"
)

// outputFile is the file of -o. It appears under its name when it is complete.
// With --resume it grows in place.
type outputFile struct {
	*os.File
	path   string
	whole  *atomicfile.File // nil where the file grows in place
	stream bool             // it is written from its beginning to its end: a pipe or a device
	size   int64            // when it was opened
	closed bool
}

// createOutput begins a file. What is no regular file, such as a device, is
// written to directly.
func createOutput(path string) (*outputFile, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		if info.IsDir() {
			return nil, isDirectory(path)
		}
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		return &outputFile{File: f, path: path, stream: true}, nil
	}
	path, err := format.Followed(path)
	if err != nil {
		return nil, fmt.Errorf("-o %w", err)
	}
	f, err := atomicfile.Create(path)
	if err != nil {
		return nil, fmt.Errorf("-o %s: cannot be written: %w", path, errors.Unwrap(err))
	}
	// Readable for whom a plain file would be.
	mode := os.FileMode(0o644)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	if err := f.Chmod(mode); err != nil {
		return nil, errors.Join(err, f.Abort())
	}
	return &outputFile{File: f.File, path: path, whole: f}, nil
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
	return err
}

func (f *outputFile) empty() bool { return f.size == 0 }

// commit makes the file what its name stands for.
func (f *outputFile) commit() error {
	f.closed = true
	if f.whole == nil {
		return f.File.Close()
	}
	return f.whole.Commit()
}

// close gives up a file that was not committed; one that grows in place stays.
func (f *outputFile) close() error {
	if f.closed {
		return nil
	}
	f.closed = true
	if f.whole == nil {
		return f.File.Close()
	}
	return f.whole.Abort()
}
