package gguf

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"hotpath/internal/atomicfile"
	"hotpath/internal/format"
)

// WriteFile writes the file at path, or where the link at path leads, atomically. Whatever fails, nothing is left, and a file that was there before is
// untouched.
func (w *Writer) WriteFile(path string) (err error) {
	mode := fs.FileMode(0o644)
	if info, statErr := os.Stat(path); statErr == nil {
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s: expected a new file or a regular one: %w", path, format.ErrInvalid)
		}
		mode = info.Mode().Perm()
	}
	target, err := format.Followed(path)
	if err != nil {
		return err
	}
	f, err := atomicfile.Create(target)
	if err != nil {
		return fmt.Errorf("%s: %w", path, reason(err))
	}
	defer func() {
		if err != nil {
			_ = f.Abort() // the first error has the reason
			err = fmt.Errorf("%s: %w", path, reason(err))
		}
	}()
	out := bufio.NewWriterSize(f, 1<<20)
	if _, err = w.WriteTo(out); err != nil {
		return err
	}
	if err = out.Flush(); err != nil {
		return err
	}
	if err = f.Chmod(mode); err != nil {
		return err
	}
	return f.Commit()
}

// reason is an error without the temporary file's name.
func reason(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}
