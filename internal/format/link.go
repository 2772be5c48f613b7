package format

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// maxLinks is how many the system follows.
const maxLinks = 40

// Followed is the file that a path stands for, through its symbolic links: who
// writes a file beside it and renames it there replaces the file and not the
// link. The file need not be there yet.
func Followed(path string) (string, error) {
	at := path
	for range maxLinks {
		to, err := os.Readlink(at)
		if err != nil {
			return at, nil // no link, or writing will say what is wrong with it
		}
		if !filepath.IsAbs(to) { // from where the link really lies: .. of a folder behind a link is another
			dir, err := filepath.EvalSymlinks(filepath.Dir(at))
			if err != nil {
				return "", err
			}
			to = filepath.Join(dir, to)
		}
		at = to
	}
	return "", fmt.Errorf("%s: %w", path, syscall.ELOOP)
}
