package gguf

import (
	"errors"
	"fmt"
	"io"
	"os"

	"hotpath/internal/atomicfile"
	"hotpath/internal/format"
)

// WriteFile writes the file atomically, and keeps other processes from writing
// it at the same time. Whatever fails, nothing is left, and a file that was
// there before is untouched.
func (w *Writer) WriteFile(path string) (err error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s: expected a new file or a regular one: %w", path, format.ErrInvalid)
	}
	lock, err := atomicfile.Lock(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	return atomicfile.Write(path, func(out io.Writer) error { _, err := w.WriteTo(out); return err })
}
