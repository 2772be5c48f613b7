package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// smallDisk is a folder on a disk of its own, and a function that fills the
// disk up to some bytes.
func smallDisk(t *testing.T) (dir string, fill func(left int)) {
	t.Helper()
	root := t.TempDir()
	if err := unix.Mount("tmpfs", root, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(root, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	dir = filepath.Join(root, "dir")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir, func(left int) {
		var disk unix.Statfs_t
		if err := unix.Statfs(root, &disk); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "filler"), make([]byte, int(disk.Bavail)*int(disk.Bsize)-left), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDiskFull(t *testing.T) {
	for _, c := range fullCases(t) {
		t.Run(c.name, func(t *testing.T) {
			dir, fill := smallDisk(t)
			c.prepare(t, dir)
			before := files(t, dir)
			fill(c.limit)
			c.check(t, dir, run(t, c.args(dir)...), before, "no space left on device")
		})
	}
}

// A pull onto a disk without room says so in one line before it fetches anything.
func TestPullOnAFullDisk(t *testing.T) {
	pretendHub(t)
	dir, fill := smallDisk(t)
	t.Setenv("HF_HOME", dir)
	t.Setenv("HF_HUB_CACHE", filepath.Join(dir, "hub"))
	fill(16 << 10)
	r := run(t, "pull", hubModel)
	if r.status != exitFailed || !strings.Contains(r.err, "MB to write and 64 MB to leave free, but 0.0 MB free: not enough disk space") || strings.Count(r.err, "\n") != 1 {
		t.Errorf("exit %d: %q", r.status, r.err)
	}
	for name, size := range files(t, dir) {
		if strings.Contains(name, "blobs") {
			t.Errorf("left behind: %s, %v", name, size)
		}
	}
}
