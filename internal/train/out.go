package train

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"hotpath/internal/atomicfile"
	"hotpath/internal/lockfile"
)

// out is the folder of a run's checkpoints and logs, which no other run writes
// meanwhile.
type out struct {
	dir  string
	lock *lockfile.Lock
	made bool // by this run
}

// lockOut makes the folder where it is missing, and keeps other runs out of it.
func lockOut(dir string) (*out, error) {
	_, err := os.Stat(dir)
	o := &out{dir: dir, made: errors.Is(err, fs.ErrNotExist)}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("field out: %w", err)
	}
	o.lock, err = lockfile.Acquire(filepath.Join(dir, ".lock"))
	if held := (*lockfile.HeldError)(nil); errors.As(err, &held) {
		return nil, fmt.Errorf("field out: another run writes to %s: %w", dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("field out: %w", err)
	}
	return o, nil
}

// sweep removes what a killed run left half done.
func (o *out) sweep() error {
	left, err := fs.Glob(os.DirFS(o.dir), tempPrefix+stepPrefix+"*")
	for _, name := range left {
		err = errors.Join(err, os.RemoveAll(filepath.Join(o.dir, name)))
	}
	for _, log := range []string{jsonLog, csvLog, eventLog, bestFile, plotFile} {
		err = errors.Join(err, atomicfile.Sweep(filepath.Join(o.dir, log)))
	}
	return err
}

// close lets other runs in, and removes a folder that is as empty as when this
// run made it.
func (o *out) close() error {
	err := o.lock.Release()
	if o.made {
		_ = os.Remove(o.dir) // fails where it has files
	}
	return err
}
