//go:build linux || darwin || freebsd || netbsd || dragonfly

package pull

import "golang.org/x/sys/unix"

// freeSpace is how many bytes may be written into a folder, -1 if unknown.
func freeSpace(dir string) int64 {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return -1
	}
	return int64(s.Bavail) * int64(s.Bsize)
}
