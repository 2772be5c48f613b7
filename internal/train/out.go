package train

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

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

// outside refuses a folder of logs and checkpoints inside of a folder of data, which
// would take log.jsonl for data when the run is resumed.
func outside(out string, lists ...[]string) error {
	to, err := filepath.Abs(out)
	if err != nil {
		return fmt.Errorf("field out: %w", err)
	}
	for _, path := range slices.Concat(lists...) {
		from, err := filepath.Abs(path)
		if info, statErr := os.Stat(path); err != nil || statErr != nil || !info.IsDir() {
			continue // reading the data says what is wrong with it
		}
		if rel, err := filepath.Rel(from, to); err == nil && filepath.IsLocal(rel) {
			return fmt.Errorf("field out: %s is inside of the folder of data %s, which would take its logs for data, expected another folder: %w", out, path, ErrConfig)
		}
	}
	return nil
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
