//go:build linux || darwin || freebsd || netbsd || dragonfly

package pull

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// freeSpace is how many bytes may be written into a folder, -1 if unknown.
func freeSpace(dir string) int64 {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return -1
	}
	return int64(s.Bavail) * int64(s.Bsize)
}

// lock waits until nobody else holds the lock at path, in this process or
// another, and returns what releases it. It is of the kind that the hub's own
// tools take. The file stays: only who holds it may remove it.
func lock(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	return flock(ctx, path, unix.LOCK_EX, waiting)
}

// lockShared is lock beside others that hold it shared.
func lockShared(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	return flock(ctx, path, unix.LOCK_SH, waiting)
}

func flock(ctx context.Context, path string, kind int, waiting func()) (unlock func(), err error) {
	f, err := openLock(path)
	if err != nil {
		return nil, err
	}
	for told := false; ; {
		err := unix.Flock(int(f.Fd()), kind|unix.LOCK_NB)
		unknown := errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.ENOLCK)
		if err == nil && !stillAt(path, f) { // who held it has removed it
			f.Close()
			if f, err = openLock(path); err != nil {
				return nil, err
			}
			continue
		}
		if err == nil || unknown { // some file systems have no locks
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, &os.PathError{Op: "lock", Path: path, Err: err}
		}
		if !told {
			told = true
			waiting()
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			f.Close()
			return nil, context.Cause(ctx)
		}
	}
}

func openLock(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
}

// stillAt reports whether an open file is the one that its path leads to.
func stillAt(path string, f *os.File) bool {
	now, err := os.Stat(path)
	was, failed := f.Stat()
	return err == nil && failed == nil && os.SameFile(now, was)
}

// syncDir makes the names in a folder last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
