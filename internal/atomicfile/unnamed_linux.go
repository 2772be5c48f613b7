package atomicfile

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// unnamed opens a file in a folder that no name leads to. It fails where the
// file system has no such files, or where nobody could name it later.
func unnamed(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDWR|unix.O_TMPFILE, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(handle(f)); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// handle is the path by which the process itself knows an open file.
func handle(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// link gives an open file a name that is free.
func link(f *os.File, path string) error {
	err := unix.Linkat(unix.AT_FDCWD, handle(f), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
	if err != nil {
		return &os.LinkError{Op: "link", Old: f.Name(), New: path, Err: err}
	}
	return nil
}
