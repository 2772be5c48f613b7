package calib

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"hotpath/internal/plan"
)

// Where figures come from.
const (
	FromMeasured = "measured now"
	FromCache    = "measured before"
	FromDefault  = "built in"
)

// Found are figures and their origin.
type Found struct {
	Costs Costs
	From  string
	File  string // that keeps them; "" where none does
	Note  string // why they are not what one might expect
}

// String tells the origin of the figures, and the reason.
func (f Found) String() string {
	s := f.From
	if f.File != "" {
		s += ", kept in " + f.File
	}
	if f.Note != "" {
		s += " (" + f.Note + ")"
	}
	return s
}

// Find gives the figures for a number of workers from the cache. If there are none,
// or anew is set, it measures them on the backend that open opens and keeps them.
// A file that cannot be read is measured again. A file that cannot be written and a
// busy machine, whose figures are not kept, are only notes. The only errors are
// those of the backend and of the context.
func Find(ctx context.Context, workers int, anew bool, open func() (plan.Backend, error)) (f Found, err error) {
	k := KeyOf(workers)
	f = Found{Costs: Default(workers, k.Parallel()), From: FromDefault}
	if os.Getenv(Env) == Off {
		f.Note = Env + " is off"
		return f, nil
	}
	dir, dirErr := Dir()
	if dirErr == nil && !anew {
		c, err := Load(dir, k)
		if err == nil {
			return Found{Costs: c, From: FromCache, File: k.file(dir)}, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			f.Note = "measured again: " + err.Error()
		}
	}
	be, err := open()
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, be.Close()) }()
	c, err := Measure(ctx, be, k.Parallel())
	switch {
	case ctx.Err() != nil:
		return f, context.Cause(ctx)
	case err != nil:
		f.Note = "not measured: " + err.Error()
		return f, nil
	}
	f.Costs, f.From = c, FromMeasured
	if dirErr == nil {
		dirErr = Store(dir, k, c)
	}
	if dirErr != nil {
		f.Note = "not kept: " + dirErr.Error()
		return f, nil
	}
	f.File = k.file(dir)
	return f, nil
}
