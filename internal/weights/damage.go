package weights

import (
	"context"
	"errors"
	"io/fs"
	"syscall"
)

// Damage makes err, of reading a model's files, match an error of this package by
// errors.Is: ErrInvalid unless it matches another one already. Its text stays. Errors
// of the system and of a context are returned as they are.
func Damage(err error) error {
	if err == nil {
		return nil
	}
	for _, known := range []error{
		ErrNotModel, ErrInvalid, ErrTruncated, ErrUnsupported, ErrClosed,
		fs.ErrNotExist, fs.ErrPermission, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, known) {
			return err
		}
	}
	var path *fs.PathError
	var errno syscall.Errno
	if errors.As(err, &path) || errors.As(err, &errno) {
		return err
	}
	return &damage{err}
}

// damage is an ErrInvalid with the text of another error.
type damage struct{ error }

func (d *damage) Unwrap() []error { return []error{d.error, ErrInvalid} }
