package atomicfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks is how many the system follows.
const maxLinks = 40

// Followed is the file that a path stands for, through its symbolic links: who
// writes a file beside it and renames it there replaces the file and not the
// link. The file need not be there yet.
func Followed(path string) (string, error) {
	at := path
	for i := range maxLinks {
		to, err := os.Readlink(at)
		if err != nil { // no link, or writing will say what is wrong with it
			if i == 0 && strings.Contains(at, "..") { // a name that the caller may take apart
				at, err = located(at)
				return at, named(path, err)
			}
			return at, nil
		}
		if !filepath.IsAbs(to) {
			dir, _ := filepath.Split(at)
			to = dir + to
		}
		if at, err = located(to); err != nil {
			return "", named(path, err)
		}
	}
	return "", named(path, syscall.ELOOP)
}

// named says of which path an error is.
func named(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", path, err)
}

// located is a path by the folder that it really lies in. Nothing of it is
// cleaned before: .. of a folder behind a link is another than its text says.
func located(path string) (string, error) {
	dir, base := filepath.Split(path)
	if base == "" || base == "." || base == ".." { // a folder, which has to be there
		return filepath.EvalSymlinks(path)
	}
	if dir == "" {
		return base, nil
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, base), nil
}
