//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package lockfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

const noFollow = unix.O_NOFOLLOW

// lock locks an open file, or says at once why not.
func lock(f *os.File, alone bool) error {
	kind := unix.LOCK_SH
	if alone {
		kind = unix.LOCK_EX
	}
	for {
		err := unix.Flock(int(f.Fd()), kind|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			return errHeld
		case errors.Is(err, unix.ENOLCK):
			return errors.ErrUnsupported
		}
		return err
	}
}

// removeLocked removes a lock file and then closes it. Whoever waits for the
// closed file sees that it is gone. A file that others share stays.
func removeLocked(path string, f *os.File) error {
	var err error
	if lock(f, true) == nil && stillAt(path, f) {
		err = os.Remove(path)
	}
	return errors.Join(err, f.Close())
}
