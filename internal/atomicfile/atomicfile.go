// Package atomicfile writes files that appear under their names when they are
// complete. Until then a file has no name where the system allows that, so that
// a process that is killed leaves nothing behind; elsewhere it has a hidden one
// beside its place.
//
// It imports nothing of ours. Errors name the file that was asked for, and wrap
// those of the file system.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// File is a file that is being written.
type File struct {
	*os.File
	path  string
	named string // its name until then; "" where it has none
	over  bool
}

// Create begins a file that Commit will put at path, in place of the file that
// is there. A link at path is replaced too: follow it before. The file is
// readable by its owner until Chmod says otherwise.
func Create(path string) (*File, error) {
	f, err := unnamed(filepath.Dir(path))
	if err == nil {
		return &File{File: f, path: path}, nil
	}
	if f, err = os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".tmp-*"); err != nil {
		return nil, renamed(path, err)
	}
	return &File{File: f, path: path, named: f.Name()}, nil
}

// Write writes data to the file at path, whole or not at all.
func Write(path string, data []byte, mode fs.FileMode) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Chmod(mode)
	}
	if err != nil {
		return errors.Join(err, f.Abort())
	}
	return f.Commit()
}

// Writable finds out whether a file could be created at path, which is better
// known before the work than after it.
func Writable(path string) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	return f.Abort()
}

// Commit waits until the file is on the disk and gives it its name. Whatever
// fails, nothing is left, and the file that was there before is untouched.
func (f *File) Commit() error {
	if f.over {
		return fmt.Errorf("%s: %w", f.path, fs.ErrClosed)
	}
	f.over = true
	err := f.Sync()
	if err == nil && f.named == "" {
		err = f.name()
	}
	if closed := f.File.Close(); err == nil {
		err = closed
	}
	if err == nil && f.named != f.path {
		err = os.Rename(f.named, f.path)
	}
	if err != nil {
		if f.named != "" && f.named != f.path {
			_ = os.Remove(f.named)
		}
		return renamed(f.path, err)
	}
	// The name itself is durable once the folder is; not every file system can
	// sync a folder, and the file is whole either way.
	if dir, err := os.Open(filepath.Dir(f.path)); err == nil {
		_ = dir.Sync()
		_ = dir.Close()
	}
	return nil
}

// name gives a file without one its own, or a hidden one where that is taken.
func (f *File) name() error {
	err := link(f.File, f.path)
	if err == nil {
		f.named = f.path
		return nil
	}
	for tries := 0; errors.Is(err, fs.ErrExist) && tries < 100; tries++ {
		hidden := filepath.Join(filepath.Dir(f.path), fmt.Sprintf(".%s.tmp-%d", filepath.Base(f.path), rand.Uint32()))
		if err = link(f.File, hidden); err == nil {
			f.named = hidden
		}
	}
	return err
}

// Abort gives the file up. After Commit it does nothing.
func (f *File) Abort() error {
	if f.over {
		return nil
	}
	f.over = true
	err := f.File.Close()
	if f.named != "" {
		err = errors.Join(err, os.Remove(f.named))
	}
	return renamed(f.path, err)
}

// Errors of writing name the file that was asked for.

func (f *File) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	return n, renamed(f.path, err)
}

func (f *File) WriteAt(b []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(b, at)
	return n, renamed(f.path, err)
}

// renamed is an error of a temporary file as one of the file itself.
func renamed(path string, err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return &fs.PathError{Op: at.Op, Path: path, Err: at.Err}
	}
	var moved *os.LinkError
	if errors.As(err, &moved) {
		return &fs.PathError{Op: moved.Op, Path: path, Err: moved.Err}
	}
	return err
}
